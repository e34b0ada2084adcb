/**
 * Tracks the health of connections by name: endpoints, and sessions such as a child process, a socket, a terminal pane
 * or a browser tab.
 *
 * States of a name: **unknown** (too few outcomes, counts as healthy), **healthy**, **unhealthy** (at least half of the
 * last calls and pings failed: see `HealthWindow`), **dead** (reported by a probe or by the program). An unhealthy name
 * can recover by itself. A dead name stays dead until it is registered again.
 *
 * - `guard(name)(effect)` checks health before a call, and records its outcome and latency. Interruptions, and refusals
 *   by a circuit, a limiter or another monitor, are not outcomes. Each counted failure is published as
 *   `ConnectionFailure`.
 * - `register(name, { ping, probe })` checks the name in the background until its scope ends. A **ping** measures
 *   health; a **probe** tells whether the session still exists. Either may fail with {@link ProbeError}, which means
 *   that the check itself could not run. An event reports that, and health stays unchanged.
 * - While a name is unhealthy, one call or ping is let through after each `cooldown` to test it. A registered name thus
 *   recovers without calls, and an unregistered one through calls. A test without an outcome lets the next one through
 *   at once.
 * - A ping or a probe that throws, dies or fails with any error is reported in an event, and repeated later.
 *
 * **Memory and time.** All state is in the memory of the process. A name takes one bounded window; a registered name
 * also takes one fiber, which sleeps between checks. Unregistered names are limited to `maxIdle` and removed when
 * unused for `idleFor`; both are enforced when a new name is added. A removed name is unknown again, even if it was
 * dead. Times are monotonic; only events and {@link Status} have Unix times.
 *
 * **How it composes.** Put `guard` outside or inside a retry; inside, each attempt is checked and recorded. Next to a
 * `CircuitBreaker` on the same calls, the monitor adds pings without calls, session death, and latency.
 *
 * **Limits.** The monitor does not retry, reconnect or restart. Calls in flight are not interrupted when a session
 * dies. Nothing is shared between processes.
 *
 * **Example** (A child process and an endpoint)
 *
 * ```ts
 * const program = Effect.gen(function* () {
 *   const monitor = yield* ConnectionMonitor.ConnectionMonitor
 *   yield* monitor.register("worker", {
 *     probe: Effect.sync(() => (child.exitCode === null ? "alive" : "dead"))
 *   })
 *   return yield* monitor.guard(["worker", "https://api.example.com"])(call)
 * })
 * ```
 */
import { Clock, Config, Context, Duration, Effect, Exit, Layer, Semaphore } from "effect"
import type { Cause, Scope } from "effect"
import * as Check from "../Options.ts"
import * as ResilienceEvents from "../telemetry/ResilienceEvents.ts"
import { answerOf, failureOf } from "./Answer.ts"
import type { ConnectionEvent } from "./ConnectionEvent.ts"
import type { ConnectionState, Event } from "./ConnectionState.ts"
import * as Connection from "./ConnectionState.ts"
import { Connections } from "./Connections.ts"
import type { Watched } from "./Connections.ts"
import * as HealthWindow from "./HealthWindow.ts"
import { monotonic, statusOf } from "./ConnectionStatus.ts"
import type { Status } from "./ConnectionStatus.ts"
import { ProbeError, SessionDead, Unhealthy } from "./NotHealthy.ts"
import type { NotHealthy } from "./NotHealthy.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/**
 * One name, or all names that a call depends on. The call is made only when every name allows it, and its outcome
 * counts for each.
 */
export type Names = string | ReadonlyArray<string>

/**
 * Checks whether a session still exists. Return `"dead"` only when that is certain; fail with a {@link ProbeError} when
 * the check could not run.
 */
export type Probe<R = never> = Effect.Effect<"alive" | "dead", ProbeError, R>

