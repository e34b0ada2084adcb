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
 * `docs/understand/composition.md`.
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
import { Cause, Effect, Exit, Stream } from "effect"
import type { Duration } from "effect"
import * as CircuitBreaker from "../breaker/CircuitBreaker.ts"
import type { CircuitRefused } from "../breaker/CircuitRefused.ts"
import * as Check from "../Options.ts"
import * as AttemptLimits from "./AttemptLimits.ts"
import * as Backoff from "../Backoff.ts"
import type { RetryBudget } from "./RetryBudget.ts"
import type { Settings } from "./RetryCall.ts"
import { call, streamCall } from "./RetryCall.ts"
import type { RetryFailed } from "./RetryFailed.ts"
import type { Verdict } from "./RetryState.ts"

export { RetryFailed } from "./RetryFailed.ts"
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
 * Retries an effect, as `effect.pipe(Retry.with(options))` or `Retry.with(effect, options)`.
 *
 * Failures become {@link RetryFailed}. Its `failure` has the original: catch it with
 * `Effect.catchTag("RetryFailed", ({ failure }) => …)`.
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
