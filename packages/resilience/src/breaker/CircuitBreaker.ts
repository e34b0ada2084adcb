/**
 * Stops calling a service that keeps failing, and tests when it has recovered.
 *
 * A service keyed by **circuit name** (any string: an endpoint, a model, a tool). `execute` and `executeStream` guard a
 * call; `acquire` gives a permit to code that decides itself when a call has ended. Each name has its own
 * `CircuitState`, created on first use and removed when idle. One policy applies to all names.
 *
 * **States.** Closed: calls run and are counted. Open: calls are refused with `CircuitRefused`, at once. Half-open: a
 * few calls run as probes. Isolated: held open by hand. `CircuitState` has the transitions.
 *
 * **What counts.** A typed failure or a defect is a failure. An interruption does not count, and neither does a refusal
 * by a breaker or limiter inside (`Refusal`). `classify` can decide otherwise, in every phase. A timeout inside the
 * guarded call counts as a failure; a timeout around it is an interruption.
 *
 * **How it composes.** Put the breaker inside a retry, so that it sees every attempt. With several names, a call needs
 * a permit from every circuit. `RedisCircuitStore` shares open circuits between processes.
 *
 * **Limits.** The breaker does not retry (`Retry`), limit time (`Effect.timeout`), or ping (`ConnectionMonitor`).
 *
 * **Example** (One circuit for an endpoint)
 *
 * ```ts
 * const program = fetchAnswer.pipe(CircuitBreaker.execute("https://api.example.com"))
 * program.pipe(Effect.provide(CircuitBreaker.layer()))
 * ```
 */
import type { Scope } from "effect"
import { Cause, Context, Duration, Effect, Exit, Fiber, Layer, Option, Stream } from "effect"
import type { Ref } from "effect"
import * as MissingService from "../MissingService.ts"
import * as Check from "../Options.ts"
import * as Refusal from "../Refusal.ts"
import { numberOf, textOf } from "../telemetry/Fields.ts"
import type { CircuitTransition } from "./CircuitEvent.ts"
import type { CircuitPolicy } from "./CircuitPolicy.ts"
import * as Policy from "./CircuitPolicy.ts"
import { CircuitRefused } from "./CircuitRefused.ts"
import type { AnyFiber, Cell } from "./Circuits.ts"
import * as Circuits from "./Circuits.ts"
import { draw, monotonic, wallTime } from "./Circuits.ts"
import * as State from "./CircuitState.ts"
import type { CircuitStore } from "./CircuitStore.ts"
import { memory } from "./CircuitStore.ts"

/** The outcome of a call for its circuit. */
export type Outcome = { readonly counts: "success" | "ignored" } | ({ readonly counts: "failure" } & Failure)

/** A failure that a circuit counts. */
export interface Failure {
  /** Minimum time before the next call, as requested by the server. */
  readonly retryAfter?: Duration.Input | undefined
  /** Short description without secrets, for refusals and status pages. Default: the result of `describe`. */
  readonly what?: string | undefined
}

/**
 * Decides the outcome of an exit. Never called for an interruption. If the function throws, the call does not count.
 */
export type Classify = (exit: Exit.Exit<unknown, unknown>) => Outcome

export interface CallOptions {
  /** Default: {@link classify}. */
  readonly classify?: Classify | undefined
  /**
   * Identifies the call that an attempt belongs to. Attempts with the same value are one call. `Retry` sets it.
   * Default: each attempt is a separate call.
   */
  readonly call?: unknown
  /**
   * Set when the call has no alternative. One such call per second passes an open or a half-open circuit, and its
   * outcome counts as a probe's. Default: false.
   */
  readonly lastResort?: boolean | undefined
  /**
   * Set when the circuit refused this call before. After a circuit closes, such calls pass gradually: three at once,
   * and one more for each success. Default: false.
   */
  readonly waited?: boolean | undefined
}

