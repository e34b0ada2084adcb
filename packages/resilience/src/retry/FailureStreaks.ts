/**
 * Failures in a row by name, across calls: what `n` of a `Backoff` is where a failure of an earlier call counts too.
 *
 * A name is any string, such as a target or a task with its model. A success forgets it. At most `capacity` names are
 * kept: of more, the one that failed longest ago is forgotten, and begins again at 1.
 *
 * Pure and without time: a streak does not wear off by itself. It does not say whether to go on (`AttemptLimits`).
 * `Retry` counts within one call and has no use for it; it is for what lasts longer than a call, such as the cooldown
 * of a key: `succeeded` where the key has worked again.
 *
 * **Example** (The third failure in a row)
 *
 * ```ts
 * const [n, after] = FailureStreaks.failed(streaks, "openai/gpt-4.1")
 * const wait = Backoff.delay(spec, n, undefined, draw)
 * ```
 */
import * as Options from "../Options.ts"

export interface FailureStreaks {
  readonly capacity: number
  /** The name that failed longest ago stands first. */
  readonly counts: ReadonlyMap<string, number>
}

/** Names that are kept where nothing is said: enough for every target of a program, a few hundred KB at worst. */
export const defaultCapacity = 1_000

/** No failures. Throws an `InvalidOption` (a `RangeError`) for a capacity that is not an integer of at least 1. */
export const make = (options: { readonly capacity?: number | undefined } = {}): FailureStreaks => {
  Options.fields("FailureStreaks", options, { capacity: Options.is.integer({ min: 1 }) })
  return { capacity: options.capacity ?? defaultCapacity, counts: new Map() }
}

/** Failures of a name since its last success. */
export const of = ({ counts }: FailureStreaks, name: string): number => counts.get(name) ?? 0

/** Counts a failure: how many it makes in a row, and the streaks after it. */
export const failed = (streaks: FailureStreaks, name: string): readonly [number, FailureStreaks] => {
  const count = of(streaks, name) + 1
  const counts = new Map(streaks.counts)
  // A Map keeps the order of insertion: taken out and put back, the name stands last.
  counts.delete(name)
  counts.set(name, count)
  const [oldest] = counts.keys()
  if (counts.size > streaks.capacity && oldest !== undefined) counts.delete(oldest)
  return [count, { ...streaks, counts }]
}

/** Forgets a name. */
export const succeeded = (streaks: FailureStreaks, name: string): FailureStreaks => {
  if (!streaks.counts.has(name)) return streaks
  const counts = new Map(streaks.counts)
  counts.delete(name)
  return { ...streaks, counts }
}
