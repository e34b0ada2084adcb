/**
 * Whether a text ends in the same words again and again: a model that cannot stop.
 *
 * The end of the text is looked at as it is, and with digits taken for one another, so that a counter hides nothing.
 * What repeats has a measure: a part that is as long counts by its times, a shorter one by the characters that it fills.
 * So a list is none, and a model that never ends is one, whatever it says. Pure.
 *
 * **What it does not do.** It finds no repetition that is over: ask while the text grows. Nor one of a part so long that
 * its times do not fit into the {@link window}.
 */

export interface Repetition {
  /** The part that repeats, in characters. */
  readonly unit: string
  /** How often, a short part in proportion. A whole number. */
  readonly times: number
}

/** Characters at the end that are looked at. */
const window = 16_000

/** The measure of words that repeat exactly. */
const ofWords = 24

/**
 * The measure of what lists, tables and rulers are made of, too: parts that differ in their numbers, and what has no
 * word. Told at four times as much, 100 rows of SQL and 300 lines of test output are still nothing; with 1,000 they
 * were stopped. Stopped at six times as much, a model that counts has written 12,000 characters, which fit the window.
 */
const ofRows = 2_000

/** The last unit may lack what stands between two. */
const separator = 2

/** What the text ends with at least `times` times in a row, or `undefined`. */
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
  /** Characters of the part that repeats. */
  readonly period: number
  readonly times: number
}

/** What the text ends with. A part of `worded` characters or more has a word. */
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

/** Characters from the last word to the end: a word is two letters. */
const lastWord = (text: string): number => {
  const isLetter = (index: number) => /\p{L}/u.test(text.charAt(index))
  for (let i = text.length - 2; i >= 0; i--) if (isLetter(i) && isLetter(i + 1)) return text.length - i
  return Infinity
}