/** The checks of a registered name. Without a ping and a probe, registration only keeps the name from being removed. */
export interface Registration<E = never, R = never> {
  /** Measures health: success, failure and latency are outcomes. A {@link ProbeError} or a defect is not an outcome. */
  readonly ping?: Effect.Effect<unknown, E, R> | undefined
  readonly probe?: Probe<R> | undefined
  /** Time between two checks. Infinity: check only while unhealthy. Default: the monitor's `interval`. */
  readonly interval?: Duration.Input | undefined
  /** Time limit of a ping and of a probe. Default: the monitor's `timeout`. */
  readonly timeout?: Duration.Input | undefined
}

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

export { ProbeError, SessionDead, Unhealthy }
export type { NotHealthy, Status }

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

export interface Service {
  /**
   * Checks `name` until the scope ends, the first time at once. Registering a name again replaces its registration. A
   * dead name starts anew; other names keep their history.
   *
   * Dies with an `InvalidOption`, a `RangeError`, for an interval or a time limit out of its range, before the first
   * check.
   */
  readonly register: <E = never, R = never>(
    name: string,
    registration: Registration<E, R>
  ) => Effect.Effect<void, never, R | Scope.Scope>
  /**
   * Records an outcome measured elsewhere. `latency` counts only for a success. A latency that is negative, infinite or
   * invalid (e.g. after a change of the wall clock) is ignored; the outcome still counts.
   */
  readonly record: (
    names: Names,
    outcome: "success" | "failure",
    latency?: Duration.Input
  ) => Effect.Effect<void>
  /**
   * Fails if a call must not be made now. Reads the known state, and sends nothing.
   *
   * While the name is unhealthy, a call that passes after a cooldown holds the permit to test the connection. Report
   * its outcome with {@link record}, or use {@link guard}, which also gives the permit back without an outcome.
   */
  readonly check: (names: Names) => Effect.Effect<void, NotHealthy>
  /** Checks health, then runs an effect and records its outcome. */
  readonly guard: (
    names: Names
  ) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | NotHealthy, R>
  /** Runs the checks of a registered name now, and returns its status. */
  readonly ask: (name: string) => Effect.Effect<Status>
  /** Declares a session dead, for a program that gets notified: an exit event, a closed socket. */
  readonly died: (name: string, reason: string) => Effect.Effect<void>
  /**
   * Waits until calls are allowed: until a registered name is healthy, or until an unregistered one lets a test call
   * through. Fails when the session dies. Sends nothing.
   */
  readonly awaitHealthy: (name: string) => Effect.Effect<void, SessionDead>
  readonly status: (name: string) => Effect.Effect<Status>
  readonly list: Effect.Effect<ReadonlyArray<Status>>
}

export class ConnectionMonitor extends Context.Service<ConnectionMonitor, Service>()(
  "@outlast/resilience/health/ConnectionMonitor"
) {}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Options of the monitor. Defaults: see {@link defaults}. */
export interface Options {
  /** The rule for an unhealthy name. Default: see `HealthWindow.defaults`. */
  readonly window?: HealthWindow.Options | undefined
  /** Time between two checks of a registered name. Default: 30 seconds. */
  readonly interval?: Duration.Input | undefined
  /** Time limit of a ping and of a probe. Default: 10 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** Time between two tests of an unhealthy name. Default: 10 seconds. */
  readonly cooldown?: Duration.Input | undefined
  /** Maximum number of unregistered names. Default: 10,000. */
  readonly maxIdle?: number | undefined
  /** Unregistered names are removed when unused for this long. Default: 1 hour. */
  readonly idleFor?: Duration.Input | undefined
  /** Decides which failures of a call are failures of the connection. Others are not outcomes. Default: all. */
  readonly counts?: ((cause: Cause.Cause<unknown>) => boolean) | undefined
}

/** The ping every 30 seconds and the threshold of one half are those of DECISION_037. */
export const defaults = {
  interval: "30 seconds",
  timeout: "10 seconds",
  cooldown: "10 seconds",
  maxIdle: 10_000,
  idleFor: "1 hour"
} as const satisfies Options

