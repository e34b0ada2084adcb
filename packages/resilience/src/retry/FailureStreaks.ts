/**
 * Counts consecutive failures by name, across calls. The count is the `n` of a `Backoff` that outlives a call.
 *
 * A name is any string, such as a target or a task with its model. A success resets its count. At most `capacity` names
 * are kept. Beyond that, the name that failed longest ago is evicted and starts again at 1.
 *
 * Pure and without time: a streak does not expire. `AttemptLimits` decides whether to retry. `Retry` counts within one
 * call and does not use this module. Use it for state that outlives a call, such as the cooldown of a key: call
 * `succeeded` once the key has worked again.
 *
 * **Example** (A delay that grows across calls)
 *
 * ```ts
 * const [n, after] = FailureStreaks.failed(streaks, "openai/gpt-4.1")
 * const wait = Backoff.delay(spec, n, undefined, 0.5)
 * ```
 */
import * as Options from "../Options.ts"

export interface FailureStreaks {
  readonly capacity: number
  /** Count by name, ordered by the last failure, oldest first. */
  readonly counts: ReadonlyMap<string, number>
}

/** Default number of names to keep: enough for every target of a program, a few hundred KB at most. */
export const defaultCapacity = 1_000

/**
 * Creates an empty state. Throws an `InvalidOption` (a `RangeError`) for a capacity that is not an integer of at least
 * 1.
 */
export const make = (options: { readonly capacity?: number | undefined } = {}): FailureStreaks => {
  Options.fields("FailureStreaks", options, { capacity: Options.is.integer({ min: 1 }) })
  return { capacity: options.capacity ?? defaultCapacity, counts: new Map() }
}

/** Returns the number of failures of a name since its last success. */
export const of = ({ counts }: FailureStreaks, name: string): number => counts.get(name) ?? 0

/** Counts a failure. Returns the number of consecutive failures and the new state. */
export const failed = (streaks: FailureStreaks, name: string): readonly [number, FailureStreaks] => {
  const count = of(streaks, name) + 1
  const counts = new Map(streaks.counts)
  // A Map keeps insertion order. Deleted and set again, the name moves to the end.
  counts.delete(name)
  counts.set(name, count)
  const [oldest] = counts.keys()
  if (counts.size > streaks.capacity && oldest !== undefined) counts.delete(oldest)
  return [count, { ...streaks, counts }]
}

/** Resets the count of a name. */
export const succeeded = (streaks: FailureStreaks, name: string): FailureStreaks => {
  if (!streaks.counts.has(name)) return streaks
  const counts = new Map(streaks.counts)
  counts.delete(name)
  return { ...streaks, counts }
}
