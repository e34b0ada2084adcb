/**
 * Whether a text ends in the same words again and again: a model that cannot stop.
 *
 * The end of the text is looked at, with digits taken for one another, so that a counter hides nothing. Pure.
 *
 * **What it does not do.** It finds no repetition that is over: ask while the text grows. Lines without letters
 * (tables, rulers, rows of numbers) do not count.
 */

export interface Repetition {
  /** The part that repeats, in characters. */
  readonly unit: string
  readonly times: number
}

/** Characters at the end that are looked at. */
export const window = 4_000

/** The shortest unit. A shorter one must fill as many characters as `times` of these do. */
const shortest = 24

/** The last unit may lack what stands between two. */
const separator = 2

/** What the text ends with at least `times` times in a row, or `undefined`. */
export const at = (text: string, times: number): Repetition | undefined => {
  const tail = text.slice(-window).trimEnd()
  const length = tail.length
  if (length + separator < shortest * times) return undefined
  // Prefix function of the reversed text: the shortest period of each suffix.
  const fails = new Int32Array(length)
  let found: Repetition | undefined
  let k = 0
  for (let i = 1; i < length; i++) {
    const c = codeAt(tail, length - 1 - i)
    while (k > 0 && codeAt(tail, length - 1 - k) !== c) k = fails[k - 1] ?? 0
    if (codeAt(tail, length - 1 - k) === c) k++
    fails[i] = k
    const covered = i + 1
    const period = covered - k
    if (covered + separator < Math.max(period, shortest) * times) continue
    const count = Math.floor((covered + separator) / period)
    const unit = tail.slice(length - period)
    if (found === undefined || count > found.times) {
      if (!/\p{L}{2}/u.test(unit)) continue
      found = { unit, times: count }
    }
  }
  return found
}

const codeAt = (text: string, index: number): number => {
  const c = text.charCodeAt(index)
  return c >= 48 && c < 58 ? 48 : c
}
