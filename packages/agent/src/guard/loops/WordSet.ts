/**
 * Words that were met, by their hashes: a set that forgets the oldest, as a value.
 *
 * It is a table that is only ever added to, and how much of it counts. So a set that came from another shares the table
 * with it, and adding costs by what is added; two that come from the same one part, and the second gets a table of its
 * own. Never more than {@link capacity} words count. As a value it is pure.
 *
 * **What it does not do.** It does not say what it forgot. One that is kept while another made from it goes on for
 * {@link capacity} words has forgotten with it.
 */

export interface WordSet {
  readonly table: Table
  /** Words added so far. */
  readonly count: number
}

/** Open addressing: words, and the number of each. */
interface Table {
  readonly words: Int32Array
  /** The first has number 1. */
  readonly numbers: Int32Array
  /** Of the last word. */
  last: number
}

/** Words that are held, at most. */
export const capacity = 8_192

const smallest = 256
/** Places that are looked at for a word. */
const steps = 8

const tableOf = (places: number): Table => ({
  words: new Int32Array(places),
  numbers: new Int32Array(places),
  last: 0
})

export const none = (): WordSet => ({ table: tableOf(smallest), count: 0 })

export const has = ({ table: { words, numbers }, count }: WordSet, word: number): boolean => {
  const mask = words.length - 1
  for (let i = placeOf(word) & mask, n = 0; n < steps; i = (i + 1) & mask, n++) {
    const number = numbers[i] ?? 0
    if (number === 0) return false
    if (words[i] === word && number <= count && number > count - capacity) return true
  }
  return false
}

/** With these words; those that it has stay as old as they are. */
export const add = (set: WordSet, words: ReadonlyArray<number>): WordSet => {
  if (words.length === 0) return set
  const room = Math.min(2 * capacity, powerAbove(2 * (set.count + words.length)))
  const table =
    set.table.last === set.count && set.table.words.length >= room ? set.table : copied(set, room)
  for (const word of words) put(table, word, table.last + 1)
  return table === set.table && table.last === set.count ? set : { table, count: table.last }
}

/** The table of a set without what others have added to it. */
const copied = (set: WordSet, places: number): Table => {
  const { words, numbers } = set.table
  const table = tableOf(Math.max(places, smallest))
  for (let i = 0; i < words.length; i++) {
    const number = numbers[i] ?? 0
    if (number > Math.max(0, set.count - capacity) && number <= set.count) put(table, words[i] ?? 0, number)
  }
  table.last = set.count
  return table
}

/** In the place that is free, or has been forgotten; else in that of the oldest near it. */
const put = (table: Table, word: number, number: number): void => {
  const { words, numbers } = table
  const mask = words.length - 1
  let oldest = placeOf(word) & mask
  let least = numbers[oldest] ?? 0
  for (let i = oldest, n = 0; n < steps; i = (i + 1) & mask, n++) {
    const there = numbers[i] ?? 0
    if (there < least) {
      oldest = i
      least = there
    }
    if (there === 0) break
    if (words[i] === word) {
      if (there > number - capacity) return
      oldest = i
      break
    }
  }
  words[oldest] = word
  numbers[oldest] = number
  table.last = number
}

const powerAbove = (n: number): number => 1 << (32 - Math.clz32(n - 1))

const placeOf = (word: number): number => {
  const x = Math.imul(word ^ (word >>> 16), 0x45d9f3b)
  return x ^ (x >>> 15)
}
