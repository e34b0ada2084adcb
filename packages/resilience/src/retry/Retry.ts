/**
 * Calls again what failed, as often, as late and as long as makes sense.
 *
 * One combinator that puts the policies in their right order: deadline outside; then classify, attempts, wait and
 * retry budget for each failure; the circuit inside, so that it sees every attempt.
 *
 * **What happens after a failure.** It is classified. Unless it does not pass by itself, its attempts are used up, the
 * wait is longer than allowed or than what is left of the deadline, or the budget is empty, the call waits and is made
 * again. Otherwise it fails with {@link RetryFailed}, which has the last failure, the attempts, and why they ended.
 * Defects and interruptions leave as they came, at once. If `classify` throws, the failure leaves with that defect. If it
 * returns no verdict, the call dies with an `InvalidOption`, whose `cause` is the failure.
 *
 * **When the circuit refuses**, nothing was called, so it is no attempt, and neither pays into the budget nor takes
 * from it. The call fails, or waits until the circuit lets it through (`whenRefused: "wait"`), for as long as the
 * deadline allows: set one. The failure of an attempt before it stays the call's failure, with the refusal beside it.
 * Refusals of another breaker inside are failures like others.
 *
 * **How it composes.** A time limit for each attempt goes on the effect, inside. Do not put one retry around another:
 * attempts multiply (`RetryFailed` says that it is not retryable for that reason). The nearest `Deadline` always
 * holds. See `docs/composition.md`.
 *
 * **What it does not do.** It does not interrupt an attempt that takes long, it does not choose between providers, and
 * it repeats a stream only before its first element.
 *
 * **Example** (Three attempts behind a circuit)
 *
 * ```ts
 * fetchAnswer.pipe(
 *   Effect.timeout("10 seconds"),
 *   Retry.with({
 *     classify: (error) => (error._tag === "Busy" ? Retry.again({ retryAfter: error.wait }) : Retry.stop),
 *     deadline: "1 minute",
 *     breaker: { circuit: "https://api.example.com" }
 *   })
 * )
 * ```
 */
import { Cause, Clock, Data, Duration, Effect, Exit, Option, Random, Stream } from "effect"
import * as CircuitBreaker from "../breaker/CircuitBreaker.ts"
import { CircuitRefused } from "../breaker/CircuitRefused.ts"
import { AttemptOptions } from "../breaker/Circuits.ts"
import * as MissingService from "../MissingService.ts"
import * as Check from "../Options.ts"
import * as ErrorText from "../ErrorText.ts"
import * as Refusal from "../Refusal.ts"
import * as ResilienceEvents from "../telemetry/ResilienceEvents.ts"
import * as AttemptLimits from "./AttemptLimits.ts"
import * as Backoff from "./Backoff.ts"
import * as Deadline from "./Deadline.ts"
import type { Flight } from "./RetryBudget.ts"
import { RetryBudget } from "./RetryBudget.ts"
import type { RetryEvent, Stopped } from "./RetryEvent.ts"
import type { Ledger, Rules, Verdict } from "./RetryState.ts"
import { afterFailure, afterRefusal, start } from "./RetryState.ts"

export type { Verdict } from "./RetryState.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** It would fail again. */
export const stop: Verdict<never> = { retry: false }

/** It may pass. */
export const again = <const Class extends string = never>(
  options: { readonly class?: Class | undefined; readonly retryAfter?: Duration.Input | undefined } = {}
): Verdict<Class> => {
  const isGiven: boolean = typeof options === "object" && options !== null
  Check.check(isGiven, "Retry.again", "options", options, "an object such as { class, retryAfter }")
  return { retry: true, ...options }
}

/** An error that says for itself whether another attempt makes sense. */
export interface SaysRetryable {
  readonly isRetryable: boolean
  readonly retryAfter?: Duration.Input | undefined
}

