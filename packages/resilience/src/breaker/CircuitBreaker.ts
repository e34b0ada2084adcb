/**
 * Stops calling what keeps failing, and finds out when it is well again.
 *
 * A service keyed by **circuit name** (any string: an endpoint, a model, a tool). `execute` and `executeStream`
 * guard a call; `acquire` gives the permit to code that knows better when a call has ended. Each name has its own
 * `CircuitState`, made on first use and forgotten when it is idle; the policy is the same for all of them.
 *
 * **States.** Closed: calls run and are counted. Open: calls are refused with `CircuitRefused`, at once. Half-open:
 * a few calls run as probes. Isolated: held open by hand. See `CircuitState` for what leads where.
 *
 * **What counts.** A typed failure or a defect is a failure. Interruption is nothing, and neither is a refusal of
 * another breaker or limiter inside (`Refusal`). `classify` decides otherwise, in every phase. A time limit inside
 * the guarded call is its failure; outside, it is an interruption.
 *
 * **How it composes.** Inside a retry, so that every attempt is seen. Several names are all or none. With
 * `RedisCircuitStore` processes share what they decided.
 *
 * **What it does not do.** It does not retry (`Retry`), limit time (`Effect.timeout`), or ping (`ConnectionMonitor`).
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

/** How a call ended, for its circuit. */
export type Outcome = { readonly counts: "success" | "ignored" } | ({ readonly counts: "failure" } & Failure)

/** A failure as a circuit counts it. */
export interface Failure {
  /** How long the server wants to be left alone. */
  readonly retryAfter?: Duration.Input | undefined
  /** A few words without secrets, for refusals and status pages. Default: the result of `describe`. */
  readonly what?: string | undefined
}

/** Decides what an exit counts as. Never asked about an interruption; if it throws, the call counts as nothing. */
export type Classify = (exit: Exit.Exit<unknown, unknown>) => Outcome

export interface CallOptions {
  /** Default: {@link classify}. */
  readonly classify?: Classify | undefined
  /**
   * Whose attempt this is: attempts with the same value are one call. `Retry` sets it. Default: each is a call of
   * its own.
   */
  readonly call?: unknown
  /**
   * The call has nowhere else to go: once a second one such call passes an open or a half-open circuit, and its outcome
   * counts as a probe's. Default false.
   */
  readonly lastResort?: boolean | undefined
  /**
   * The circuit refused this call before. When a circuit closes, such calls pass gradually: three, and one more for
   * each success. Default false.
   */
  readonly waited?: boolean | undefined
}

/** One circuit's name, or several: then all let the call through, or none is touched. */
export type Names = string | ReadonlyArray<string>

/** The right to make one call. The first of its functions that runs counts; later ones do nothing. */
export interface Permit {
  readonly succeed: Effect.Effect<void>
  readonly fail: (failure?: Failure) => Effect.Effect<void>
  /** The call said nothing about the circuit. Runs by itself when the scope ends first. */
  readonly ignore: Effect.Effect<void>
}

/**
 * How a call ended that {@link Service.enterUnsafe} let through. `now` is in monotonic milliseconds, for a caller that
 * has read the clock. Default: the clock of the fiber.
 */
export type Leave = (outcome: Outcome, fiber: AnyFiber, now?: number) => void

/** A circuit as it is now. */
export interface Status {
  readonly circuit: string
  readonly phase: State.Phase
  readonly generation: number
  /** Until the next call is let through; only when it is open. */
  readonly retryAfter: Duration.Duration | undefined
  /** Failures in a row, as far as the policy counts them. */
  readonly failures: number
  /** Openings in a row. */
  readonly openings: number
  /** The last failure that this process counted since the circuit was closed, in a few words. */
  readonly lastFailure: string | undefined
}

