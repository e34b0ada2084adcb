/**
 * Words that were met, by their hashes: a set that forgets the oldest, as a value.
 *
 * It is a table that is only ever added to, and how much of it counts. So a set that came from another shares the table
 * with it, and adding costs by what is added; two that come from the same one part, and the second gets a table of its
 * own. A table that is five eighths full is left for one with the words that still count. Never more than {@link capacity} do.
 * As a value it is pure.
 *
 * **What it does not do.** It does not say what it forgot.
 */

export interface WordSet {
  readonly table: Table
  /** Words added to the table so far. */
  readonly count: number
}

/** Open addressing: by place the number of a word, by number the word. One that came back has two. */
interface Table {
  /** Numbers from 1; 0 where there is none. */
  readonly places: Uint16Array
  readonly words: Int32Array
  /** Of the last word. */
  last: number
  /** Words that were forgotten before it was begun: what its numbers are behind those of tables before. */
  readonly before: number
}

/** Words that are held, at most. */
const most = 8_192
export const capacity = most

const smallest = 256

/** Fuller tables are slow to look up. */
const tableOf = (places: number, before: number): Table => ({
  places: new Uint16Array(places),
  words: new Int32Array((5 * places) >> 3),
  last: 0,
  before
})

export const none = (): WordSet => ({ table: tableOf(smallest, 0), count: 0 })

export const has = ({ table, count }: WordSet, word: number): boolean => holds(table, count, word)

const holds = (table: Table, count: number, word: number): boolean => numberIn(table, count, word) > 0

/** The how manieth a word was, of all that were ever added; 0 if it is not there. */
export const numberOf = ({ table, count }: WordSet, word: number): number => {
  const number = numberIn(table, count, word)
  return number === 0 ? 0 : number + table.before
}

/** How many were ever added. */
export const countOf = ({ table, count }: WordSet): number => count + table.before

const numberIn = ({ places, words }: Table, count: number, word: number): number => {
  const mask = places.length - 1
  for (let i = placeOf(word) & mask; ; i = (i + 1) & mask) {
    const number = places[i] ?? 0
    if (number === 0) return 0
    if (words[number - 1] === word && isHeld(number, count)) return number
  }
}

/** With these words; those that it has stay as old as they are. */
export const add = (set: WordSet, words: ReadonlyArray<number>): WordSet => {
  const adding = begin(set)
  addAll(adding, words, words.length)
  return end(set, adding)
}

/** A set that words are being added to: to be used by who began it, and not again when it has ended. */
export interface Adding {
  table: Table
  count: number
}

export const begin = ({ table, count }: WordSet): Adding => ({ table, count })

export const addTo = (adding: Adding, word: number): void => {
  const { table, count } = adding
  const place = placeFor(table, count, word)
  if (place < 0) return
  if (table.last === count && count < table.words.length) {
    put(table, place, word)
    adding.count++
    return
  }
  // Another set has gone on with it, or it is full.
  const other = copied(table, count)
  put(other, placeFor(other, other.last, word), word)
  adding.table = other
  adding.count = other.last
}

/** So many of the first words. */
export const addAll = (adding: Adding, words: ArrayLike<number>, count: number): void => {
  for (let i = 0; i < count; i++) addTo(adding, words[i] ?? 0)
}

/** `before`: what it began with, which is the set if nothing was added. */
export const end = (before: WordSet, adding: Adding): WordSet =>
  adding.table === before.table && adding.count === before.count ? before : adding

/** What counts of a table, numbered anew, with room for more. */
const copied = ({ words, before }: Table, count: number): Table => {
  const forgotten = Math.max(0, count - most)
  const table = tableOf(Math.max(smallest, powerFrom(4 * (count - forgotten))), before + forgotten)
  for (let n = forgotten; n < count; n++) {
    const word = words[n] ?? 0
    put(table, placeFor(table, table.last, word), word)
  }
  return table
}

/** The next place that is free, which there always is; -1 if the word is held. */
const placeFor = ({ places, words }: Table, count: number, word: number): number => {
  const mask = places.length - 1
  for (let i = placeOf(word) & mask; ; i = (i + 1) & mask) {
    const number = places[i] ?? 0
    if (number === 0) return i
    if (words[number - 1] === word && isHeld(number, count)) return -1
  }
}

const isHeld = (number: number, count: number): boolean => number <= count && number > count - most

/** With the next number. */
const put = (table: Table, place: number, word: number): void => {
  table.words[table.last] = word
  table.places[place] = ++table.last
}

const powerFrom = (n: number): number => 1 << (32 - Math.clz32(n - 1))

const placeOf = (word: number): number => {
  const x = Math.imul(word ^ (word >>> 16), 0x45d9f3b)
  return x ^ (x >>> 15)
}