/** The name of one circuit, or of several. Either all of them let the call through, or none is changed. */
export type Names = string | ReadonlyArray<string>

/** The right to make one call. The first of its functions to run reports the outcome; later ones do nothing. */
export interface Permit {
  readonly succeed: Effect.Effect<void>
  readonly fail: (failure?: Failure) => Effect.Effect<void>
  /** Reports no outcome. Runs automatically when the scope ends first. */
  readonly ignore: Effect.Effect<void>
}

/**
 * Reports the outcome of a call that {@link Service.enterUnsafe} let through. `now` is in monotonic milliseconds, for a
 * caller that has already read the clock. Default: the clock of the fiber.
 */
export type Leave = (outcome: Outcome, fiber: AnyFiber, now?: number) => void

/** The present state of a circuit. */
export interface Status {
  readonly circuit: string
  readonly phase: State.Phase
  readonly generation: number
  /** Time until the next call is let through. Set only while the circuit is open. */
  readonly retryAfter: Duration.Duration | undefined
  /** Consecutive failures, as far as the policy counts them. */
  readonly failures: number
  /** Consecutive openings. */
  readonly openings: number
  /** Short description of the last failure that this process counted since the circuit was closed. */
  readonly lastFailure: string | undefined
}

export interface Service {
  readonly execute: (
    names: Names,
    options?: CallOptions
  ) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | CircuitRefused, R>
  /**
   * Guards a stream. The whole stream has one outcome, reported at its end. A consumer that stops early reports none.
   */
  readonly executeStream: (
    names: Names,
    options?: CallOptions
  ) => <A, E, R>(self: Stream.Stream<A, E, R>) => Stream.Stream<A, E | CircuitRefused, R>
  readonly acquire: (
    names: Names,
    options?: Omit<CallOptions, "classify">
  ) => Effect.Effect<Permit, CircuitRefused, Scope.Scope>
  /**
   * A cheaper {@link acquire} for hot paths, without an Effect or a scope.
   *
   * Returns `undefined` unless the circuit is closed and the policy does not measure call durations; use `acquire`
   * then. Not for calls that waited (`waited`). The returned function must be called exactly once, however the call
   * ends.
   */
  readonly enterUnsafe: (name: string, fiber: AnyFiber, call: unknown) => Leave | undefined
  /** Reads the circuit without changing it, even when its open time is over. */
  readonly state: (name: string) => Effect.Effect<Status>
  /**
   * The `Ref` that holds the circuit's state in this process, created on first use. Read it with `Ref.get`. Use `trip`,
   * `reset` and `isolate` to change a circuit: a write to the `Ref` publishes no event and reaches no store. A circuit
   * that was removed as idle gets a new `Ref`.
   */
  readonly ref: (name: string) => Effect.Effect<Ref.Ref<State.CircuitState>>
  /** True when the next call would be let through. */
  readonly available: (names: Names) => Effect.Effect<boolean>
  /**
   * Forces the circuit open, for the policy's time or for `length`. A negative `length` dies with an `InvalidOption`.
   */
  readonly trip: (name: string, length?: Duration.Input) => Effect.Effect<void>
  /** Forces the circuit closed and clears its counts. An isolated circuit stays isolated. */
  readonly reset: (name: string) => Effect.Effect<void>
  /** Holds the circuit open until the scope ends. Several scopes may hold it. */
  readonly isolate: (name: string) => Effect.Effect<void, never, Scope.Scope>
  /** Lists all circuits that this process remembers. */
  readonly list: Effect.Effect<ReadonlyArray<Status>>
  /** Changes of phase since the subscription, once each and in order. A slow reader loses the oldest ones. */
  readonly transitions: Stream.Stream<CircuitTransition>
}

export class CircuitBreaker extends Context.Service<CircuitBreaker, Service>()(
  "@outlast/resilience/breaker/CircuitBreaker"
) {}

