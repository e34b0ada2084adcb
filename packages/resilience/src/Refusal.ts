/**
 * Errors that say "not now" before anything was called: an open circuit, an empty permit, a full limiter.
 *
 * They are no failure of what stands behind: a breaker further out ignores them, and an alert does not count
 * them. Give an error of your own this mark, and it is treated the same.
 *
 * **Example** (A limiter of one's own)
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

/** An error that was raised instead of a call. */
export interface Refusal {
  readonly [mark]: true
}

/** Effect's own refusals, which cannot carry the mark. */
const ofEffect: ReadonlyArray<string> = [
  "~effect/persistence/CircuitBreaker/CircuitBreakerError",
  "~effect/persistence/RateLimiter/RateLimiterError"
]

/** Whether nothing was called: an error with the {@link mark}, or of Effect's own CircuitBreaker or RateLimiter. */
export const isRefusal = (error: unknown): boolean =>
  Predicate.isObject(error) && (Predicate.hasProperty(error, mark) || ofEffect.some((id) => id in error))