export interface Service {
  readonly execute: (
    names: Names,
    options?: CallOptions
  ) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | CircuitRefused, R>
  /** One outcome for the whole stream, at its end. A consumer that stops early says nothing. */
  readonly executeStream: (
    names: Names,
    options?: CallOptions
  ) => <A, E, R>(self: Stream.Stream<A, E, R>) => Stream.Stream<A, E | CircuitRefused, R>
  readonly acquire: (
    names: Names,
    options?: Omit<CallOptions, "classify">
  ) => Effect.Effect<Permit, CircuitRefused, Scope.Scope>
  /**
   * The cheap way of {@link acquire} for a hot path: no Effect and no scope. Only for a call that has not waited, at a
   * closed circuit; `undefined` for any other circuit, and for policies that time calls: then `acquire`. What it
   * returns must be called once, whatever becomes of the call.
   */
  readonly enterUnsafe: (name: string, fiber: AnyFiber, call: unknown) => Leave | undefined
  /** Reads the circuit; changes nothing, not even for one whose time is up. */
  readonly state: (name: string) => Effect.Effect<Status>
  /**
   * The `Ref` that holds the circuit's state in this process, made on first use. Read it with `Ref.get`. Change a circuit
   * with `trip`, `reset` and `isolate`: a write to the `Ref` publishes no event and reaches no store. A circuit that was
   * forgotten gets a new one.
   */
  readonly ref: (name: string) => Effect.Effect<Ref.Ref<State.CircuitState>>
  /** Whether the next call would be let through. */
  readonly available: (names: Names) => Effect.Effect<boolean>
  /** Forces the circuit open: for the policy's time, or for `length`. A negative one is an `InvalidOption`, a defect. */
  readonly trip: (name: string, length?: Duration.Input) => Effect.Effect<void>
  /** Forces the circuit closed, with nothing counted. An isolated one stays isolated. */
  readonly reset: (name: string) => Effect.Effect<void>
  /** Holds the circuit open until the scope ends. Several scopes may hold it. */
  readonly isolate: (name: string) => Effect.Effect<void, never, Scope.Scope>
  /** All circuits that are known. */
  readonly list: Effect.Effect<ReadonlyArray<Status>>
  /** Changes of phase, once each and in order, from the subscription on. A slow reader loses the oldest. */
  readonly transitions: Stream.Stream<CircuitTransition>
}

export class CircuitBreaker extends Context.Service<CircuitBreaker, Service>()(
  "@outlast/resilience/breaker/CircuitBreaker"
) {}

export interface Options extends Policy.Options {
  /** Circuits that are remembered before idle ones are forgotten. Default 10,000. */
  readonly maxCircuits?: number | undefined
  /** A circuit that is not used for so long is idle. Default 10 minutes. */
  readonly idleAfter?: Duration.Input | undefined
  /** Where circuits live. Default `CircuitStore.memory`: in this process. */
  readonly store?: CircuitStore | undefined
  /**
   * Names a counted error or defect in refusals, in a few words without secrets; `undefined` leaves it out. Default
   * {@link describe}.
   */
  readonly describe?: Describe | undefined
}

/** Names an error or a defect. If it throws, nothing is said. */
export type Describe = (error: unknown) => string | undefined

export const defaults = { ...Policy.defaults, maxCircuits: 10_000, idleAfter: "10 minutes" } as const

/**
 * What an exit counts as unless told otherwise: success, failure, or nothing for a {@link Refusal}. A `retryAfter`
 * of the error (a `Duration.Input`; a number is milliseconds) is taken along.
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
 * The tag or the name of an error, with its HTTP status where it has one: `HttpError (HTTP 503)`. Its message may hold
 * secrets and is never read.
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

/** Longest {@link Status.lastFailure}, in characters. */
const maxWords = 200

/**
 * A breaker for the enclosing scope. Throws an `InvalidOption`, a `RangeError`, for an option out of its range.
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

/** Checks the arguments of a guard. The usual guard, with one name and no options, costs two comparisons. */
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
    ? // Whatever it is: what is no duration gives none.
      Option.getOrUndefined(Duration.fromInput(error.retryAfter as Duration.Input))
    : undefined

