/**
 * Number of edits of each file, as an immutable map of bounded size.
 *
 * The map has two generations. When the newer one is full, it replaces the older one, whose counts are lost. A count
 * is lost only after {@link half} other files were edited since. Pure.
 */
import { HashMap, Option } from "effect"

export interface FileCounts {
  readonly newer: HashMap.HashMap<string, number>
  readonly older: HashMap.HashMap<string, number>
  /** Number of edited files. A file whose count was lost counts again. */
  readonly total: number
  /** Names of the last files that were edited for the first time, at most {@link maxNames}, oldest first. */
  readonly last: ReadonlyArray<string>
}

/** Capacity of one generation. */
const half = 4_096
/** Number of names that are kept for a message. */
const maxNames = 10
/** Maximum characters of a name in a message. */
const maxName = 200

/** Shortens a name for a message. */
export const named = (file: string): string => file.slice(0, maxName)

export const none: FileCounts = { newer: HashMap.empty(), older: HashMap.empty(), total: 0, last: [] }

export const get = ({ newer, older }: FileCounts, file: string): number =>
  in_(newer, file) ?? in_(older, file) ?? 0

/** Adds one edit of a file. */
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