export interface Options extends Policy.Options {
  /** Number of circuits to remember before idle ones are removed. Default: 10,000. */
  readonly maxCircuits?: number | undefined
  /** A circuit is idle when it was unused for this long. Default: 10 minutes. */
  readonly idleAfter?: Duration.Input | undefined
  /** Shares circuits between processes. Default: `CircuitStore.memory`, which shares nothing. */
  readonly store?: CircuitStore | undefined
  /**
   * Describes a counted error or defect in refusals, in a few words without secrets. `undefined` leaves the description
   * out. Default: {@link describe}.
   */
  readonly describe?: Describe | undefined
}

/** Describes an error or a defect. If the function throws, the description is left out. */
export type Describe = (error: unknown) => string | undefined

export const defaults = { ...Policy.defaults, maxCircuits: 10_000, idleAfter: "10 minutes" } as const

/**
 * The default classification of an exit: success, failure, or ignored for a {@link Refusal}. A `retryAfter` of the
 * error (a `Duration.Input`; a number is milliseconds) is passed on.
 */
export const classify: Classify = (exit) => {
  if (Exit.isSuccess(exit)) return succeeded
  const errors = exit.cause.reasons.flatMap((reason) => (Cause.isFailReason(reason) ? [reason.error] : []))
  const refused = errors.length > 0 && errors.every(Refusal.isRefusal) && !Cause.hasDies(exit.cause)
  if (refused) return ignored
  const retryAfter = errors.map(retryAfterOf).find((known) => known !== undefined)
  return { counts: "failure", retryAfter }
}

/**
 * Returns the tag or the name of an error, with its HTTP status if there is one: `HttpError (HTTP 503)`. The message is
 * never read, because it may contain secrets.
 */
export const describe: Describe = (error) => {
  const isName = (text: string | undefined): boolean =>
    text !== undefined && /^[A-Za-z][\w/@.-]{0,99}$/.test(text)
  const called = [textOf(error, "_tag"), textOf(error, "name")].find(isName)
  const status = numberOf(error, "status")
  const isStatus = Number.isInteger(status) && status !== undefined && status >= 100 && status < 600
  const http = isStatus ? `HTTP ${status}` : undefined
  return called !== undefined && http !== undefined ? `${called} (${http})` : (called ?? http)
}

/** Maximum length of {@link Status.lastFailure}, in characters. */
const maxWords = 200

/**
 * Creates a breaker for the enclosing scope. Throws an `InvalidOption`, a `RangeError`, for an option out of its range.
 */
export const make = (options: Options = {}): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.suspend(() => {
    Check.fields(module, options, checks)
    const {
      maxCircuits = defaults.maxCircuits,
      idleAfter = defaults.idleAfter,
      store = memory,
      describe: words = describe,
      ...policy
    } = options
    return build(Policy.make(policy), maxCircuits, Duration.toMillis(idleAfter), store, words)
  })

const module = "CircuitBreaker"
const { is } = Check

const checks: Check.Checks<Options> = {
  ...Policy.checks,
  maxCircuits: is.integer({ min: 1 }),
  idleAfter: is.duration(),
  store: is.having("a CircuitStore, for example RedisCircuitStore.make({ redis })", "attach"),
  describe: is.fn("(error) => string")
}

const callChecks: Check.Checks<CallOptions> = {
  classify: is.fn("(exit) => Outcome"),
  call: is.anything,
  lastResort: is.flag,
  waited: is.flag
}

/** The check of an option that takes {@link Names}. */
export const isNames: Check.Check = (module, field, value) => {
  const isName = (name: unknown): boolean => typeof name === "string" && name !== ""
  const holds = isName(value) || (Array.isArray(value) && value.every(isName))
  Check.check(holds, module, field, value, "the name of a circuit, or a list of names")
}

const isStream: Check.Check = (module, field, value) =>
  Check.check(Stream.isStream(value), module, field, value, "a Stream")

const noOptions: CallOptions = {}

