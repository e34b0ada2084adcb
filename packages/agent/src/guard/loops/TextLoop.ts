/**
 * Detects an answer that repeats itself, while it streams: the same sentences or paragraphs again and again.
 *
 * The text is read in parts: sentences and lines of at least 24 and at most 200 characters. A part that was said twice
 * before adds its length to {@link TextLoop.repeated}; a new part takes its length away. An answer that quotes itself
 * now and then stays near zero, and one that only repeats grows for ever. Rows (code, tables, logs, parts that differ
 * in numbers) count a tenth, because honest ones are alike. Pure; the state has at most 256 hashes and one open part.
 *
 * **What it does not do.** It finds no repetition in new words, and none with more than 256 parts. A count without
 * words (`Line 1`, `Line 2`) is not a repetition. Limits end such answers.
 */
import * as Hash from "./Hash.ts"

export interface TextLoop {
  /** The end of the text that is not yet a part. */
  readonly open: string
  /** Hashes of the last parts, oldest first: unchanged, and with all digits treated as equal. */
  readonly exact: ReadonlyArray<number>
  readonly folded: ReadonlyArray<number>
  /** Characters that repeat, as above. */
  readonly repeated: number
}

export const initial: TextLoop = { open: "", exact: [], folded: [], repeated: 0 }

/** A sentence or a line of at least 24 characters, or 200 characters without an end. */
const parts = /[^]{22,198}?(?:[.!?;:]\s|[\n。！？])|[^]{200}/gy
const maxParts = 256

/** Number of times that a part was said before it counts, and the share of a row's characters that count. */
const minTimes = 2
const ofRows = 0.1

/** Reads the next characters of an answer. */
export const read = (before: TextLoop, delta: string): TextLoop => {
  const text = before.open + delta
  let state = before
  let start = 0
  for (const [part] of text.matchAll(parts)) {
    state = counted(state, part.trim())
    start += part.length
  }
  return { ...state, open: text.slice(start) }
}

const counted = (state: TextLoop, part: string): TextLoop => {
  const exact = Hash.ofText(part)
  const folded = Hash.ofText(part.replace(/\d/g, "0"))
  const saidIn = (parts: ReadonlyArray<number>, hash: number): boolean =>
    parts.reduce((times, one) => times + (one === hash ? 1 : 0), 0) >= minTimes
  const isExact = saidIn(state.exact, exact)
  const isSaid = isExact || (letters(part) >= minLetters && saidIn(state.folded, folded))
  const weight = isSaid ? (isExact && isProse(part) ? 1 : ofRows) : -1
  return {
    ...state,
    exact: [...state.exact.slice(1 - maxParts), exact],
    folded: [...state.folded.slice(1 - maxParts), folded],
    repeated: Math.max(0, state.repeated + weight * part.length)
  }
}

const letters = (part: string): number => part.match(/\p{L}/gu)?.length ?? 0
const minLetters = 16

/** True for words with few characters that are typical of code, tables and logs. */
const isProse = (part: string): boolean =>
  letters(part) >= minLetters &&
  (part.match(/[^\p{L}\p{M}\s.,!?'’"。，！？、-]/gu)?.length ?? 0) <= part.length * maxSigns

const maxSigns = 0.05
