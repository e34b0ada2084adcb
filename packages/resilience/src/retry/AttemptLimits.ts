/**
 * Limits the attempts of one call by class of failure.
 *
 * A class is any string chosen by the caller. A class listed in `perClass` has its own limit. All other classes share
 * the limit `unlisted`. With `pooled`, all attempts of the call also share one limit. A class without any limit is
 * never retried, so that unexpected failures fail fast. Limits include the first attempt: 5 means four retries.
 *
 * **Limits.** A pure counter for one call: start each call from {@link initial}. Delays belong to `Backoff`, failures
 * across calls to `FailureStreaks` and `RetryBudget`.
 *
 * **Example** (Two classes, and ten attempts in all)
 *
 * ```ts
 * const limits = AttemptLimits.make({ perClass: { RateLimit: 5, ServerError: 3 }, pooled: 10 })
 * const [verdict, state] = AttemptLimits.next(limits, AttemptLimits.initial, "ServerError")
 * verdict // => { _tag: "Allowed", retry: 1 }
 * ```
 */
import * as Options from "../Options.ts"

export interface AttemptLimits {
  /** Maximum number of attempts that may end in each class. */
  readonly perClass: { readonly [Class in string]?: number }
  /**
   * Maximum number of attempts that may end in unlisted classes, all of them together. Default: unlimited with
   * `pooled`, else none is repeated.
   */
  readonly unlisted?: number | undefined
  /** Maximum number of attempts of the call, over all classes. Default: unlimited. */
  readonly pooled?: number | undefined
}

/** Throws an `InvalidOption` (a `RangeError`) for a limit that is not an integer of at least 1. */
export const make = (limits: AttemptLimits): AttemptLimits => {
  Options.fields("AttemptLimits", limits, checks)
  return limits
}

const { is } = Options

const checks: Options.Checks<AttemptLimits> = {
  perClass: is.required(is.record(is.integer({ min: 1 }))),
  unlisted: is.integer({ min: 1 }),
  pooled: is.integer({ min: 1 })
}

/** Failed attempts of one call. */
export interface State {
  readonly total: number
  readonly byClass: ReadonlyMap<string, number>
  /** Failed attempts of all unlisted classes. */
  readonly unlisted: number
}

export const initial: State = { total: 0, byClass: new Map(), unlisted: 0 }

export type Verdict =
  /**
   * One more attempt is allowed. `retry` is its number among the retries after this class, starting at 1 (`n` of
   * `Backoff`).
   */
  | { readonly _tag: "Allowed"; readonly retry: number }
  /** No further attempt is allowed. `by` names the limit: the class's own, the pool, or that of unlisted classes. */
  | { readonly _tag: "Denied"; readonly by: "class" | "pool" | "unlisted" }

/** Counts an attempt that failed with the class `name`, and decides whether another is allowed. */
export const next = (limits: AttemptLimits, state: State, name: string): readonly [Verdict, State] => {
  const failed = (state.byClass.get(name) ?? 0) + 1
  // Reads own properties only, because a class may be called "constructor".
  const own = Object.hasOwn(limits.perClass, name) ? limits.perClass[name] : undefined
  const after: State = {
    total: state.total + 1,
    byClass: new Map(state.byClass).set(name, failed),
    unlisted: state.unlisted + (own === undefined ? 1 : 0)
  }
  const deniedBy =
    failed >= (own ?? Infinity)
      ? "class"
      : own === undefined &&
          after.unlisted >= (limits.unlisted ?? (limits.pooled === undefined ? 0 : Infinity))
        ? "unlisted"
        : after.total >= (limits.pooled ?? Infinity)
          ? "pool"
          : undefined
  return [
    deniedBy === undefined ? { _tag: "Allowed", retry: failed } : { _tag: "Denied", by: deniedBy },
    after
  ]
}
