/**
 * Counts the outcomes of a closed circuit's calls, and decides when to open the circuit. Pure.
 *
 * Two bounded memories: the consecutive failures (at most as many as trip), and ten time slices of the rate's window,
 * by the end time of the calls. A policy that is off keeps nothing. Times are monotonic milliseconds.
 */
import type { CircuitPolicy, RatePolicy } from "./CircuitPolicy.ts"

/** A call that ended. */
export interface Sample {
  readonly failed: boolean
  /** Duration in milliseconds. Read only when the policy has a threshold for slow calls. */
  readonly took?: number | undefined
  /** Identifies the call that an attempt belongs to. Undefined: the attempt is a separate call. */
  readonly call?: unknown
  /** Number of other calls in flight when this one ends. Default: 0. */
  readonly inFlight?: number | undefined
}

interface Failure {
  readonly at: number
  readonly call: unknown
  readonly concurrent: boolean
}

interface Slice {
  /** Index of the slice, counted from time zero. */
  readonly index: number
  /** Time of the last call in the slice. */
  readonly at: number
  readonly calls: number
  readonly failures: number
  readonly slow: number
}

export interface CircuitCounts {
  /** The failures since the last success, oldest first. */
  readonly streak: ReadonlyArray<Failure>
  readonly slices: ReadonlyArray<Slice>
}

/** Why a circuit opened. */
export type Trip = "consecutive" | "failure-rate" | "slow-rate"

export const empty: CircuitCounts = { streak: [], slices: [] }

/** Number of slices in a rate's window. More slices would expire more evenly and cost more. */
export const slices = 10

/** True when a success would change nothing. This is the usual case, decided without reading the clock. */
export const unmoved = (policy: CircuitPolicy, counts: CircuitCounts): boolean =>
  policy.rate === undefined && counts.streak.length === 0

/** Time of the latest call that is remembered. */
export const lastAt = ({ streak, slices }: CircuitCounts): number | undefined =>
  streak.at(-1)?.at ?? slices.at(-1)?.at

/** Adds a call. */
export const add = (
  { consecutive, rate }: CircuitPolicy,
  counts: CircuitCounts,
  sample: Sample,
  now: number
): CircuitCounts => ({
  streak: consecutive === undefined ? empty.streak : nextStreak(counts.streak, sample, consecutive, now),
  slices: rate === undefined ? empty.slices : nextSlices(counts.slices, sample, rate, now)
})

/** Returns the reason to open the circuit now, if there is one. Calls in flight (`inFlight`) count as not failed. */
export const trip = (
  { consecutive, rate }: CircuitPolicy,
  { streak, slices }: CircuitCounts,
  now: number,
  inFlight: number = 0
): Trip | undefined => {
  if (consecutive !== undefined && isStreak(streak, consecutive, now)) return "consecutive"
  if (rate === undefined) return undefined
  let calls = inFlight
  let failures = 0
  let slow = 0
  const oldest = now - rate.window
  // A plain loop, because it runs for each outcome of a call.
  for (const slice of slices) {
    if (!isWithin(slice, rate, oldest)) continue
    calls += slice.calls
    failures += slice.failures
    slow += slice.slow
  }
  if (calls < rate.minimumCalls) return undefined
  if (failures / calls >= rate.failures) return "failure-rate"
  return slow / calls >= rate.slow ? "slow-rate" : undefined
}

type Consecutive = NonNullable<CircuitPolicy["consecutive"]>

/** The newest failures, as many as trip, plus older ones that prove that further calls failed. */
const nextStreak = (
  streak: ReadonlyArray<Failure>,
  { failed, call, inFlight = 0 }: Sample,
  { failures, distinctCalls }: Consecutive,
  now: number
): ReadonlyArray<Failure> => {
  if (!failed) return empty.streak
  const all = [...streak, { at: now, call, concurrent: inFlight > 0 }]
  const newestOfCall = ({ call }: Failure, index: number) =>
    call === undefined || !all.slice(index + 1).some((later) => later.call === call)
  const older = all.slice(0, -failures).filter(newestOfCall)
  return [...older.slice(Math.max(0, older.length + 1 - distinctCalls)), ...all.slice(-failures)]
}

const isStreak = (
  known: ReadonlyArray<Failure>,
  { failures, within, distinctCalls }: Consecutive,
  now: number
): boolean => {
  const recent = known.filter(({ at }) => now - at < within)
  if (recent.length < failures) return false
  return !isTogether(recent.slice(-failures)) || callsOf(recent) >= Math.min(distinctCalls, failures)
}

/** Number of calls that failed. An attempt without a call counts as a separate call. */
const callsOf = (streak: ReadonlyArray<Failure>): number => {
  const named = new Set(streak.flatMap(({ call }) => (call === undefined ? [] : [call])))
  return named.size + streak.filter(({ call }) => call === undefined).length
}

/**
 * True when calls used the circuit concurrently: attempts overlapped, or attempts of two calls alternated. Strictly
 * sequential calls are as conclusive as one call, because each had the circuit to itself.
 */
const isTogether = (streak: ReadonlyArray<Failure>): boolean =>
  streak.some(
    ({ call, concurrent }, index) =>
      concurrent ||
      (call !== streak[index - 1]?.call && streak.slice(0, index).some((earlier) => earlier.call === call))
  )

const width = ({ window }: RatePolicy): number => window / slices

/** True while the whole slice lies within the window, so that no older call ever counts. */
const isWithin = ({ index }: Slice, rate: RatePolicy, oldest: number): boolean => index * width(rate) > oldest

const nextSlices = (
  known: ReadonlyArray<Slice>,
  { failed, took = 0 }: Sample,
  rate: RatePolicy,
  now: number
): ReadonlyArray<Slice> => {
  const index = Math.floor(now / width(rate))
  const last = known.at(-1)
  const isLast = last?.index === index
  const next: Slice = {
    index,
    at: now,
    calls: (isLast ? last.calls : 0) + 1,
    failures: (isLast ? last.failures : 0) + (failed ? 1 : 0),
    slow: (isLast ? last.slow : 0) + (took > rate.slowerThan ? 1 : 0)
  }
  // Old slices are removed only when a new slice begins. Most calls replace just the last one.
  return isLast
    ? known.with(known.length - 1, next)
    : [...known.filter((slice) => isWithin(slice, rate, now - rate.window)), next]
}
