/**
 * Retries an effect or a stream, with limits on attempts, waits, time and load.
 *
 * One combinator applies the policies in the right order: the deadline outside; then classification, attempt limits,
 * wait and retry budget for each failure; the circuit inside, so that it sees every attempt.
 *
 * **After a failure**, the failure is classified. The call stops when the failure is not retryable, the attempt limit
 * is reached, the wait is longer than allowed or than the remaining time, or the budget is empty. It then fails with
 * {@link RetryFailed}, which holds the last failure, the number of attempts and the reason. Otherwise the call waits
 * and makes another attempt. Defects and interruptions are passed on at once. If `classify` throws, that defect is
 * added to the failure. If `classify` returns something else than a verdict, the call dies with an `InvalidOption`
 * whose `cause` is the failure.
 *
 * **When the circuit refuses**, nothing was called. A refusal is not an attempt and does not touch the retry budget.
 * The call fails, or waits until the circuit lets it through (`whenRefused: "wait"`) or the deadline ends: set one. If
 * an earlier attempt failed, its failure stays the call's failure, and `refused` holds the refusal. Refusals by another
 * breaker inside count as failures.
 *
 * **How it composes.** Put a timeout for each attempt on the effect, inside. Do not nest retries, because attempts
 * multiply; `RetryFailed` is not retryable for that reason. The earliest `Deadline` always applies. See
 * `docs/composition.md`.
 *
 * **Limits.** A long attempt is not interrupted. Providers are not switched. A stream is repeated only before its first
 * element.
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
import { Cause, Data, Duration, Effect, Exit, Option, Random, Stream } from "effect"
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

/** The verdict for a failure that would happen again. */
export const stop: Verdict<never> = { retry: false }

/** The verdict for a transient failure. */
export const again = <const Class extends string = never>(
  options: { readonly class?: Class | undefined; readonly retryAfter?: Duration.Input | undefined } = {}
): Verdict<Class> => {
  const isGiven: boolean = typeof options === "object" && options !== null
  Check.check(isGiven, "Retry.again", "options", options, "an object such as { class, retryAfter }")
  return { retry: true, ...options }
}

/** An error that states whether another attempt makes sense. */
export interface SaysRetryable {
  readonly isRetryable: boolean
  readonly retryAfter?: Duration.Input | undefined
}

/** Follows the error's own `isRetryable` and `retryAfter`. The default classification. */
export const classify = (error: SaysRetryable): Verdict<never> =>
  error.isRetryable ? again({ retryAfter: error.retryAfter }) : stop

/** A circuit around each attempt. */
export interface Breaker<Circuit extends CircuitBreaker.Names = CircuitBreaker.Names> {
  readonly circuit: Circuit
  /**
   * Decides the outcome of an attempt for the circuit. Default: retryable failures count, with their `retryAfter`, and
   * so do defects.
   */
  readonly classify?: CircuitBreaker.Classify | undefined
  /**
   * The reaction to a refusal by the circuit. "wait" waits until the deadline; without a deadline, without limit. Default:
   * "fail".
   */
  readonly whenRefused?: "fail" | "wait" | undefined
}

/** Attempt limits by class: the classes that `classify` returns, and "failure" for failures without one. */
export type PerClass<Class extends string> = { readonly [Name in Class | "failure"]?: number }

/**
 * `Budget` and `Circuit` are the types of `budget` and of the circuit, `never` without one. They determine the services
 * that are required. `Class` is the type of the classes that `classify` returns.
 */
export interface Options<
  E,
  Budget extends boolean = boolean,
  Circuit extends CircuitBreaker.Names = CircuitBreaker.Names,
  Class extends string = string
