/**
 * Numbers for hashes of words, without an object for either: a `Map` would make one for each look-up.
 *
 * Open addressing in typed arrays. What does not fit is left out: it is a table for what may be missed. Mutable, and
 * kept inside of `Fingerprint`.
 */

export interface WordTable {
  readonly words: Int32Array
  readonly values: Uint16Array
  readonly mask: number
}

/** `places` is a power of two. */
export const make = (places: number): WordTable => ({
  words: new Int32Array(places),
  values: new Uint16Array(places),
  mask: places - 1
})

/** The value of a word, 0 when it has none. */
export const get = ({ words, values, mask }: WordTable, word: number): number => {
  for (let i = word & mask, steps = 0; steps < maxSteps; i = (i + 1) & mask, steps++) {
    const there = words[i]
    if (there === word) return values[i] ?? 0
    if (there === 0) return 0
  }
  return 0
}

/** Adds the bits of a value to those of the word; `false` when there is no room for it. */
export const add = ({ words, values, mask }: WordTable, word: number, value: number): boolean => {
  for (let i = word & mask, steps = 0; steps < maxSteps; i = (i + 1) & mask, steps++) {
    const there = words[i]
    if (there !== word && there !== 0) continue
    words[i] = word
    values[i] = there === word ? (values[i] ?? 0) | value : value
    return true
  }
  return false
}

/** Places that are looked at for a word. */
const maxSteps = 8

/** A set of words that is emptied at once. */
export interface Scratch {
  /** Place by place a word, and the stamp that it was put with: side by side, as they are looked at. */
  readonly items: Int32Array
  stamp: number
}

/** `places` is a power of two. */
export const scratch = (places: number): Scratch => ({ items: new Int32Array(2 * places), stamp: 1 })

export const empty = (set: Scratch): void => {
  set.stamp = (set.stamp + 1) | 0
}

/** Places that are looked at: so many that each word finds one, while the table is no more than half full. */
const farthest = 32

/** Of two numbers each. The low bits of short words are much alike. */
const placeOf = (word: number): number => (word ^ (word >>> 16)) << 1

export const has = ({ items, stamp }: Scratch, word: number): boolean => {
  const mask = items.length - 1
  for (let i = placeOf(word) & mask, steps = 0; steps < farthest; i = (i + 2) & mask, steps++) {
    if (items[i + 1] !== stamp) return false
    if (items[i] === word) return true
  }
  return false
}

/** `true` if it was not there, and there is room for it. */
export const put = ({ items, stamp }: Scratch, word: number): boolean => {
  const mask = items.length - 1
  for (let i = placeOf(word) & mask, steps = 0; steps < farthest; i = (i + 2) & mask, steps++) {
    if (items[i + 1] !== stamp) {
      items[i] = word
      items[i + 1] = stamp
      return true
    }
    if (items[i] === word) return false
  }
  return false
}