/** Does what the error says: the default. */
export const classify = (error: SaysRetryable): Verdict<never> =>
  error.isRetryable ? again({ retryAfter: error.retryAfter }) : stop

/** A circuit around each attempt. */
export interface Breaker<Circuit extends CircuitBreaker.Names = CircuitBreaker.Names> {
  readonly circuit: Circuit
  /** What an attempt counts as for the circuit. Default: failures that pass count, with their `retryAfter`, and so do defects. */
  readonly classify?: CircuitBreaker.Classify | undefined
  /** Default "fail". "wait" waits as long as the deadline allows: without one, for ever. */
  readonly whenRefused?: "fail" | "wait" | undefined
}

/** Attempts by class: of those that `classify` gives, and of the one that has no name. */
export type PerClass<Class extends string> = { readonly [Name in Class | "failure"]?: number }

/**
 * `Budget` and `Circuit` are what `budget` and the circuit are known to be, `never` without one: they decide which
 * services are needed. `Class` is what `classify` is known to give.
 */
export interface Options<
  E,
  Budget extends boolean = boolean,
  Circuit extends CircuitBreaker.Names = CircuitBreaker.Names,
  Class extends string = string
> {
  /** Which failures pass. Default: {@link classify}, if every error has `isRetryable`. */
  readonly classify?: ((error: E) => Verdict<Class>) | undefined
  /**
   * Attempts of the call, with the first, whatever their class. Default 3, or the most that a class of
   * `attemptsPerClass` may have, if that is more.
   */
  readonly attempts?: number | undefined
  /**
   * Attempts that may end in a class of failure, with the first: 5 is four retries after failures of that class. A
   * class that is listed has its own number. Those that are not have what the call has without this option,
   * `attempts` or 3, all of them together. The call ends with whichever is used up first, its own number included.
   */
  readonly attemptsPerClass?: PerClass<NoInfer<Class>> | undefined
  /**
   * Whether the classes also share the `attempts` of the call. Default "pooled": they do. "own": each class has its
   * own attempts, whatever the others have used; `attempts` is then that of the classes that are not listed, and the
   * call has no number of its own.
   */
  readonly attemptPools?: "own" | "pooled" | undefined
  /** Default: `Backoff.exponential()`. */
  readonly backoff?: Backoff.Backoff | undefined
  /** How a server's wait counts. Default "minimum": at least that. */
  readonly retryAfter?: Backoff.HintRule["retryAfter"] | undefined
  /** A server that wants to be left alone for longer is not called again. Default 60 seconds. */
  readonly maxRetryAfter?: Duration.Input | undefined
  /** A server's wait is lengthened by up to this share of itself. Default 0.1. */
  readonly retryAfterJitter?: number | undefined
  /** So long after the call began, and later, no further attempt begins. Default: only the `Deadline` around it. */
  readonly deadline?: Duration.Input | undefined
  /** The call pays into the `RetryBudget` of the environment, and its retries take from it. Default false. */
  readonly budget?: Budget | undefined
  /** A circuit around each attempt, of the `CircuitBreaker` of the environment. Default: none. */
  readonly breaker?: Breaker<Circuit> | undefined
  /** For events. */
  readonly name?: string | undefined
}

