/**
 * What a guard remembers of the past: a map of numbers that forgets, as a value.
 *
 * Set-associative, as a processor's cache: a key has one row, a row has a few places, and what came first makes room.
 * So it never holds more than `rows * places` entries, reading and writing cost the same however many there are, and
 * writing copies one row. Pure.
 *
 * **What it does not do.** It does not say what it forgot.
 */

export interface Memory<A> {
  readonly rows: ReadonlyArray<Row<A>>
}

/** Two lists, so that looking for a key reads numbers and no objects. */
interface Row<A> {
  /** `NaN` where there is none: it equals nothing. */
  readonly keys: ReadonlyArray<number>
  readonly values: ReadonlyArray<A | undefined>
  /** The place that is written next. */
  readonly next: number
}

/** Entries that one row holds; a power of two. */
export const places = 8

const empty: Row<never> = {
  keys: new Array<number>(places).fill(Number.NaN),
  values: new Array<undefined>(places).fill(undefined),
  next: 0
}

/** A memory of at most `rows` times {@link places} entries. `rows` is a power of two. */
export const make = <A>(rows: number): Memory<A> => ({ rows: Array.from({ length: rows }, () => empty) })

export const get = <A>(memory: Memory<A>, key: number): A | undefined => {
  const row = memory.rows[rowOf(memory, key)] ?? empty
  const at = placeOf(row.keys, key)
  return at < 0 ? undefined : row.values[at]
}

export const has = (memory: Memory<unknown>, key: number): boolean => get(memory, key) !== undefined

/** With this value. */
export const set = <A>(memory: Memory<A>, key: number, value: A): Memory<A> => {
  const index = rowOf(memory, key)
  const row = memory.rows[index] ?? empty
  const at = placeOf(row.keys, key)
  const rows = memory.rows.slice()
  const values = row.values.slice()
  values[at < 0 ? row.next : at] = value
  if (at < 0) {
    const keys = row.keys.slice()
    keys[row.next] = key
    rows[index] = { keys, values, next: (row.next + 1) & (places - 1) }
  } else rows[index] = { keys: row.keys, values, next: row.next }
  return { rows }
}

/** As `indexOf`, and faster on so few. */
const placeOf = (keys: ReadonlyArray<number>, key: number): number => {
  for (let i = 0; i < keys.length; i++) if (keys[i] === key) return i
  return -1
}

/** Entries held. */
export const size = (memory: Memory<unknown>): number =>
  memory.rows.reduce((sum, { values }) => sum + values.filter((value) => value !== undefined).length, 0)

const rowOf = (memory: Memory<unknown>, key: number): number => key & (memory.rows.length - 1)
