/**
 * Detects a text that ends in endless repetition.
 *
 * The end of the text is examined twice: unchanged, and with all digits treated as equal, so that a counter does not
 * hide a repetition. Long parts count by their repetitions. Parts shorter than a minimum length count by the
 * characters that they fill. Normal lists therefore do not count, and an endless text always does. Pure.
 *
 * **What it does not do.** It does not find a repetition in the middle of a text: call it while the text grows. It
 * does not find parts that are too long to repeat within the {@link window}.
 */

export interface Repetition {
  /** The repeated part. */
  readonly unit: string
  /** Number of repetitions; a short part counts in proportion. A whole number. */
  readonly times: number
}

/** Number of characters at the end that are examined. */
const window = 16_000

/** Minimum length of a part that repeats exactly and contains a word. */
const ofWords = 24

/**
 * Minimum length of parts as in lists, tables and rulers: parts that differ in numbers or contain no word. With the
 * default counts (nudge 4, block 6), 100 rows of SQL and 300 lines of test output are not reported; with 1,000 they
 * were stopped. A model that counts is stopped after 12,000 characters, which fit into the window.
 */
const ofRows = 2_000

/** The last part may lack the separator between two parts. */
const separator = 2

/** The repetition of at least `times` times at the end of the text, or `undefined`. */
export const at = (text: string, times: number): Repetition | undefined => {
  const tail = text.slice(-window).trimEnd()
  if (tail.length + separator < ofWords * times) return undefined
  const exact = ending(tail, times, lastWord(tail))
  const folded = tail.replace(/[0-9]/g, "0")
  const counted = folded === tail ? undefined : ending(folded, times, Infinity)
  const found =
    counted === undefined || (exact !== undefined && exact.times >= counted.times) ? exact : counted
  return found && { unit: tail.slice(-found.period), times: found.times }
}

interface Ending {
  /** Length of the repeated part in characters. */
  readonly period: number
  readonly times: number
}

/** Finds the repetition at the end of a text. Parts of at least `worded` characters contain a word. */
const ending = (text: string, times: number, worded: number): Ending | undefined => {
  const { length } = text
  // Prefix function of the reversed text: the shortest period of each suffix.
  const fails = new Int32Array(length)
  let found: Ending | undefined
  let k = 0
  for (let i = 1; i < length; i++) {
    const c = text.charCodeAt(length - 1 - i)
    while (k > 0 && text.charCodeAt(length - 1 - k) !== c) k = fails[k - 1] ?? 0
    if (text.charCodeAt(length - 1 - k) === c) k++
    fails[i] = k
    const covered = i + 1
    const period = covered - k
    const measure = Math.max(period, period < worded ? ofRows : ofWords)
    const count = Math.floor((covered + separator) / measure)
    if (count >= times && (found === undefined || count > found.times)) found = { period, times: count }
  }
  return found
}

/** Characters from the last word to the end. Two letters are a word. */
const lastWord = (text: string): number => {
  const isLetter = (index: number) => /\p{L}/u.test(text.charAt(index))
  for (let i = text.length - 2; i >= 0; i--) if (isLetter(i) && isLetter(i + 1)) return text.length - i
  return Infinity
}