export const defaults = {
  attempts: 3,
  attemptPools: "pooled",
  budget: false,
  whenRefused: "fail"
} as const

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** All that could be done was done. Its message says nothing of the failure; that is the `cause`. */
export class RetryFailed<E> extends Data.TaggedError("RetryFailed")<{
  /** What the last attempt failed with. Without an attempt, the refusal of the circuit that came instead of one. */
  readonly failure: unknown
  /** The refusal of the circuit that ended the call, where one did. */
  readonly refused?: CircuitRefused | undefined
  /** Attempts that were made; refusals of a circuit are none. */
  readonly attempts: number
  readonly stopped: Stopped
}> {
  declare readonly failure: E
  /** The call was already made as often as it should be. */
  readonly isRetryable = false
  /** The `failure`, for who prints causes. */
  override readonly cause: E
  /** Without an attempt nothing was called: a breaker around this does not count it. */
  declare readonly [Refusal.mark]?: true

  constructor(fields: {
    readonly failure: E
    readonly refused?: CircuitRefused | undefined
    readonly attempts: number
    readonly stopped: Stopped
  }) {
    super(fields)
    this.cause = fields.failure
    if (fields.attempts === 0) this[Refusal.mark] = true
  }

  override get message(): string {
    const attempts = this.attempts === 1 ? "1 attempt" : `${this.attempts} attempts`
    const late = this.refused !== undefined && this.stopped === "deadline"
    return `Gave up after ${attempts}: ${late ? `${why.refused} before the deadline` : why[this.stopped]}.`
  }
}

ErrorText.printedOnce(RetryFailed, { withCause: true })

const why: Readonly<Record<Stopped, string>> = {
  "not-retryable": "the failure does not pass by itself",
  attempts: "no more are allowed",
  deadline: "there is no time for another one before the deadline",
  "retry-after": "the server asks for a longer wait than is allowed",
  budget: "the retry budget is empty",
  refused: "a circuit does not let the call through",
  started: "the stream had begun and cannot be made again"
}

// -----------------------------------------------------------------------------
// Combinators
// -----------------------------------------------------------------------------

/** The services that the options ask for, or may ask for. */
export type Services<Budget extends boolean, Circuit extends CircuitBreaker.Names> =
  | (true extends Budget ? RetryBudget : never)
  | ([Circuit] extends [never] ? never : CircuitBreaker.CircuitBreaker)

/** What a retry fails with: nothing, where nothing can fail and no circuit can refuse. */
export type Failed<E, Circuit extends CircuitBreaker.Names> = [Circuit] extends [never]
  ? [E] extends [never]
    ? never
    : RetryFailed<E>
  : RetryFailed<E | CircuitRefused>

interface Classified<
  E,
  Budget extends boolean,
  Circuit extends CircuitBreaker.Names,
  Class extends string
> extends Options<E, Budget, Circuit, Class> {
  readonly classify: (error: E) => Verdict<Class>
}

/** Every error says for itself whether it passes, and none has a class. */
interface Unclassified<Budget extends boolean, Circuit extends CircuitBreaker.Names> extends Options<
  never,
  Budget,
  Circuit,
  never
> {
  readonly classify?: undefined
}