/** Checks the arguments of a guard. The usual case, one name and no options, costs two comparisons. */
const checkGuard = (names: Names, options: CallOptions): void => {
  if (typeof names !== "string" || names === "") isNames(module, "names", names)
  if (options !== noOptions && !(options instanceof Circuits.AttemptOptions)) {
    Check.fields(module, options, callChecks)
  }
}

/** The layer of {@link make}. */
export const layer = (options?: Options): Layer.Layer<CircuitBreaker> =>
  Layer.effect(CircuitBreaker, make(options))

/** Guards an effect with the {@link CircuitBreaker} of its environment. */
export const execute =
  (names: Names, options?: CallOptions) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CircuitRefused, R | CircuitBreaker> =>
    MissingService.use(CircuitBreaker, module, provider, (breaker) => breaker.execute(names, options)(self))

/** Guards a stream with the {@link CircuitBreaker} of its environment. */
export const executeStream =
  (names: Names, options?: CallOptions) =>
  <A, E, R>(self: Stream.Stream<A, E, R>): Stream.Stream<A, E | CircuitRefused, R | CircuitBreaker> =>
    Stream.unwrap(
      Effect.map(MissingService.get(CircuitBreaker, module, provider), (breaker) =>
        breaker.executeStream(names, options)(self)
      )
    )

const provider = "CircuitBreaker.layer()"

const keep: Restore = (effect) => effect

const succeeded: Outcome = { counts: "success" }
const ignored: Outcome = { counts: "ignored" }

const retryAfterOf = (error: unknown): Duration.Duration | undefined =>
  typeof error === "object" && error !== null && "retryAfter" in error
    ? // Anything that is not a duration becomes `None`.
      Option.getOrUndefined(Duration.fromInput(error.retryAfter as Duration.Input))
    : undefined

/** The `restore` function of `uninterruptibleMask`, which makes an effect interruptible again if the caller was. */
type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

type AdmitOptions = Omit<CallOptions, "classify">

/** One circuit's part of a permit. */
interface Share {
  readonly cell: Cell
  readonly grant: State.Grant
  readonly started: number
  readonly call: unknown
}

