/**
 * Whether the numbers of a result go somewhere: 3 of 12, 5 of 12; 14 errors, 13 errors.
 *
 * A number that always moves the same way is progress; one that moves to and fro, however often, is none, and neither is
 * one that counts the calls. How long the result is counts as one of its numbers, and so does where it points to. Pure.
 *
 * **What it does not do.** A clock moves one way, too: what `Volatile` knows for one is not a number here.
 */
import type { Numeral } from "./Scan.ts"

export interface Progress {
  readonly values: ReadonlyArray<number>
  /** Which way each has moved: 1, -1, 0 not yet, `NaN` to and fro. */
  readonly ways: ReadonlyArray<number>
}

export interface Numbers {
  readonly lines: number
  readonly place: number
  readonly places: number
  readonly numbers: ReadonlyArray<Numeral>
  readonly numbersInAll: number
}

const valuesOf = ({ lines, place, numbers, numbersInAll }: Numbers): ReadonlyArray<number> => [
  lines,
  place,
  numbersInAll,
  ...numbers.map(({ value }) => value)
]

/** Those that are no numbers of the text itself. */
const own = 3

export const begin = (now: Numbers): Progress => {
  const values = valuesOf(now)
  return { values, ways: values.map(() => 0) }
}

export interface Step {
  readonly progress: Progress
  /** A number has gone on the way that it went. */
  readonly goesOn: boolean
  /** A number has moved. */
  readonly moved: boolean
}

/** Lines that a place may move by what is edited above it; further away is another one. */
const near = 3

export interface Since {
  /** How many calls were made since. */
  readonly calls: number
  /** It says the same, but for the numbers. */
  readonly same: boolean
  /** Both tell of errors. */
  readonly troubled: boolean
}

export const step = (before: Progress, now: Numbers, { calls, same, troubled }: Since): Step => {
  const values = valuesOf(now)
  /** The largest number that has stayed: what another may count up to. */
  const bound = values.reduce(
    (most, value, i) => (i >= own && value === before.values[i] && value > most ? value : most),
    -Infinity
  )
  let goesOn = false
  let moved = false
  const ways = values.map((value, i) => {
    const was = before.values[i]
    const way = before.ways[i]
    if (was === undefined || way === undefined) return Number.NaN
    const by = value - was
    if (by === 0 || (i === 1 && Math.abs(by) <= near * now.places)) return way
    const direction = Math.sign(by)
    const turns = way !== 0 && way !== direction
    if (i < own) {
      // There are fewer errors; or they are elsewhere.
      if (!turns && troubled && (i === 0 ? by < 0 : i === 1 && same)) goesOn = true
      return turns ? Number.NaN : direction
    }
    const counted = now.numbers[i - own]?.counted === true || value <= bound
    // What counts the calls moves with them.
    if (by === calls && !counted) return way
    moved = true
    // The numbers of something else are others.
    if (!same) return way
    if (turns) return Number.NaN
    // Once is no direction yet, but for what is counted.
    if (way !== 0 || counted) goesOn = true
    return direction
  })
  return { progress: { values, ways }, goesOn, moved }
}