interface With {
  <
    E,
    const Class extends string,
    const Budget extends boolean = false,
    Circuit extends CircuitBreaker.Names = never
  >(
    options: Classified<E, Budget, Circuit, Class>
  ): <A, R>(
    self: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, Failed<E, Circuit>, R | Services<Budget, Circuit>>
  <const Budget extends boolean = false, Circuit extends CircuitBreaker.Names = never>(
    options?: Unclassified<Budget, Circuit>
  ): <A, E extends SaysRetryable, R>(
    self: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, Failed<E, Circuit>, R | Services<Budget, Circuit>>
  <
    A,
    E,
    R,
    const Class extends string,
    const Budget extends boolean = false,
    Circuit extends CircuitBreaker.Names = never
  >(
    self: Effect.Effect<A, E, R>,
    options: Classified<NoInfer<E>, Budget, Circuit, Class>
  ): Effect.Effect<A, Failed<E, Circuit>, R | Services<Budget, Circuit>>
  <
    A,
    E extends SaysRetryable,
    R,
    const Budget extends boolean = false,
    Circuit extends CircuitBreaker.Names = never
  >(
    self: Effect.Effect<A, E, R>,
    options: Unclassified<Budget, Circuit>
  ): Effect.Effect<A, Failed<E, Circuit>, R | Services<Budget, Circuit>>
}

interface WithStream {
  <
    E,
    const Class extends string,
    const Budget extends boolean = false,
    Circuit extends CircuitBreaker.Names = never
  >(
    options: Classified<E, Budget, Circuit, Class>
  ): <A, R>(
    self: Stream.Stream<A, E, R>
  ) => Stream.Stream<A, Failed<E, Circuit>, R | Services<Budget, Circuit>>
  <const Budget extends boolean = false, Circuit extends CircuitBreaker.Names = never>(
    options?: Unclassified<Budget, Circuit>
  ): <A, E extends SaysRetryable, R>(
    self: Stream.Stream<A, E, R>
  ) => Stream.Stream<A, Failed<E, Circuit>, R | Services<Budget, Circuit>>
  <
    A,
    E,
    R,
    const Class extends string,
    const Budget extends boolean = false,
    Circuit extends CircuitBreaker.Names = never
  >(
    self: Stream.Stream<A, E, R>,
    options: Classified<NoInfer<E>, Budget, Circuit, Class>
  ): Stream.Stream<A, Failed<E, Circuit>, R | Services<Budget, Circuit>>
  <
    A,
    E extends SaysRetryable,
    R,
    const Budget extends boolean = false,
    Circuit extends CircuitBreaker.Names = never
  >(
    self: Stream.Stream<A, E, R>,
    options: Unclassified<Budget, Circuit>
  ): Stream.Stream<A, Failed<E, Circuit>, R | Services<Budget, Circuit>>
}

/**
 * Retries an effect, which comes last (`effect.pipe(Retry.with(options))`) or first (`Retry.with(effect, options)`). Its
 * failures become {@link RetryFailed}; `Effect.catchTag("RetryFailed", ({ failure }) => …)` has the original.
 *
 * Throws an `InvalidOption`, a `RangeError`, for an option out of its range.
 */
// The overloads say what E must be; inside, an error is whatever `classify` takes.
const retryEffect = ((
  first?: Options<unknown> | Effect.Effect<unknown, unknown, unknown>,
  second?: Options<unknown>
) => {
  if (Effect.isEffect(first)) return call(read(second), first)
  if (second !== undefined) Check.effect(module, "effect", first)
  const settings = read(first)
  return (self: Effect.Effect<unknown, unknown, unknown>) =>
    call(settings, Check.effect(module, "effect", self))
}) as With

/**
 * Retries a stream that fails before its first element; one that fails later has `stopped: "started"`. Otherwise as
 * `with`. For the circuit, an attempt lasts until the stream ends.
 */
// As above.
export const withStream = ((
  first?: Options<unknown> | Stream.Stream<unknown, unknown, unknown>,
  second?: Options<unknown>
) => {
  if (Stream.isStream(first)) return streamCall(read(second), first)
  if (second !== undefined) isStream(module, "stream", first)
  const settings = read(first)
  return (self: Stream.Stream<unknown, unknown, unknown>) => {
    isStream(module, "stream", self)
    return streamCall(settings, self)
  }
}) as WithStream

export { retryEffect as with }

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

const module = "Retry"

interface Settings extends Rules {
  readonly classify: (error: unknown) => Verdict
  readonly deadline: Duration.Duration | undefined
  readonly budget: boolean
  readonly breaker: (Pick<Breaker, "circuit"> & { readonly classify: CircuitBreaker.Classify }) | undefined
  readonly name: string | undefined
}

/** What is built per call reads its options per call, so what is left out is not read again. */
const unsaid = {
  limits: AttemptLimits.make({ perClass: {}, pooled: defaults.attempts }),
  backoff: Backoff.exponential(),
  hint: Backoff.hintRule()
}

const { is } = Check

const isStream: Check.Check = (module, field, value) =>
  Check.check(Stream.isStream(value), module, field, value, "a Stream")

const checks: Check.Checks<Options<unknown>> = {
  classify: is.fn("(error) => Verdict"),
  attempts: is.integer({ min: 1 }),
  attemptsPerClass: is.record(is.integer({ min: 1 })),
  attemptPools: is.oneOf("own", "pooled"),
  backoff: Backoff.isBackoff,
  ...Backoff.hintChecks,
  // `read` checks it: reading it twice would cost more than all other checks.
  deadline: is.anything,
  budget: is.flag,
  breaker: is.object<Breaker>({
    circuit: is.required(CircuitBreaker.isNames),
    classify: is.fn("(exit) => Outcome"),
    whenRefused: is.oneOf("fail", "wait")
  }),
  name: is.string
}

const read = (options: Options<unknown> = {}): Settings => {
  Check.fields(module, options, checks)
  // The overloads see to it that without `classify` every error says so itself.
  const judge = options.classify ?? (classify as (error: unknown) => Verdict)
  const { backoff = unsaid.backoff, breaker, budget = defaults.budget, deadline, name } = options
  return {
    classify: judge,
    limits: limitsOf(options),
    backoff,
    hint: hintOf(options),
    deadline: deadline === undefined ? undefined : Check.duration(module, "deadline", deadline),
    budget,
    breaker: breaker && { circuit: breaker.circuit, classify: breaker.classify ?? forCircuit(judge) },
    whenRefused: breaker?.whenRefused ?? defaults.whenRefused,
    name
  }
}

const limitsOf = ({
  attempts,
  attemptsPerClass,
  attemptPools
}: Options<unknown>): AttemptLimits.AttemptLimits => {
  const pools = attemptPools ?? defaults.attemptPools
  if (attempts === undefined && attemptsPerClass === undefined && pools === "pooled") return unsaid.limits
  const unlisted = attempts ?? defaults.attempts
  const perClass = attemptsPerClass ?? {}
  const own = Object.values(perClass).flatMap((limit) => (limit === undefined ? [] : [limit]))
  return {
    perClass,
    unlisted,
    pooled: pools === "own" ? undefined : (attempts ?? Math.max(unlisted, ...own))
  }
}

const hintOf = ({ retryAfter, maxRetryAfter, retryAfterJitter }: Options<unknown>): Backoff.HintRule => {
  const { hint } = unsaid
  if (retryAfter === undefined && maxRetryAfter === undefined && retryAfterJitter === undefined) return hint
  return Backoff.hintRule({ retryAfter, maxRetryAfter, retryAfterJitter })
}

/** What would fail again says nothing about who is called; what passes does, and when it wants to be asked again. */
const forCircuit =
  (judge: (error: unknown) => Verdict): CircuitBreaker.Classify =>
  (exit) => {
    const outcome = CircuitBreaker.classify(exit)
    if (outcome.counts !== "failure" || Exit.isSuccess(exit) || Cause.hasDies(exit.cause)) return outcome
    const failure = exit.cause.reasons.find(Cause.isFailReason)
    const verdict = failure === undefined ? stop : judge(failure.error)
    return verdict.retry
      ? { counts: "failure", retryAfter: verdict.retryAfter ?? outcome.retryAfter }
      : { counts: "ignored" }
  }

/** One call, which is also its identity for its circuit. */
interface Call {
  /** Whether the attempt got through the circuit. */
  ran: boolean
  /** Whether the call has paid into the retry budget. */
  paid: boolean
}

const verdictNoun = "a Verdict, for example Retry.again() or Retry.stop"

/** A classifier without types may return anything. */
const isVerdict = (value: unknown): value is Verdict =>
  typeof value === "object" && value !== null && "retry" in value && typeof value.retry === "boolean"

/** What `classify` says, or what it died of. */
const judged = (
  { classify: judge }: Settings,
  error: unknown
): Verdict | { readonly retry: undefined; readonly defect: unknown } => {
  try {
    const verdict = judge(error)
    // Read here, so that a verdict that is none is a defect of the classifier too.
    if (!isVerdict(verdict)) throw Check.wrongReturn(module, "classify", verdict, verdictNoun)
    return verdict.retry ? verdict : stop
  } catch (defect) {
    return { retry: undefined, defect }
  }
}

/** Waits, if there is to be another attempt, and gives the ledger for it. Otherwise fails. */
const next = (
  settings: Settings,
  ledger: Ledger,
  cause: Cause.Cause<unknown>,
  { ran }: Call,
  started: boolean
): Effect.Effect<Ledger, RetryFailed<unknown>, RetryBudget> => {
  const failure = cause.reasons.find(Cause.isFailReason)
  /** For good, beside a defect: its type is still promised. */
  const broken = (cause: Cause.Cause<unknown>) => {
    const attempts = ledger.failed.total + 1
    return Effect.failCause(
      Cause.map(cause, (failure) => new RetryFailed({ failure, attempts, stopped: "not-retryable" }))
    )
  }
  // Beside a defect a failure is nothing to go by.
  if (failure === undefined || Cause.hasDies(cause)) return broken(cause)
  const { error } = failure
  const refused = !ran && error instanceof CircuitRefused ? error : undefined
  const verdict = refused === undefined ? judged(settings, error) : stop
  if (verdict.retry === undefined && verdict.defect instanceof Check.InvalidOption) {
    // A mistake in the program. Beside a failure it would not be seen.
    verdict.defect.cause = error
    return Effect.die(verdict.defect)
  }
  if (verdict.retry === undefined) return broken(Cause.combine(cause, Cause.die(verdict.defect)))
  return Effect.gen(function* () {
    const left = Option.match(yield* Deadline.remaining, {
      onNone: () => Infinity,
      onSome: Duration.toMillis
    })
    const around = { left, draw: yield* Random.next }
    const decision =
      refused === undefined
        ? afterFailure(settings, ledger, error, verdict, started, around)
        : afterRefusal(settings, ledger, refused, around)
    const attempts = decision.ledger.failed.total
    const fail = (stopped: Stopped) =>
      Effect.andThen(
        publish(settings, { _tag: "RetriesExhausted", attempts, stopped }),
        Effect.fail(
          new RetryFailed({
            failure: attempts === 0 ? error : decision.ledger.failure,
            attempts,
            stopped,
            ...(refused === undefined ? {} : { refused })
          })
        )
      )
    if (decision.stopped !== undefined) return yield* fail(decision.stopped)
    if (settings.budget && refused === undefined && !(yield* (yield* retryBudget).withdraw)) {
      return yield* fail("budget")
    }
    const { wait: delay, class: of } = decision
    yield* publish(settings, {
      _tag: "Retrying",
      attempt: attempts,
      delay,
      because: refused === undefined ? "failed" : "refused",
      ...(of === undefined ? {} : { class: of })
    })
    yield* Effect.sleep(Duration.millis(delay))
    return decision.ledger
  })
}

type Unstamped<Event> = Event extends unknown ? Omit<Event, "at" | "name"> : never

const publish = ({ name }: Settings, event: Unstamped<RetryEvent>): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (at) =>
    ResilienceEvents.publish({ ...event, at, ...(name === undefined ? {} : { name }) })
  )

/** Says so, if it was not the first attempt. */
const succeeded = (settings: Settings, { failed }: Ledger): Effect.Effect<void> =>
  failed.total === 0 ? Effect.void : publish(settings, { _tag: "RetrySucceeded", attempts: failed.total + 1 })

const retryBudget = MissingService.get(RetryBudget, "RetryBudget", "RetryBudget.layer()")

/** Runs `f` with the budget, in one step. */
const withBudget = <A, E, R>(f: (budget: RetryBudget["Service"]) => Effect.Effect<A, E, R>) =>
  MissingService.use(RetryBudget, "RetryBudget", "RetryBudget.layer()", f)

const pay = withBudget(({ deposit }) => deposit)

/** `RetryBudget.track` for a stream: it succeeds when it reaches its end. */
const tracked = (self: Stream.Stream<unknown, unknown, unknown>) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { beginUnsafe } = yield* RetryBudget
      const end = (flight: Flight, hasSucceeded: boolean) =>
        Effect.withFiber((fiber) => Effect.sync(() => flight.endUnsafe(fiber, hasSucceeded)))
      const flight = yield* Effect.acquireRelease(
        Effect.withFiber((fiber) => Effect.sync(() => beginUnsafe(fiber))),
        (flight) => end(flight, false)
      )
      return Stream.onEnd(self, end(flight, true))
    })
  )