const build = (
  policy: CircuitPolicy,
  limit: number,
  idle: number,
  store: CircuitStore,
  describe: Describe
): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.gen(function* () {
    const circuits = yield* Circuits.make(limit, idle)
    // Not from `Random`: two processes with the same seed would get the same id.
    const instance = globalThis.crypto.randomUUID()
    const timesCalls = policy.rate !== undefined && policy.rate.slow !== Infinity
    let holders = 0

    /**
     * Applies a change that this process decided. Shares it with other processes if it starts a new generation or was
     * made by hand.
     */
    const decide = (cell: Cell, after: State.CircuitState, fiber: AnyFiber, byHand = false): void => {
      const before = cell.state
      if (circuits.move(cell, after, fiber) && (byHand || after.generation !== before.generation)) {
        shared?.share({ circuit: cell.circuit, before, after, byHand })
      }
    }

    /** Applies a state that came from the store. */
    const adopt = (cell: Cell, after: State.CircuitState, fiber: AnyFiber): void => {
      const { phase, generation } = cell.state
      // A circuit that is closed here and in the store keeps its local state, which includes the counts.
      const isSameClosed = phase === "closed" && after.phase === "closed" && after.generation === generation
      if (!isSameClosed) circuits.move(cell, after, fiber)
    }

    const shared = yield* store.attach({
      policy,
      adopt: (circuit, state) =>
        Effect.withFiber((fiber) => {
          adopt(circuits.of(circuit, fiber), state, fiber)
          return Effect.void
        }),
      publish: (event) =>
        Effect.withFiber((fiber) => {
          circuits.publish(event, fiber)
          return Effect.void
        })
    })
    const isLocal = (): boolean => shared === undefined || shared.isCurrent()

    const refused = (
      circuit: string,
      { reason, retryAfter }: { reason: CircuitRefused["reason"]; retryAfter: number | undefined },
      fiber: AnyFiber
    ): Effect.Effect<never, CircuitRefused> => {
      circuits.publish({ _tag: "CircuitRefusal", at: wallTime(fiber), circuit, reason, retryAfter }, fiber)
      const wait = retryAfter === undefined ? undefined : Duration.millis(retryAfter)
      const lastFailure = circuits.lastFailure(circuit)
      return Effect.fail(new CircuitRefused({ circuit, reason, retryAfter: wait, lastFailure }))
    }

    const admitOne = (
      circuit: string,
      options: AdmitOptions,
      fiber: AnyFiber,
      restore: Restore
    ): Effect.Effect<Share, CircuitRefused> => {
      const cell = circuits.of(circuit, fiber)
      const now = monotonic(fiber)
      const holder = `${instance}-${++holders}`
      if (!isLocal()) return refused(circuit, { reason: "store", retryAfter: undefined }, fiber)
      const [admission, after] = State.admit(policy, cell.state, holder, now, options)
      if (!admission.granted) return refused(circuit, admission.refusal, fiber)
      const enter = ({ grant }: { readonly grant: State.Grant }): Share => {
        cell.running++
        return { cell, grant, started: now, call: options.call }
      }
      const isLocalGrant = admission.grant.holder === undefined || admission.grant.lastResort === true
      if (shared === undefined || isLocalGrant) {
        circuits.move(cell, after, fiber)
        return Effect.succeed(enter(admission))
      }
      const asking = Effect.flatMap(shared.admit(circuit, holder, cell.state), ({ answer, leave }) =>
        Effect.onInterrupt(restore(answer), () => leave)
      )
      return Effect.flatMap(asking, (answer) => {
        if (answer === undefined && !isLocal()) {
          return refused(circuit, { reason: "store", retryAfter: undefined }, fiber)
        }
        if (answer?.granted === true && answer.generation === cell.state.generation) {
          return Effect.succeed(enter({ grant: { generation: answer.generation, holder } }))
        }
        // Decides again, because the circuit may have changed while the store was asked.
        const [local, next] = State.admit(policy, cell.state, holder, monotonic(fiber), options)
        if (!local.granted) return refused(circuit, local.refusal, fiber)
        if (answer !== undefined && local.grant.holder !== undefined) {
          return refused(circuit, { reason: "half-open", retryAfter: undefined }, fiber)
        }
        circuits.move(cell, next, fiber)
        return Effect.succeed(enter(local))
      })
    }

    const endOne = (
      { cell, grant, started, call }: Share,
      outcome: Outcome,
      fiber: AnyFiber,
      restore: Restore,
      now = monotonic(fiber)
    ): Effect.Effect<void> => {
      const { circuit } = cell
      const took = now - started
      const retryAfter = outcome.counts === "failure" ? hintOf(outcome.retryAfter) : undefined
      cell.running--
      const inFlight = cell.running
      const ended: State.Ended =
        outcome.counts === "ignored"
          ? { outcome: "ignored" }
          : { outcome: outcome.counts, retryAfter, took, call, inFlight }
      if (outcome.counts === "failure") {
        if (grant.generation === cell.state.generation) cell.lastFailure = outcome.what?.slice(0, maxWords)
        circuits.publish({ _tag: "CircuitFailure", at: wallTime(fiber), circuit, retryAfter }, fiber)
      }
      if (outcome.counts !== "ignored" && grant.holder !== undefined && took >= policy.probeLimit) {
        circuits.publish({ _tag: "CircuitProbeLate", at: wallTime(fiber), circuit, took }, fiber)
      }
      const chance = draw(fiber)
      const settled = (): State.CircuitState => State.settle(policy, cell.state, grant, ended, now, chance)
      if (shared === undefined || grant.holder === undefined || grant.lastResort === true) {
        decide(cell, settled(), fiber)
        return Effect.void
      }
      // A caller that is interrupted does not wait for the store, and continues with the next circuit.
      return Effect.flatMap(
        shared.settle(circuit, grant, State.judgedAsProbe(policy, cell.state, ended), cell.state, chance),
        ({ answer, leave }) =>
          Effect.matchCauseEffect(restore(answer), {
            onFailure: () => leave,
            onSuccess: (told) => Effect.sync(() => (told ? undefined : decide(cell, settled(), fiber)))
          })
      )
    }

    /**
     * Asks the circuits in the order of their names, so that two calls cannot each hold a permit that the other needs.
     */
    const admit = (
      names: Names,
      options: AdmitOptions,
      restore: Restore
    ): Effect.Effect<ReadonlyArray<Share>, CircuitRefused> =>
      Effect.withFiber((fiber) => {
        if (typeof names === "string")
          return Effect.map(admitOne(names, options, fiber, restore), (share) => [share])
        const all = [...new Set(names)].sort()
        // Checks all circuits before changing any. Otherwise one whose open time is over would become half-open for
        // a call that another circuit refuses.
        const now = monotonic(fiber)
        for (const name of isLocal() ? all : []) {
          const known = circuits.read(name)
          const [admission] = State.admit(policy, known, "", now, options)
          if (!admission.granted) return refused(name, admission.refusal, fiber)
        }
        const held: Array<Share> = []
        return Effect.forEach(
          all,
          (name) => Effect.map(admitOne(name, options, fiber, restore), (share) => void held.push(share)),
          { discard: true }
        ).pipe(
          Effect.onError(() => end(held, ignored, restore)),
          Effect.as(held)
        )
      })

    const end = (shares: ReadonlyArray<Share>, outcome: Outcome, restore: Restore): Effect.Effect<void> =>
      Effect.withFiber((fiber) =>
        Effect.forEach(shares, (share) => endOne(share, outcome, fiber, restore), { discard: true })
      )

    const guarded = <A, E, R>(
      names: Names,
      { classify: judge = classify, ...options }: CallOptions,
      self: Effect.Effect<A, E, R>
    ): Effect.Effect<A, E | CircuitRefused, R> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(admit(names, options, restore), (shares) =>
          Effect.onExit(restore(self), (exit) => end(shares, outcomeOf(judge, describe, exit), restore))
        )
      )

    /** Reports the outcome of a call that a closed circuit let through. The usual success costs nothing. */
    const endOf = (cell: Cell, generation: number, { classify: judge, call }: CallOptions) => {
      const grant: State.Grant = { generation, holder: undefined }
      return (exit: Exit.Exit<unknown, unknown>): undefined => {
        const { state } = cell
        const moves = state.phase === "closed" && !State.unmoved(policy, state)
        if (judge === undefined && exit._tag === "Success" && !moves) return undefined
        const outcome = outcomeOf(judge ?? classify, describe, exit)
        const fiber = Fiber.getCurrent()
        if (outcome.counts === "ignored" || fiber === undefined) return undefined
        if (outcome.counts === "success" && !moves) return undefined
        cell.running++
        endOne({ cell, grant, started: 0, call }, outcome, fiber, keep)
        return undefined
      }
    }

    /** True for a closed circuit, which admits calls without reading the clock and without a lease. */
    const admits = (state: State.CircuitState): state is State.Closed =>
      state.phase === "closed" && (shared === undefined || shared.isCurrent())

    const executeOne = (name: string, options: CallOptions) => {
      // Shared by all effects that this circuit guards, until the circuit changes.
      let cell: Cell | undefined
      let generation = -1
      let end: ReturnType<typeof endOf> | undefined
      return <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CircuitRefused, R> => {
        Check.effect(module, "effect", self)
        // Reused for each run of this effect, until the circuit changes.
        let watched = self
        let watchedBy: typeof end
        return Effect.withFiber((fiber): Effect.Effect<A, E | CircuitRefused, R> => {
          if (cell === undefined || !cell.known) {
            cell = circuits.of(name, fiber)
            end = undefined
          }
          const { state } = cell
          if (!admits(state)) return guarded(name, options, self)
          if (end === undefined || generation !== state.generation) {
            generation = state.generation
            end = endOf(cell, generation, options)
          }
          if (watchedBy !== end) {
            watchedBy = end
            watched = Effect.onExitPrimitive(self, end)
          }
          return watched
        })
      }
    }

    /** Like {@link executeOne}, for an attempt of a call. Counts the attempt as in flight while it runs. */
    const executeAttempt =
      (name: string, options: CallOptions) =>
      <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CircuitRefused, R> => {
        if (!(options instanceof Circuits.AttemptOptions)) Check.effect(module, "effect", self)
        return Effect.withFiber((fiber): Effect.Effect<A, E | CircuitRefused, R> => {
          const cell = circuits.of(name, fiber)
          const { state } = cell
          if (!admits(state) || (options.waited === true && state.recovery !== undefined)) {
            return guarded(name, options, self)
          }
          const end = endOf(cell, state.generation, options)
          let running = false
          const run = Effect.suspend(() => {
            running = true
            cell.running++
            return self
          })
          return Effect.onExitPrimitive(run, (exit) => {
            // The interruption may come before the effect has started.
            if (running) cell.running--
            return end(exit)
          })
        })
      }

    const enterUnsafe: Service["enterUnsafe"] = (name, entering, call) => {
      if (timesCalls) return undefined
      const cell = circuits.of(name, entering)
      if (!admits(cell.state)) return undefined
      const grant: State.Grant = { generation: cell.state.generation, holder: undefined }
      cell.running++
      return (outcome, fiber, now) => {
        if (outcome.counts === "failure") {
          endOne({ cell, grant, started: 0, call }, outcome, fiber, keep, now)
          return
        }
        cell.running--
        const { state } = cell
        if (outcome.counts === "ignored" || state.phase !== "closed" || State.unmoved(policy, state)) return
        const ended: State.Ended = { outcome: "success", inFlight: cell.running }
        decide(cell, State.settle(policy, state, grant, ended, now ?? monotonic(fiber), draw(fiber)), fiber)
      }
    }

    const acquire: Service["acquire"] = (names, options = noOptions) => {
      checkGuard(names, options)
      return Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(admit(names, options, restore), (shares) => {
          let open = true
          const settle = (outcome: Outcome): Effect.Effect<void> =>
            Effect.uninterruptible(
              Effect.suspend(() => {
                if (!open) return Effect.void
                open = false
                return end(shares, outcome, keep)
              })
            )
          const permit: Permit = {
            succeed: settle(succeeded),
            fail: (failure) => settle({ counts: "failure", ...failure }),
            ignore: settle(ignored)
          }
          return Effect.as(
            Effect.addFinalizer(() => permit.ignore),
            permit
          )
        })
      )
    }

    const executeStream: Service["executeStream"] = (names, options = noOptions) => {
      checkGuard(names, options)
      const { classify: judge = classify, ...rest } = options
      return (self) => {
        isStream(module, "stream", self)
        return Stream.unwrap(
          Effect.map(acquire(names, rest), (permit) => {
            const settle = (exit: Exit.Exit<unknown, unknown>): Effect.Effect<void> => {
              const outcome = outcomeOf(judge, describe, exit)
              return outcome.counts === "failure"
                ? permit.fail(outcome)
                : outcome.counts === "success"
                  ? permit.succeed
                  : permit.ignore
            }
            return self.pipe(
              Stream.tapCause((cause) => settle(Exit.failCause(cause))),
              Stream.onEnd(settle(Exit.void))
            )
          })
        )
      }
    }

    const statusOf = (circuit: string, state: State.CircuitState, now: number): Status => {
      const phase = State.phaseAt(state, now)
      return {
        circuit,
        phase,
        generation: state.generation,
        retryAfter:
          state.phase === "open" && phase === "open" ? Duration.millis(state.until - now) : undefined,
        failures: state.phase === "closed" ? state.counts.streak.length : 0,
        openings: state.openings,
        lastFailure: circuits.lastFailure(circuit)
      }
    }

    const byHand = (
      name: string,
      next: (state: State.CircuitState, now: number, draw: number) => State.CircuitState
    ) =>
      Effect.withFiber((fiber) => {
        is.string(module, "name", name)
        const cell = circuits.of(name, fiber)
        decide(cell, next(cell.state, monotonic(fiber), draw(fiber)), fiber, true)
        return Effect.void
      })

    return {
      execute: (names, options = noOptions) => {
        checkGuard(names, options)
        if (typeof names !== "string" || timesCalls) {
          return (self) => guarded(names, options, Check.effect(module, "effect", self))
        }
        // A failure rate counts calls in flight, and a call that waited may have to keep waiting.
        const isPlain = options.call === undefined && policy.rate === undefined && options.waited !== true
        return isPlain ? executeOne(names, options) : executeAttempt(names, options)
      },
      executeStream,
      acquire,
      enterUnsafe,
      state: (name) =>
        Effect.withFiber((fiber) => Effect.succeed(statusOf(name, circuits.read(name), monotonic(fiber)))),
      ref: (name) => Effect.withFiber((fiber) => Effect.succeed(circuits.of(name, fiber).ref)),
      available: (names) =>
        Effect.withFiber((fiber) => {
          const now = monotonic(fiber)
          const all = typeof names === "string" ? [names] : names
          return Effect.succeed(
            isLocal() && all.every((name) => State.available(policy, circuits.read(name), now))
          )
        }),
      trip: (name, length) =>
        Effect.suspend(() => {
          const fixed = length === undefined ? undefined : Check.millis(module, "trip.length", length)
          return byHand(name, (state, now, chance) => State.trip(policy, state, now, chance, fixed))
        }),
      reset: (name) => byHand(name, State.reset),
      isolate: (name) =>
        Effect.suspend(() => {
          const holder = `${instance}-${++holders}`
          return Effect.acquireRelease(
            byHand(name, (state, now) => State.isolate(state, holder, now)),
            () => byHand(name, (state, now) => State.release(state, holder, now))
          )
        }),
      list: Effect.withFiber((fiber) => {
        const now = monotonic(fiber)
        return Effect.succeed(circuits.all().map(({ circuit, state }) => statusOf(circuit, state, now)))
      }),
      transitions: circuits.transitions
    }
  })

