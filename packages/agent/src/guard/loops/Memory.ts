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
  /** Entries of the table that count. */
  readonly count: number
}

/** What was written, one after the other, and by its key: open addressing. */
interface Table<A> {
  /**
   * In one, as making one costs more than filling it: by place the number of the last entry of the key that is there,
   * from 1, or 0 where there is none; then by entry its key, a whole number of 32 bits, and the number of the entry that
   * its key had before, or 0 if it had none.
   */
  readonly data: Int32Array
  readonly values: Array<A | undefined>
  /** Entries that there is room for. There are twice as many places. */
  readonly room: number
  /** Entries that are remembered. */
  readonly most: number
  /** Of the last entry. */
  last: number
}

/** Entries that one row holds. */
export const places = 8

/** A memory of the last `rows` times {@link places} entries that were written. `rows` is a power of two. */
export const make = <A>(rows: number): Memory<A> => ({ table: tableOf(rows * places, 0), count: 0 })

/** Entries of the smallest table. */
const fewest = 16

/** With what it begins with, and room for as much again. */
const tableOf = <A>(most: number, entries: number): Table<A> => {
  const room = 2 * powerFrom(Math.max(fewest, entries))
  return { data: new Int32Array(4 * room), values: new Array<A | undefined>(room), room, most, last: 0 }
}

const powerFrom = (n: number): number => 1 << (32 - Math.clz32(n - 1))

export const get = <A>({ table, count }: Memory<A>, key: number): A | undefined => {
  const entry = entryAt(table, count, placeOf(table, key))
  return entry < 0 ? undefined : table.values[entry]
}

/** With this value. */
export const set = <A>(memory: Memory<A>, key: number, value: A): Memory<A> => {
  const { table, count } = memory
  // Another one has gone on with it, or it is full.
  const isLeft = table.last !== count || count >= table.room
  const kept = isLeft ? copied(memory) : table
  enter(kept, key, value)
  return { table: kept, count: kept.last }
}

/** What counts of the key that is there, if it is not forgotten; -1 if nothing does. */
const entryAt = ({ data, room, most }: Table<unknown>, count: number, place: number): number => {
  let number = data[place] ?? 0
  while (number > count) number = data[keyOf(room, number) + 1] ?? 0
  return number > count - most ? number - 1 : -1
}

/** Where the key of an entry is, by the number of the entry; behind it is the number of the one before. */
const keyOf = (room: number, number: number): number => 2 * (room + number - 1)

const copied = <A>({ table, count }: Memory<A>): Table<A> => {
  const { data, values, room, most } = table
  const from = Math.max(0, count - most)
  const other = tableOf<A>(most, count - from)
  for (let i = from; i < count; i++) enter(other, data[keyOf(room, i + 1)] ?? 0, values[i])
  return other
}

const enter = <A>(table: Table<A>, key: number, value: A | undefined): void => {
  const { data, values, room } = table
  const place = placeOf(table, key)
  values[table.last] = value
  const at = keyOf(room, ++table.last)
  data[at] = key
  data[at + 1] = data[place] ?? 0
  data[place] = table.last
}

/** Where a key is, or may be put: there always is room. */
const placeOf = ({ data, room }: Table<unknown>, key: number): number => {
  const mask = 2 * room - 1
  const x = Math.imul(key ^ (key >>> 16), 0x45d9f3b)
  let i = (x ^ (x >>> 15)) & mask
  for (let head = data[i] ?? 0; head !== 0 && data[keyOf(room, head)] !== key; head = data[i] ?? 0)
    i = (i + 1) & mask
  return i
}

/** What is held, by its keys. */
export const entries = <A>({ table, count }: Memory<A>): ReadonlyMap<number, A> => {
  const { data, values, room, most } = table
  const held = new Map<number, A>()
  for (let i = Math.max(0, count - most); i < count; i++) {
    const value = values[i]
    if (value !== undefined) held.set(data[keyOf(room, i + 1)] ?? 0, value)
  }
  return held
}
