/**
 * Words that were met, by their hashes: a set that forgets, as a value.
 *
 * Four places a word, in pages; the newer word takes the place of the oldest. So it never holds more than
 * {@link capacity} words, and to add some copies the pages that they are on. Pure.
 *
 * **What it does not do.** It does not say what it forgot.
 */

export interface WordSet {
  readonly pages: ReadonlyArray<Int32Array>
}

/** Places of a page, and pages: powers of two. */
const pageBits = 7
const pages = 128
/** Words that are held, at most. */
export const capacity = pages << pageBits

const blank = new Int32Array(1 << pageBits)

export const none: WordSet = { pages: Array.from({ length: pages }, () => blank) }

export const has = (set: WordSet, word: number): boolean => {
  const spread = spreadOf(word)
  const page = set.pages[spread >>> pageShift] ?? blank
  const group = groupOf(spread)
  for (let i = group; i < group + ways; i++) if (page[i] === word) return true
  return false
}

/** With these words. */
export const add = (set: WordSet, words: ReadonlyArray<number>): WordSet => {
  if (words.length === 0) return set
  const copied = set.pages.slice()
  for (const word of words) {
    const spread = spreadOf(word)
    const index = spread >>> pageShift
    const before = copied[index] ?? blank
    const group = groupOf(spread)
    if (before.subarray(group, group + ways).includes(word)) continue
    const page = before === set.pages[index] ? before.slice() : before
    copied[index] = page
    page.copyWithin(group + 1, group, group + ways - 1)
    page[group] = word
  }
  return { pages: copied }
}

/** Words that fall on the same places; the oldest of them makes room. */
const ways = 4

const pageShift = 32 - 7

const spreadOf = (word: number): number => {
  const x = Math.imul(word ^ (word >>> 16), 0x45d9f3b)
  return Math.imul(x ^ (x >>> 15), 0x2c1b3c6d)
}

const groupOf = (spread: number): number => (spread >>> 8) & ((1 << pageBits) - 1) & ~(ways - 1)
