/**
 * A value of JSON as a few numbers and facts, without what says nothing: equal numbers, equal meaning.
 *
 * A result is read against what the run has met so far, and against the arguments that were read before it: what counts
 * is how much of it is new. The last arguments are kept until their result is read; otherwise pure.
 *
 * **What it does not do.** It is no cryptographic hash: who wants to deceive it can.
 *
 * **Example**
 *
 * ```ts
 * const { hash } = Fingerprint.ofArguments({ a: 1, request_id: "x1" })
 * hash === Fingerprint.ofArguments({ request_id: "y2", a: 1 }).hash // true
 * ```
 */
import { none } from "./Field.ts"
import { joined } from "./Hash.ts"
import { Scan } from "./Scan.ts"
import type { Against, Numeral } from "./Scan.ts"

export { argument, ofText, pair } from "./Hash.ts"

export interface OfArguments {
  /** Of all that is not volatile. */
  readonly hash: number
  /** What stands between blanks and brackets in their texts, text by text. At most 512 in all. */
  readonly leaves: ReadonlyArray<ReadonlyArray<number>>
  /** Their different words, and those of them that are no prose. At most 512. */
  readonly words: ReadonlyArray<number>
  readonly subjects: ReadonlyArray<number>
  /** Those of them that ask in words of one's own: the same can be asked in others. None: it asks in no such words. */
  readonly question: ReadonlyArray<number>
  readonly questionHash: number
}

export interface OfResult {
  /** Of all that is not volatile. */
  readonly hash: number
  /** Of its different words that the arguments do not have, whatever their order and their numbers. */
  readonly letters: number
  /** Words; those that the arguments do not have. */
  readonly all: number
  readonly words: number
  /** Of these: what the run has not met before. */
  readonly freshWords: ReadonlyArray<number>
  readonly freshNumbers: number
  /** Names of things that the run has not met before; and all that is volatile and new. */
  readonly freshIds: number
  readonly freshVolatile: number
  readonly freshLines: number
  /** Lines, or texts of fields. */
  readonly lines: number
  /** What is to be remembered of its lines and numbers. */
  readonly fresh: ReadonlyArray<number>
  /** Its first and its last numbers, and how many there are. */
  readonly numbers: ReadonlyArray<Numeral>
  readonly numbersInAll: number
  /** The sum of the numbers of lines that it names, and how many they are. */
  readonly place: number
  readonly places: number
  /** It tells of an error, and of which: the lines that do, without what was ever asked of the tool. */
  readonly troubled: boolean
  readonly trouble: number
  /** A field of it says that it was not done: `"success": false`. */
  readonly undone: boolean
  /** It tells that something else has yet to happen: pending, queued, refused for now. */
  readonly waiting: boolean
  /** It tells that there is nothing: no matches, an empty list. */
  readonly negative: boolean
  /** It is a list of nothing, or has one and nothing else: a tool that looked for something, in any language. */
  readonly emptyList: boolean
}

/** Of a call's arguments. */
export const ofArguments = (value: unknown): OfArguments => {
  // Reading may throw: a getter, a proxy.
  last = undefined
  const { a, b, leaves, words, subjects, question, questionHash } = scanned(value, undefined)
  const asked = { hash: joined(a, b), leaves, words, subjects, question, questionHash }
  last = { value, asked }
  return asked
}

/** The same of a call that has ended: mostly they were the last that were read. They are not to change meanwhile. */
export const ofArgumentsAgain = (value: unknown): OfArguments => {
  const again = last?.value === value ? last?.asked : undefined
  last = undefined
  return again ?? ofArguments(value)
}

let last: { readonly value: unknown; readonly asked: OfArguments } | undefined

const scanned = (value: unknown, against: Against | undefined): Scan => {
  const scan = new Scan(against)
  scan.value(value, none, 0)
  return scan
}

/** What a result brings, read against what the arguments were that {@link ofArguments} has read last. */
export const ofResult = (value: unknown, against: Against): OfResult => {
  const scan = scanned(value, against)
  const emptyList = scan.emptyList && scan.substance === 0
  return {
    hash: joined(scan.a, scan.b),
    letters: scan.letters,
    all: scan.all,
    words: scan.own,
    freshWords: scan.words,
    freshNumbers: scan.freshNumbers,
    freshIds: scan.freshIds,
    freshVolatile: scan.freshVolatile,
    freshLines: scan.freshLines,
    lines: scan.linesInAll,
    fresh: scan.lines,
    numbers: [...scan.firstNumbers, ...scan.lastNumbers],
    numbersInAll: scan.numbersInAll,
    place: scan.place,
    places: scan.places,
    troubled: scan.troubled,
    trouble: scan.trouble,
    undone: scan.undone,
    waiting: scan.waiting || (scan.waitingIfShort && scan.all <= shortResult),
    negative:
      (scan.all === 0 && scan.substance === 0) || emptyList || (scan.negative && scan.all <= maxNegative),
    emptyList
  }
}

/** A result of more words has something to tell. */
const maxNegative = 40
/** A result of so few words may be all about its state. */
const shortResult = 12