/** A hint that is not a duration is ignored. The failure still counts. */
const hintOf = (retryAfter: Duration.Input | undefined): number | undefined =>
  retryAfter === undefined
    ? undefined
    : Option.getOrUndefined(Option.map(Duration.fromInput(retryAfter), Duration.toMillis))

/** An exit with interruptions only is ignored, whatever the classifier would return. */
const outcomeOf = (judge: Classify, describe: Describe, exit: Exit.Exit<unknown, unknown>): Outcome => {
  if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)) return ignored
  try {
    const outcome = judge(exit)
    // A classifier written in JavaScript may return anything.
    if (!isOutcome(outcome)) return ignored
    if (outcome.counts !== "failure" || outcome.what !== undefined || Exit.isSuccess(exit)) return outcome
    return { ...outcome, what: wordsFor(describe, Cause.squash(exit.cause)) }
  } catch {
    return ignored
  }
}

const isOutcome = (value: unknown): value is Outcome =>
  typeof value === "object" && value !== null && "counts" in value && typeof value.counts === "string"

const wordsFor = (describe: Describe, error: unknown): string | undefined => {
  try {
    // A function written in JavaScript may return anything.
    const words: unknown = describe(error)
    return typeof words === "string" ? words : undefined
  } catch {
    return undefined
  }
}