/** A call pays when its first attempt runs: what its circuit refuses is no traffic. */
const owes = ({ budget }: Settings, one: Call): boolean => {
  if (!budget || one.paid) return false
  one.paid = true
  return true
}

/** For calls without a circuit, which remember nothing. */
const free: Call = { ran: true, paid: true }

const call = (settings: Settings, attempted: Effect.Effect<unknown, unknown, unknown>) => {
  const { breaker, budget, deadline } = settings
  const self = budget ? withBudget(({ track }) => track(attempted)) : attempted
  const paying = budget
    ? withBudget(({ deposit, track }) => Effect.andThen(deposit, track(attempted)))
    : attempted
  const attempt = (one: Call): Effect.Effect<unknown, unknown, unknown> => {
    if (breaker === undefined) return self
    one.ran = false
    const run = Effect.suspend(() => {
      one.ran = true
      return owes(settings, one) ? paying : self
    })
    return CircuitBreaker.execute(breaker.circuit, new AttemptOptions(breaker.classify, one))(run)
  }
  const attempts = (
    ledger: Ledger,
    one: Call,
    first: Effect.Effect<unknown, unknown, unknown>
  ): Effect.Effect<unknown, unknown, unknown> =>
    Effect.catchCause(
      ledger.failed.total === 0 ? first : Effect.tap(first, succeeded(settings, ledger)),
      (cause) =>
        Effect.flatMap(next(settings, ledger, cause, one, false), (after) =>
          attempts(after, one, attempt(one))
        )
    )
  const all =
    breaker === undefined
      ? attempts(start, free, paying)
      : Effect.suspend(() => {
          const one: Call = { ran: false, paid: false }
          return attempts(start, one, attempt(one))
        })
  return deadline === undefined ? all : Deadline.within(all, deadline)
}