/** What `uninterruptibleMask` gives: makes interruptible what was so outside. */
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
    // Not of `Random`: two processes with one seed would be taken for one.
    const instance = globalThis.crypto.randomUUID()
    const timesCalls = policy.rate !== undefined && policy.rate.slow !== Infinity
    let holders = 0

    /** Puts a circuit where this process decided. Others are told of a new generation, and of all that is done by hand. */
    const decide = (cell: Cell, after: State.CircuitState, fiber: AnyFiber, byHand = false): void => {
      const before = cell.state
      if (circuits.move(cell, after, fiber) && (byHand || after.generation !== before.generation)) {
        shared?.share({ circuit: cell.circuit, before, after, byHand })
      }
    }

    /** Puts a circuit where the store says it is. */
    const adopt = (cell: Cell, after: State.CircuitState, fiber: AnyFiber): void => {
      const { phase, generation } = cell.state
      // Of a closed circuit that is closed here too this process knows more: its counts.
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
        // Decided anew: the circuit may have changed while the store was asked.
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
      // Who is interrupted does not wait, and goes on to the next circuit.
      return Effect.flatMap(
        shared.settle(circuit, grant, State.judgedAsProbe(policy, cell.state, ended), cell.state, chance),
        ({ answer, leave }) =>
          Effect.matchCauseEffect(restore(answer), {
            onFailure: () => leave,
            onSuccess: (told) => Effect.sync(() => (told ? undefined : decide(cell, settled(), fiber)))
          })
      )
    }

    /** Asks the circuits in the order of their names, so that two calls never hold half of what both need. */
    const admit = (
      names: Names,
      options: AdmitOptions,
      restore: Restore
    ): Effect.Effect<ReadonlyArray<Share>, CircuitRefused> =>
      Effect.withFiber((fiber) => {
        if (typeof names === "string")
          return Effect.map(admitOne(names, options, fiber, restore), (share) => [share])
        const all = [...new Set(names)].sort()
        // Before any is touched: one whose time is up would become half-open for nothing.
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

    /** Takes in how a call ended that a closed circuit let through, at no cost for the usual success. */
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

    /** A closed circuit admits without a trace: no clock, no lease, nothing to give back. */
    const admits = (state: State.CircuitState): state is State.Closed =>
      state.phase === "closed" && (shared === undefined || shared.isCurrent())

    const executeOne =
      (name: string, options: CallOptions) =>
      <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CircuitRefused, R> => {
        Check.effect(module, "effect", self)
        // The same for each run of this effect, until the circuit has changed.
        let cell: Cell | undefined
        let generation = -1
        let watched = self
        return Effect.withFiber((fiber): Effect.Effect<A, E | CircuitRefused, R> => {
          if (cell === undefined || !cell.known) {
            cell = circuits.of(name, fiber)
            generation = -1
          }
          const { state } = cell
          if (!admits(state)) return guarded(name, options, self)
          if (generation !== state.generation) {
            generation = state.generation
            watched = Effect.onExitPrimitive(self, endOf(cell, generation, options))
          }
          return watched
        })
      }

    /** As {@link executeOne}, for an attempt of a call: others see that it is under way. */
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
            // An interruption can come before it ran.
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
        // A rate counts calls that are in flight, and a call that waited may have to wait on.
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

/** A hint that is no duration is no hint: the failure counts all the same. */
const hintOf = (retryAfter: Duration.Input | undefined): number | undefined =>
  retryAfter === undefined
    ? undefined
    : Option.getOrUndefined(Option.map(Duration.fromInput(retryAfter), Duration.toMillis))

/** Interruption alone is nothing, whatever the classifier would say. */
const outcomeOf = (judge: Classify, describe: Describe, exit: Exit.Exit<unknown, unknown>): Outcome => {
  if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)) return ignored
  try {
    const outcome = judge(exit)
    // Written in JavaScript, it may return anything, or nothing.
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
    // Written in JavaScript, it may give anything.
    const words: unknown = describe(error)
    return typeof words === "string" ? words : undefined
  } catch {
    return undefined
  }
}