const module = "ConnectionMonitor"
const { is } = Check
const interval = is.duration({ min: "1 millis", max: Duration.infinity })
const atLeastOneMilli = is.duration({ min: "1 millis" })

const checks: Check.Checks<Options> = {
  // `HealthWindow.spec` checks its fields.
  window: is.anything,
  interval,
  timeout: atLeastOneMilli,
  cooldown: atLeastOneMilli,
  maxIdle: is.integer({ min: 1 }),
  idleFor: atLeastOneMilli,
  counts: is.fn("(cause) => boolean")
}

const registrationChecks: Check.Checks<Registration> = {
  ping: is.effect,
  probe: is.effect,
  interval,
  timeout: atLeastOneMilli
}

/** Creates a monitor. Dies with an `InvalidOption`, a `RangeError`, for an option out of its range. */
export const make = (options: Options = {}): Effect.Effect<Service> =>
  Effect.sync(() => {
    Check.fields(module, options, checks)
    const interval = Duration.toMillis(options.interval ?? defaults.interval)
    const timeout = Duration.fromInputUnsafe(options.timeout ?? defaults.timeout)
    const spec: Connection.Spec = {
      window: HealthWindow.spec(options.window),
      cooldown: Duration.toMillis(options.cooldown ?? defaults.cooldown),
      interval
    }
    const connections = new Connections(
      options.maxIdle ?? defaults.maxIdle,
      Duration.toMillis(options.idleFor ?? defaults.idleFor)
    )
    const counts = options.counts ?? (() => true)

    // --- changes of state

    const change = (watched: Watched, event: Event, clock: Clock.Clock): Effect.Effect<void> => {
      const before = watched.state
      watched.state = Connection.step(watched.spec, before, event, monotonic(clock))
      if (event._tag === "Died") {
        if (before.death !== undefined) return Effect.void
        watched.wakeAll()
        return publish(clock, { _tag: "SessionDied", connection: watched.name, reason: event.reason })
      }
      // Wakes the fiber only when the next check moves forward. Otherwise every call would wake it.
      if (Connection.dueAt(watched.state) < Connection.dueAt(before)) watched.wake.openUnsafe()
      return announce(watched, clock)
    }

    const announce = (watched: Watched, clock: Clock.Clock): Effect.Effect<void> => {
      const now = monotonic(clock)
      const [to, state] = Connection.announce(watched.state, now)
      if (to === undefined) return Effect.void
      watched.state = state
      watched.wakeAll()
      const { outcomes, failureRate = 0 } = HealthWindow.read(spec.window, state.window, now)
      const from = to === "healthy" ? "unhealthy" : "healthy"
      return publish(clock, {
        _tag: "HealthChanged",
        connection: watched.name,
        from,
        to,
        outcomes,
        failureRate
      })
    }

    /**
     * Admits a call when all names allow it. Permits are taken in one synchronous step; `told` publishes the events.
     */
    const admit = (names: ReadonlyArray<string>, clock: Clock.Clock): Granted | NotHealthy => {
      const now = monotonic(clock)
      const granted: Array<readonly [Watched, ConnectionState]> = []
      const holders: Array<Holder> = []
      for (const name of names) {
        const watched = connections.find(name, now)
        if (watched === undefined) {
          holders.push({ name, watched: undefined, permit: undefined })
          continue
        }
        const [admission, state] = Connection.admit(watched.spec, watched.state, now)
        if (admission._tag !== "Admitted") return refusal(watched, admission, now)
        granted.push([watched, state])
        holders.push({ name, watched, permit: admission.permit })
      }
      let told: Effect.Effect<void> = Effect.void
      for (const [watched, state] of granted) {
        watched.state = state
        // The connection may have recovered by age since the last event.
        if (state.announced === "unhealthy") told = Effect.andThen(told, announce(watched, clock))
      }
      return { holders, told }
    }

    const giveBack = (watched: Watched | undefined, permit: number | undefined, clock: Clock.Clock): void => {
      if (watched === undefined || permit === undefined) return
      watched.state = Connection.step(
        watched.spec,
        watched.state,
        { _tag: "GaveBack", permit },
        monotonic(clock)
      )
    }

    const refusal = (watched: Watched, admission: Refused, now: number): NotHealthy =>
      admission._tag === "Dead"
        ? new SessionDead({ connection: watched.name, reason: admission.death.reason })
        : new Unhealthy({
            connection: watched.name,
            failureRate: HealthWindow.read(spec.window, watched.state.window, now).failureRate ?? 0,
            retryAfter: Duration.millis(admission.wait)
          })

    /** Records an outcome for all names in one synchronous step, and returns the effect that publishes the events. */
    const recordAll = (
      names: ReadonlyArray<Pick<Holder, "name"> & Partial<Holder>>,
      outcome: HealthWindow.Outcome,
      error: string | undefined,
      clock: Clock.Clock
    ): Effect.Effect<void> => {
      const now = monotonic(clock)
      const told = names.flatMap(({ name, watched: began }) => {
        const watched = connections.use(name, now, spec)
        // The call belonged to a session that has been replaced since.
        if (began !== undefined && began !== watched && began.state.death !== undefined) return []
        if (watched.state.death !== undefined) return []
        const changed = change(watched, { _tag: "Called", outcome }, clock)
        if (outcome._tag === "Succeeded") return [changed]
        const failure = { _tag: "ConnectionFailure", connection: name } as const
        return [publish(clock, error === undefined ? failure : { ...failure, error }), changed]
      })
      return Effect.all(told, { discard: true })
    }

    const recordExit = (
      holders: ReadonlyArray<Holder>,
      exit: Exit.Exit<unknown, unknown>,
      startedAt: number,
      clock: Clock.Clock
    ): Effect.Effect<void> => {
      if (Exit.isSuccess(exit)) {
        const latency = monotonic(clock) - startedAt
        return recordAll(holders, { _tag: "Succeeded", latency }, undefined, clock)
      }
      const failure = failureOf(exit.cause, counts)
      if (failure !== undefined) return recordAll(holders, { _tag: "Failed" }, failure.error, clock)
      for (const { watched, permit } of holders) giveBack(watched, permit, clock)
      return Effect.void
    }

    // --- pings and probes

    const askWith = <E, R>(
      watched: Watched,
      { ping, probe }: Registration<E, R>,
      limit: Duration.Duration,
      token: object
    ): Effect.Effect<void, never, R> =>
      Effect.gen(function* () {
        const clock = yield* Clock.Clock
        const isOver = () => watched.token !== token || watched.state.death !== undefined
        if (isOver()) return
        if (probe !== undefined) {
          const answer = yield* answerOf(probe, limit)
          if (isOver()) return
          if (answer._tag === "Answered" && answer.value === "dead") {
            return yield* change(watched, { _tag: "Died", reason: "probe" }, clock)
          }
          if (answer._tag !== "Answered") {
            yield* unavailable(
              watched,
              "probe",
              answer._tag === "Failed" ? answer.error : answer.reason,
              clock
            )
          }
        }
        if (ping === undefined) return yield* change(watched, { _tag: "Asked" }, clock)
        const startedAt = monotonic(clock)
        let permit: number | undefined
        const withoutOutcome = Effect.sync(() => giveBack(watched, permit, clock))
        const answer = yield* Effect.uninterruptibleMask((restore) => {
          // While the ping is in flight, no call gets the permit.
          const [admission, state] = Connection.admit(watched.spec, watched.state, startedAt)
          watched.state = state
          if (admission._tag === "Admitted") permit = admission.permit
          return Effect.onInterrupt(restore(answerOf(ping, limit)), () => withoutOutcome)
        })
        if (isOver()) return yield* withoutOutcome
        const latency = monotonic(clock) - startedAt
        switch (answer._tag) {
          case "Answered":
            return yield* change(watched, { _tag: "Pinged", outcome: { _tag: "Succeeded", latency } }, clock)
          case "Unavailable":
            yield* withoutOutcome
            yield* unavailable(watched, "ping", answer.reason, clock)
            return yield* change(watched, { _tag: "Asked" }, clock)
          case "Failed":
            yield* publish(clock, {
              _tag: "PingFailed",
              connection: watched.name,
              error: answer.error,
              latency
            })
            return yield* change(watched, { _tag: "Pinged", outcome: { _tag: "Failed" } }, clock)
        }
      })

    const unavailable = (watched: Watched, mechanism: "ping" | "probe", reason: string, clock: Clock.Clock) =>
      publish(clock, { _tag: "PingUnavailable", connection: watched.name, mechanism, reason })

    const asker = (watched: Watched, token: object): Effect.Effect<void> =>
      Effect.gen(function* () {
        const clock = yield* Clock.Clock
        while (watched.token === token && watched.state.death === undefined) {
          yield* announce(watched, clock)
          const now = monotonic(clock)
          if (now >= watched.state.askAt) {
            yield* watched.ask
          } else {
            watched.wake.closeUnsafe()
            const due = Connection.dueAt(watched.state)
            yield* Number.isFinite(due)
              ? Effect.raceFirst(watched.wake.await, Effect.sleep(Duration.millis(due - now)))
              : watched.wake.await
          }
        }
      })

    // --- reading

    const status = (name: string) =>
      Effect.map(Clock.Clock, (clock) =>
        statusOf(spec, name, connections.find(name, monotonic(clock)), clock)
      )

    const awaitHealthy = (name: string): Effect.Effect<void, SessionDead> =>
      Effect.flatMap(Clock.Clock, (clock) => {
        const now = monotonic(clock)
        const watched = connections.find(name, now)
        if (watched === undefined) return Effect.void
        const { death, window } = watched.state
        if (death !== undefined) {
          return Effect.fail(new SessionDead({ connection: name, reason: death.reason }))
        }
        if (!HealthWindow.isUnhealthy(window, now)) return announce(watched, clock)
        // An unregistered name has no checks. A call tests it, as soon as one is let through.
        const [admission] = Connection.admit(watched.spec, watched.state, now)
        const isAsked = watched.token !== undefined
        if (!isAsked && admission._tag === "Admitted") return Effect.void
        const wait = isAsked || admission._tag !== "Refused" ? window.unhealthyUntil - now : admission.wait
        const aged = Effect.sleep(Duration.millis(wait))
        return Effect.flatMap(Effect.raceFirst(watched.changed, aged), () => awaitHealthy(name))
      })

    return {
      register: Effect.fnUntraced(function* <E, R>(name: string, registration: Registration<E, R>) {
        is.text(module, "name", name)
        Check.fields<object>(module, registration, registrationChecks)
        const clock = yield* Clock.Clock
        const context = yield* Effect.context<R>()
        const limit = Duration.fromInputUnsafe(registration.timeout ?? timeout)
        const own: Connection.Spec = {
          ...spec,
          interval: Duration.toMillis(registration.interval ?? interval)
        }
        const token = {}
        // Runs one check at a time, from the background fiber or from `ask`.
        const asking = Semaphore.makeUnsafe(1)
        const watched = yield* Effect.acquireRelease(
          Effect.sync(() => {
            const watched = connections.register(name, monotonic(clock), own)
            watched.token = token
            watched.spec = own
            watched.state = { ...watched.state, askAt: monotonic(clock) }
            watched.ask = asking.withPermits(1)(
              Effect.provideContext(askWith(watched, registration, limit, token), context)
            )
            // The fiber of an earlier registration wakes up, finds another token, and ends.
            watched.wake.openUnsafe()
            return watched
          }),
          (watched) =>
            Effect.sync(() => {
              if (watched.token !== token) return
              watched.token = undefined
              watched.ask = Effect.void
              connections.release(watched, monotonic(clock))
            })
        )
        if (registration.ping !== undefined || registration.probe !== undefined) {
          yield* Effect.forkScoped(asker(watched, token), { startImmediately: true })
        }
      }),
      record: (names, outcome, latency) =>
        Effect.flatMap(Clock.Clock, (clock) => {
          Check.oneOf(module, "outcome", outcome, ["success", "failure"])
          return recordAll(
            listOf(names).map((name) => ({ name })),
            outcome === "failure" ? { _tag: "Failed" } : { _tag: "Succeeded", latency: latencyOf(latency) },
            undefined,
            clock
          )
        }),
      check: (names) =>
        Effect.flatMap(Clock.Clock, (clock) => {
          const admission = admit(listOf(names), clock)
          return "holders" in admission ? admission.told : Effect.fail(admission)
        }),
      guard: (names) => {
        const all = listOf(names)
        return <A, E, R>(effect: Effect.Effect<A, E, R>) => {
          Check.effect(module, "effect", effect)
          // Uninterruptible between taking the permit and reporting the outcome.
          return Effect.uninterruptibleMask((restore) =>
            Effect.flatMap(Clock.Clock, (clock): Effect.Effect<A, E | NotHealthy, R> => {
              const admission = admit(all, clock)
              if (!("holders" in admission)) return Effect.fail(admission)
              const { holders, told } = admission
              let startedAt = 0
              const call = Effect.suspend(() => {
                startedAt = monotonic(clock)
                return effect
              })
              return Effect.onExit(restore(Effect.andThen(told, call)), (exit) =>
                recordExit(holders, exit, startedAt, clock)
              )
            })
          )
        }
      },
      ask: (name) =>
        Effect.flatMap(Clock.Clock, (clock) =>
          Effect.andThen(connections.find(name, monotonic(clock))?.ask ?? Effect.void, status(name))
        ),
      died: (name, reason) =>
        Effect.flatMap(Clock.Clock, (clock) =>
          change(connections.use(name, monotonic(clock), spec), { _tag: "Died", reason }, clock)
        ),
      awaitHealthy,
      status,
      list: Effect.map(Clock.Clock, (clock) =>
        connections.all(monotonic(clock)).map((watched) => statusOf(spec, watched.name, watched, clock))
      )
    }
  })

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** The layer of {@link make}. Building it dies for an option out of its range. */
export const layer = (options: Options = {}): Layer.Layer<ConnectionMonitor> =>
  Layer.effect(ConnectionMonitor, make(options))

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * ConnectionMonitor.layerConfig({ interval: Config.Duration("PING_INTERVAL") })
 * ```
 */
export const layerConfig = (
  options: Config.Wrap<Options>
): Layer.Layer<ConnectionMonitor, Config.ConfigError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      return layer(yield* Config.unwrap<Options>(options))
    })
  )

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

type Refused = Exclude<Connection.Admission, { readonly _tag: "Admitted" }>

/** A name of a call, with its state object at the start of the call, and its permit if it has one. */
interface Holder {
  readonly name: string
  readonly watched: Watched | undefined
  readonly permit: number | undefined
}

interface Granted {
  readonly holders: ReadonlyArray<Holder>
  readonly told: Effect.Effect<void>
}

/** Returns milliseconds, or `undefined` for a value that cannot have been measured. */
const latencyOf = (input: Duration.Input | undefined): number | undefined => {
  if (input === undefined) return undefined
  try {
    return Check.millis(module, "latency", input)
  } catch {
    return undefined
  }
}

/** Returns each name once. */
const listOf = (names: Names): ReadonlyArray<string> => {
  if (typeof names === "string") return [names]
  is.list(is.string, "the name of a connection, or a list of names")(module, "names", names)
  return [...new Set(names)]
}

const publish = (clock: Clock.Clock, event: ResilienceEvents.NoTime<ConnectionEvent>): Effect.Effect<void> =>
  Effect.flatMap(ResilienceEvents.ResilienceEvents, (events) =>
    ResilienceEvents.publisher(events, clock)<ConnectionEvent>(event)
  )
