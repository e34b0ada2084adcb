/**
 * Whether the numbers of a result go somewhere: 3 of 12, 5 of 12; 14 errors, 13 errors.
 *
 * A number that always moves the same way is progress; one that moves to and fro, however often, is none, and neither is
 * one that counts the calls. How long the result is counts as one of its numbers, and so does where it points to. Pure.
 *
 * **What it does not do.** A clock moves one way, too: what `Volatile` knows for one is not a number here.
 */
import type { Numeral } from "./Scan.ts"

export interface Numbers {
  readonly lines: number
  readonly place: number
  readonly places: number
  readonly numbers: ReadonlyArray<Numeral>
  readonly numbersInAll: number
}

export interface Progress extends Numbers {
  /** Which way each has moved: 1, -1, 0 not yet, `NaN` to and fro. None: they were seen once. */
  readonly ways: ReadonlyArray<number>
}

export const begin = ({ lines, place, places, numbers, numbersInAll }: Numbers): Progress => ({
  lines,
  place,
  places,
  numbers,
  numbersInAll,
  ways: noWays
})

const noWays: ReadonlyArray<number> = []

/** How long it is, where it points to, how many numbers it has. */
const facts = ({ lines, place, numbersInAll }: Numbers): ReadonlyArray<number> => [lines, place, numbersInAll]

export interface Step {
  readonly progress: Progress
  /** A number has gone on the way that it went. */
  readonly goesOn: boolean
  /** A number has moved. */
  readonly moved: boolean
}

export interface Since {
  /** How many calls were made since. */
  readonly calls: number
  /** It says the same, but for the numbers. */
  readonly same: boolean
  /** Both tell of errors. */
  readonly troubled: boolean
}

/** Lines that a place may move by what is edited above it; further away is another one. */
const near = 3

export const step = (before: Progress, now: Numbers, since: Since): Step => {
  const { calls, same, troubled } = since
  const was = facts(before)
  const own = was.length
  let goesOn = false
  let moved = false
  const wayOf = (i: number, by: number, goes: (way: number) => boolean): number => {
    const way = before.ways[i] ?? 0
    if (by === 0) return way
    const direction = Math.sign(by)
    if (way !== 0 && way !== direction) return Number.NaN
    if (goes(way)) goesOn = true
    return direction
  }
  const ofFacts = facts(now).map((value, i) => {
    const by = value - (was[i] ?? 0)
    if (i === 1 && Math.abs(by) <= near * now.places) return before.ways[i] ?? 0
    // There is less of it: errors, jobs that are left. Or errors are elsewhere.
    return wayOf(i, by, () => (i === 0 ? by < 0 : i === 1 && same && troubled))
  })
  const bound = boundOf(before, now)
  const ofNumbers = now.numbers.map(({ value, counted }, n) => {
    const i = own + n
    const earlier = before.numbers[n]
    if (earlier === undefined) return Number.NaN
    const by = value - earlier.value
    const isCounted = counted || value <= bound
    const way = before.ways[i] ?? 0
    // What counts the calls moves with them.
    if (by === 0 || (by === calls && !isCounted)) return way
    moved = true
    // The numbers of something else are others. And once is no direction yet, but for what is counted.
    return same ? wayOf(i, by, (way) => way !== 0 || isCounted) : way
  })
  return { progress: { ...begin(now), ways: [...ofFacts, ...ofNumbers] }, goesOn, moved }
}

/** The largest number that has stayed: what another may count up to. */
const boundOf = (before: Numbers, now: Numbers): number =>
  now.numbers.reduce(
    (most, { value }, n) => (value === before.numbers[n]?.value && value > most ? value : most),
    -Infinity
  )
