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
import { Config, Context, Duration, Effect, Effectable, Exit, Fiber, Layer, Stream } from "effect"
import type { Ref } from "effect"
import * as MissingService from "../MissingService.ts"
import * as Check from "../Options.ts"
import type { CircuitTransition } from "./CircuitEvent.ts"
import type { Classify, Describe, Failure, Outcome } from "./CircuitOutcome.ts"
import { classify, describe, ignored, outcomeOf, succeeded } from "./CircuitOutcome.ts"
import type { AdmitOptions, Names } from "./CircuitPermits.ts"
import * as Permits from "./CircuitPermits.ts"
import { keep } from "./CircuitPermits.ts"
import type { CircuitPolicy } from "./CircuitPolicy.ts"
import * as Policy from "./CircuitPolicy.ts"
import type { CircuitRefused } from "./CircuitRefused.ts"
import type { AnyFiber, Cell } from "./Circuits.ts"
import * as Circuits from "./Circuits.ts"
import { draw, monotonic } from "./Circuits.ts"
import * as State from "./CircuitState.ts"
import type { CircuitStore } from "./CircuitStore.ts"
import { memory } from "./CircuitStore.ts"

export {
  classify,
  describe,
  type Classify,
  type Describe,
  type Failure,
  type Outcome
} from "./CircuitOutcome.ts"
export type { Names } from "./CircuitPermits.ts"

export interface CallOptions extends AdmitOptions {
  /** Default: {@link classify}. */
  readonly classify?: Classify | undefined
}

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

export const defaults = { ...Policy.defaults, maxCircuits: 10_000, idleAfter: "10 minutes" } as const

