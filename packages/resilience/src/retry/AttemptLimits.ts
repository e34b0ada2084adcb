/**
 * How many attempts one call may make, by class of failure.
 *
 * A class is any string that the caller sorts its failures by. A class with a limit of its own has its own pool; all
 * others have one together, of `unlisted` attempts; with `pooled`, all attempts of the call also draw on one pool in
 * common. A class in none of them is never repeated, so that what nobody thought of fails fast. A limit counts
 * attempts with the first: 5 is four retries.
 *
 * A pure counter of one call: start each from {@link initial}. It knows no time and no delays (`Backoff`), and
 * nothing of other calls (`FailureStreaks`, `RetryBudget`).
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
  /** Attempts that may end in a class. */
  readonly perClass: { readonly [Class in string]?: number }
  /** Attempts that may end in the classes that are not listed, all of them together. */
  readonly unlisted?: number | undefined
  /** Attempts of the call, over all classes. */
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
  /** Of all classes that are not listed. */
  readonly unlisted: number
}

export const initial: State = { total: 0, byClass: new Map(), unlisted: 0 }

export type Verdict =
  /** One more attempt; `retry` is its number among the retries after this class, 1 for the first: `n` of `Backoff`. */
  | { readonly _tag: "Allowed"; readonly retry: number }
  /** No further attempt, because of the class's own limit, the pool, or the limit of those not listed, if any. */
  | { readonly _tag: "Denied"; readonly by: "class" | "pool" | "unlisted" }

/** Counts an attempt that failed with `name`, and says whether there may be another. */
export const next = (limits: AttemptLimits, state: State, name: string): readonly [Verdict, State] => {
  const failed = (state.byClass.get(name) ?? 0) + 1
  // Only own fields: a class may be called "constructor".
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
