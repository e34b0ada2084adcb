/**
 * What a guard remembers of the past: a map of numbers that forgets, as a value.
 *
 * An entry is forgotten when so many others were written after it. As a `WordSet` it is a table that is only ever added
 * to, and how much of it counts: a key leads to what was written for it last, and that to what was written before, for
 * those who hold an older value. So writing costs the same however much is held; a table that is full is left for
 * one with what still counts. As a value it is pure.
 *
 * **What it does not do.** It does not say what it forgot.
 */

export interface Memory<A> {
  readonly table: Table<A>
  /** What was written so far. */
  readonly count: number
}

interface Entry<A> {
  readonly key: number
  readonly value: A
  /** How many were written until then. */
  readonly number: number
  readonly older: Entry<A> | undefined
}

/** Open addressing. */
interface Table<A> {
  readonly heads: Array<Entry<A> | undefined>
  /** Entries that are remembered. */
  readonly most: number
  /** What was written to it in all, and what it may be before it is left. */
  last: number
  end: number
}

/** Entries that one row holds. */
export const places = 8

/** A memory of the last `rows` times {@link places} entries that were written. `rows` is a power of two. */
export const make = <A>(rows: number): Memory<A> => ({ table: tableOf(rows * places, 0), count: 0 })

const tableOf = <A>(most: number, count: number): Table<A> => ({
  // At most three quarters full: `most` entries come over, twice as many are written.
  heads: new Array<Entry<A> | undefined>(4 * most).fill(undefined),
  most,
  last: count,
  end: count + 2 * most
})

export const get = <A>({ table, count }: Memory<A>, key: number): A | undefined => {
  return entryOf(table, table.heads[placeOf(table, key)], count)?.value
}

/** With this value. */
export const set = <A>(memory: Memory<A>, key: number, value: A): Memory<A> => {
  const { count } = memory
  // Another one has gone on with it, or it is full.
  const isLeft = memory.table.last !== count || count >= memory.table.end
  const table = isLeft ? copied(memory) : memory.table
  put(table, key, value, count + 1)
  return { table, count: count + 1 }
}

/** What counted when so many were written, if it was not forgotten then. */
const entryOf = <A>({ most }: Table<A>, head: Entry<A> | undefined, count: number): Entry<A> | undefined => {
  let entry = head
  while (entry !== undefined && entry.number > count) entry = entry.older
  return entry !== undefined && entry.number > count - most ? entry : undefined
}

const copied = <A>({ table, count }: Memory<A>): Table<A> => {
  const other = tableOf<A>(table.most, count)
  for (const head of table.heads) {
    const entry = entryOf(table, head, count)
    if (entry !== undefined) put(other, entry.key, entry.value, entry.number)
  }
  other.last = count
  return other
}

const put = <A>(table: Table<A>, key: number, value: A, number: number): void => {
  const place = placeOf(table, key)
  table.heads[place] = { key, value, number, older: table.heads[place] }
  table.last = number
}

/** Where a key is, or may be put: there always is room. */
const placeOf = ({ heads }: Table<unknown>, key: number): number => {
  const mask = heads.length - 1
  const x = Math.imul(key ^ (key >>> 16), 0x45d9f3b)
  let i = (x ^ (x >>> 15)) & mask
  for (let head = heads[i]; head !== undefined && head.key !== key; head = heads[i]) i = (i + 1) & mask
  return i
}

/** What is held, by its keys. */
export const entries = <A>({ table, count }: Memory<A>): ReadonlyMap<number, A> =>
  new Map(
    table.heads.flatMap((head) => {
      const entry = entryOf(table, head, count)
      return entry === undefined ? [] : [[entry.key, entry.value] as const]
    })
  )