/**
 * Creates a breaker for the enclosing scope. Dies with an `InvalidOption`, a `RangeError`, for an option out of its
 * range.
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

/** The layer of {@link make}. Building it dies for an option out of its range. */
export const layer = (options?: Options): Layer.Layer<CircuitBreaker> =>
  Layer.effect(CircuitBreaker, make(options))

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * const consecutive = Config.map(Config.Int("CIRCUIT_FAILURES"), (failures) => ({ failures }))
 * CircuitBreaker.layerConfig({ trip: { consecutive } })
 * ```
 */
export const layerConfig = (options: Config.Wrap<Options>): Layer.Layer<CircuitBreaker, Config.ConfigError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      return layer(yield* Config.unwrap<Options>(options))
    })
  )

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

/** Reports how a call ended. */
type End = (exit: Exit.Exit<unknown, unknown>) => undefined

/** The parts of a breaker that a {@link Gate} needs. */
interface Doors {
  readonly of: Circuits.Circuits["of"]
  /** True for a closed circuit, which admits calls without reading the clock and without a lease. */
  readonly admits: (state: State.CircuitState) => state is State.Closed
  /** Returns what reports the end of a call that a closed circuit let through. */
  readonly endOf: (cell: Cell, generation: number, options: CallOptions) => End
  /** Guards a call that asks the circuit in any phase. */
  readonly guarded: <A, E, R>(
    names: Names,
    options: CallOptions,
    self: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | CircuitRefused, R>
}

/** One circuit, for all effects that one `execute(circuit)` guards. */
class Gate {
  readonly #doors: Doors
  readonly #circuit: string
  readonly #options: CallOptions
  #cell: Cell | undefined
  #end: End | undefined
  #generation = -1

  constructor(doors: Doors, circuit: string, options: CallOptions) {
    this.#doors = doors
    this.#circuit = circuit
    this.#options = options
  }

  /**
   * Lets a call pass a closed circuit. Returns the function that reports the end of the call, which stays the same until
   * the circuit opens.
   */
  pass(): End | undefined {
    let cell = this.#cell
    if (cell === undefined || !cell.known) {
      const fiber = Fiber.getCurrent()
      if (fiber === undefined) return undefined
      cell = this.#doors.of(this.#circuit, fiber)
      this.#cell = cell
      this.#end = undefined
    }
    const { state } = cell
    if (!this.#doors.admits(state)) return undefined
    if (this.#end === undefined || this.#generation !== state.generation) {
      this.#generation = state.generation
      this.#end = this.#doors.endOf(cell, state.generation, this.#options)
    }
    return this.#end
  }

  /** Guards a call that did not {@link pass}. */
  ask<A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CircuitRefused, R> {
    return this.#doors.guarded(this.#circuit, this.#options, self)
  }
}

/**
 * An effect that asks its circuit in each run.
 *
 * Many programs guard a new effect for each call. An object is cheaper to make than an effect and its closures.
 */
class Guarded<A, E, R> extends Effectable.Class<A, E | CircuitRefused, R> {
  readonly #gate: Gate
  readonly #self: Effect.Effect<A, E, R>
  // Reused for each run, until the circuit opens.
  #watched: Effect.Effect<A, E, R> | undefined
  #watchedBy: End | undefined

  constructor(gate: Gate, self: Effect.Effect<A, E, R>) {
    super()
    this.#gate = gate
    this.#self = self
  }

  override asEffect(): Effect.Effect<A, E | CircuitRefused, R> {
    const end = this.#gate.pass()
    if (end === undefined) return this.#gate.ask(this.#self)
    if (this.#watched === undefined || this.#watchedBy !== end) {
      this.#watched = Effect.onExitPrimitive(this.#self, end)
      this.#watchedBy = end
    }
    return this.#watched
  }
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
    const permits = yield* Permits.make(policy, circuits, store)
    const { admit, decide, end, endOne, isCurrent } = permits
    const timesCalls = policy.rate !== undefined && policy.rate.slow !== Infinity

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
    const endOf =
      (cell: Cell, generation: number, { classify: judge, call }: CallOptions): End =>
      (exit) => {
        const { state } = cell
        const moves = state.phase === "closed" && !State.unmoved(policy, state)
        if (judge === undefined && exit._tag === "Success" && !moves) return undefined
        const outcome = outcomeOf(judge ?? classify, describe, exit)
        const fiber = Fiber.getCurrent()
        if (outcome.counts === "ignored" || fiber === undefined) return undefined
        if (outcome.counts === "success" && !moves) return undefined
        cell.running++
        const grant: State.Grant = { generation, holder: undefined }
        endOne({ cell, grant, started: 0, call }, outcome, fiber, keep)
        return undefined
      }

    const admits = (state: State.CircuitState): state is State.Closed =>
      state.phase === "closed" && isCurrent()

    const doors: Doors = { of: circuits.of, admits, endOf, guarded }

    const executeOne = (name: string, options: CallOptions) => {
      const gate = new Gate(doors, name, options)
      return <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CircuitRefused, R> =>
        new Guarded(gate, Check.effect(module, "effect", self))
    }

    /** Like {@link executeOne}, for an attempt of a call. Counts the attempt as in flight while it runs. */
    const executeAttempt =
      (name: string, options: CallOptions) =>
      <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CircuitRefused, R> => {
        const attempt = () => {
          let end: End | undefined
          const run = Effect.withFiber((fiber): Effect.Effect<A, E | CircuitRefused, R> => {
            const cell = circuits.of(name, fiber)
            const { state } = cell
            if (!admits(state) || (options.waited === true && state.recovery !== undefined)) {
              return guarded(name, options, self)
            }
            cell.running++
            const ended = endOf(cell, state.generation, options)
            end = (exit) => {
              cell.running--
              return ended(exit)
            }
            return self
          })
          // An interruption may come before `run` has started.
          return Effect.onExitPrimitive(run, (exit) => end?.(exit))
        }
        // `Retry` makes a guard for each attempt. Other guards may run often, and at the same time.
        if (options instanceof Circuits.AttemptOptions) return attempt()
        Check.effect(module, "effect", self)
        return Effect.suspend(attempt)
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
            isCurrent() && all.every((name) => State.available(policy, circuits.read(name), now))
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
          const holder = permits.holder()
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