const streamCall = (settings: Settings, attempted: Stream.Stream<unknown, unknown, unknown>) => {
  const { breaker, budget, deadline } = settings
  const self = budget ? tracked(attempted) : attempted
  const attempt = (one: Call): Stream.Stream<unknown, unknown, unknown> => {
    one.ran = breaker === undefined
    const run = Stream.suspend(() => {
      one.ran = true
      return owes(settings, one) ? Stream.unwrap(Effect.as(pay, self)) : self
    })
    return breaker === undefined
      ? run
      : CircuitBreaker.executeStream(breaker.circuit, { classify: breaker.classify, call: one })(run)
  }
  const attempts = (ledger: Ledger, one: Call): Stream.Stream<unknown, unknown, unknown> =>
    Stream.suspend(() => {
      let started = false
      const begin = Effect.sync(() => {
        started = true
      })
      return attempt(one).pipe(
        Stream.onFirst(() => begin),
        Stream.onEnd(succeeded(settings, ledger)),
        Stream.catchCause((cause) =>
          Stream.unwrap(
            Effect.map(next(settings, ledger, cause, one, started), (after) => attempts(after, one))
          )
        )
      )
    })
  const all = Stream.suspend(() => attempts(start, { ran: false, paid: false }))
  if (deadline === undefined) return all
  return Stream.unwrap(
    Effect.map(Deadline.within(Deadline.Deadline, deadline), (own) =>
      Stream.provideService(all, Deadline.Deadline, own)
    )
  )
}