> {
  /** Decides which failures are retryable. Default: {@link classify}, if every error has `isRetryable`. */
  readonly classify?: ((error: E) => Verdict<Class>) | undefined
  /**
   * Maximum number of attempts of the call, including the first, over all classes. Default: 3, or the highest limit in
   * `attemptsPerClass` if that is greater.
   */
  readonly attempts?: number | undefined
  /**
   * Maximum number of attempts that may end in a class of failure, including the first: 5 means four retries after
   * failures of that class.
   *
   * Unlisted classes share one limit, which is `attempts` or 3. The call stops at the first limit that is reached,
   * including its own.
   */
  readonly attemptsPerClass?: PerClass<NoInfer<Class>> | undefined
  /**
   * "pooled": the classes also share the `attempts` of the call. "own": each class has only its own limit; `attempts`
   * then limits the unlisted classes, and the call has no limit of its own. Default: "pooled".
   */
  readonly attemptPools?: "own" | "pooled" | undefined
  /** Delays between attempts. Default: `Backoff.exponential()`. */
  readonly backoff?: Backoff.Backoff | undefined
  /** The rule for a server's Retry-After. Default: "minimum", which waits at least that long. */
  readonly retryAfter?: Backoff.HintRule["retryAfter"] | undefined
  /** Longest wait to accept from a server. If the server requests a longer one, the call fails. Default: 60 seconds. */
  readonly maxRetryAfter?: Duration.Input | undefined
  /** Share by which a server's wait is lengthened at random. Default: 0.1. */
  readonly retryAfterJitter?: number | undefined
  /**
   * Time after the start of the call from which no further attempt is started. Default: only the `Deadline` around the
   * call.
   */
  readonly deadline?: Duration.Input | undefined
  /** Uses the `RetryBudget` of the environment: the call pays into it, and its retries take from it. Default: false. */
  readonly budget?: Budget | undefined
  /** A circuit around each attempt, from the `CircuitBreaker` of the environment. Default: none. */
  readonly breaker?: Breaker<Circuit> | undefined
  /** Name of the call in events. */
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

/** The call failed and is not retried any more. The message has the reason for stopping; the failure is the `cause`. */
export class RetryFailed<E> extends Data.TaggedError("RetryFailed")<{
  /** Failure of the last attempt. Without an attempt, the circuit's refusal. */
  readonly failure: unknown
  /** The refusal that ended the call, if one did. */
  readonly refused?: CircuitRefused | undefined
  /** Number of attempts made. Refusals by a circuit do not count. */
  readonly attempts: number
  readonly stopped: Stopped
}> {
  declare readonly failure: E
  /** Not retryable, because the call has already been made as often as allowed. */
  readonly isRetryable = false
  /** Same as `failure`, for loggers that print causes. */
  override readonly cause: E
  /** Set without an attempt: nothing was called, so an outer breaker does not count the failure. */
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
    return `Gave up after ${attempts}: ${reasonOf(this)}.`
  }
}

ErrorText.printedOnce(RetryFailed, { withCause: true })

const reasonOf = ({ refused, stopped }: RetryFailed<unknown>): string => {
  if (refused === undefined) return why[stopped]
  const until = stopped === "deadline" ? " until the deadline" : ""
  return `circuit \`${refused.circuit}\` refused the call${until}`
}

const why: Readonly<Record<Stopped, string>> = {
  "not-retryable": "the failure is not retryable",
  attempts: "the attempt limit is reached",
  deadline: "no time is left for another attempt before the deadline",
  "retry-after": "the server requested a longer wait than allowed",
  budget: "the retry budget is empty",
  refused: "a circuit refused the call",
  started: "the stream had already started and cannot be repeated"
}

// -----------------------------------------------------------------------------
// Combinators
// -----------------------------------------------------------------------------

/** Services that the options require, or may require. */
export type Services<Budget extends boolean, Circuit extends CircuitBreaker.Names> =
  | (true extends Budget ? RetryBudget : never)
  | ([Circuit] extends [never] ? never : CircuitBreaker.CircuitBreaker)

/** Error of a retry: `never` when the effect cannot fail and there is no circuit. */
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

/** Every error has its own `isRetryable`, and none has a class. */
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
 * …)` has the original. => Retries an effect, as `effect.pipe(Retry.with(options))` or `Retry.with(effect,
 * options)`. Failures become {@link RetryFailed}. Use `Effect.catchTag("RetryFailed", ({ failure }) =>
 * …)` to read the original failure. => …)` has the original.
 *
 * Throws an `InvalidOption`, a `RangeError`, for an option out of its range.
 */
