/**
 * Errors raised before anything was called: an open circuit, an exhausted permit, a full limiter.
 *
 * A refusal is not a failure of the protected service. An outer breaker ignores it, and an alert does not count it.
 * Give your own error this mark to have it treated the same.
 *
 * **Example** (A custom limiter)
 *
 * ```ts
 * class Full extends Data.TaggedError("Full")<{}> {
 *   readonly [Refusal.mark] = true
 * }
 * ```
 */
import { Predicate } from "effect"

/** The property that marks a refusal. */
export const mark = "~@outlast/resilience/Refusal"

/** An error raised instead of a call. */
export interface Refusal {
  readonly [mark]: true
}

/** Effect's own refusals, which do not carry the mark. */
const ofEffect: ReadonlyArray<string> = [
  "~effect/persistence/CircuitBreaker/CircuitBreakerError",
  "~effect/persistence/RateLimiter/RateLimiterError"
]

/**
 * True when nothing was called: the error has the {@link mark}, or comes from Effect's own CircuitBreaker or
 * RateLimiter.
 */
export const isRefusal = (error: unknown): boolean =>
  Predicate.isObject(error) && (Predicate.hasProperty(error, mark) || ofEffect.some((id) => id in error))
