/**
 * How often each file was edited: a map of bounded size, as a value.
 *
 * It has two halves. When the newer one is full it becomes the older one, and what was there before is forgotten: a
 * count is lost only after {@link half} other files have been edited since. Pure.
 */
import { HashMap, Option } from "effect"

export interface FileCounts {
  readonly newer: HashMap.HashMap<string, number>
  readonly older: HashMap.HashMap<string, number>
  /** Files edited; one that was forgotten counts again. */
  readonly total: number
  /** The last files that were edited for the first time, at most {@link maxNames}, oldest first. */
  readonly last: ReadonlyArray<string>
}

/** Files that one half holds. */
const half = 4_096
/** Names that are kept for a message. */
const maxNames = 10
/** Characters of a name in a message. */
const maxName = 200

/** A name as it stands in a message. */
export const named = (file: string): string => file.slice(0, maxName)

export const none: FileCounts = { newer: HashMap.empty(), older: HashMap.empty(), total: 0, last: [] }

export const get = ({ newer, older }: FileCounts, file: string): number =>
  in_(newer, file) ?? in_(older, file) ?? 0

/** With one more edit of a file. */
export const add = (counts: FileCounts, file: string): FileCounts => {
  const before = get(counts, file)
  const isFull = HashMap.size(counts.newer) >= half
  const known = before > 0
  return {
    newer: HashMap.set(isFull ? HashMap.empty<string, number>() : counts.newer, file, before + 1),
    older: isFull ? counts.newer : counts.older,
    total: known ? counts.total : counts.total + 1,
    last: known ? counts.last : [...counts.last, named(file)].slice(-maxNames)
  }
}

const in_ = (half: HashMap.HashMap<string, number>, file: string): number | undefined =>
  Option.getOrUndefined(HashMap.get(half, file))