// The overloads determine E. Inside, an error is whatever `classify` accepts.
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
 * Retries a stream that fails before its first element. A later failure has `stopped: "started"`. Otherwise like
 * `with`. For the circuit, an attempt lasts until the stream ends.
 */
// Cast for the same reason as in `with`.
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

/** Settings without options, built once. `Retry.with` often runs once per call. */
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
  // `read` checks it, because parsing the duration twice would cost more than all other checks.
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
  // Without `classify`, the overloads require `isRetryable` on every error.
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

/**
 * For the circuit, a failure that is not retryable is ignored: such a failure is no sign of poor health. A retryable
 * one counts, with its `retryAfter`.
 */
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

/** One call. The object also identifies the call to its circuit. */
interface Call {
  /** True when the attempt got through the circuit. */
  ran: boolean
  /** True when the call has paid into the retry budget. */
  paid: boolean
}

const verdictNoun = "a Verdict, for example Retry.again() or Retry.stop"

/** A classifier without types may return anything. */
const isVerdict = (value: unknown): value is Verdict =>
  typeof value === "object" && value !== null && "retry" in value && typeof value.retry === "boolean"

/** Returns the verdict of `classify`, or the defect it threw. */
const judged = (
  { classify: judge }: Settings,
  error: unknown
): Verdict | { readonly retry: undefined; readonly defect: unknown } => {
  try {
    const verdict = judge(error)
    // Checked here, so that a wrong return value also becomes a defect of the classifier.
    if (!isVerdict(verdict)) throw Check.wrongReturn(module, "classify", verdict, verdictNoun)
    return verdict.retry ? verdict : stop
  } catch (defect) {
    return { retry: undefined, defect }
  }
}

/** Waits and returns the ledger for the next attempt. Fails when there is none. */
const next = (
  settings: Settings,
  ledger: Ledger,
  cause: Cause.Cause<unknown>,
  { ran }: Call,
  started: boolean
): Effect.Effect<Ledger, RetryFailed<unknown>, RetryBudget> => {
  const failure = cause.reasons.find(Cause.isFailReason)
  /** Passes a cause with a defect on, with its failure wrapped as the type promises. */
  const broken = (cause: Cause.Cause<unknown>) => {
    const attempts = ledger.failed.total + 1
    return Effect.failCause(
      Cause.map(cause, (failure) => new RetryFailed({ failure, attempts, stopped: "not-retryable" }))
    )
  }
  // Next to a defect, a failure is not a reason to retry.
  if (failure === undefined || Cause.hasDies(cause)) return broken(cause)
  const { error } = failure
  const refused = !ran && error instanceof CircuitRefused ? error : undefined
  const verdict = refused === undefined ? judged(settings, error) : stop
  if (verdict.retry === undefined && verdict.defect instanceof Check.InvalidOption) {
    // A mistake in the program. Dies alone, because next to a failure the defect would be overlooked.
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

type Unnamed<Event> = Event extends RetryEvent ? Omit<Event, "at" | "name"> : never

const publish = ({ name }: Settings, event: Unnamed<RetryEvent>): Effect.Effect<void> =>
  ResilienceEvents.publishNow<RetryEvent>(name === undefined ? event : { ...event, name })

/** Publishes `RetrySucceeded`, unless the first attempt succeeded. */
const succeeded = (settings: Settings, { failed }: Ledger): Effect.Effect<void> =>
  failed.total === 0 ? Effect.void : publish(settings, { _tag: "RetrySucceeded", attempts: failed.total + 1 })

const retryBudget = MissingService.get(RetryBudget, "RetryBudget", "RetryBudget.layer()")

/** Runs `f` with the budget, in one step. */
const withBudget = <A, E, R>(f: (budget: RetryBudget["Service"]) => Effect.Effect<A, E, R>) =>
  MissingService.use(RetryBudget, "RetryBudget", "RetryBudget.layer()", f)

const pay = withBudget(({ deposit }) => deposit)

/** `RetryBudget.track` for a stream, which succeeds when it ends. */
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

/** A call pays when its first attempt runs. A call that the circuit refuses is not traffic. */
const owes = ({ budget }: Settings, one: Call): boolean => {
  if (!budget || one.paid) return false
  one.paid = true
  return true
}

/** For calls without a circuit, which need no state of their own. */
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
