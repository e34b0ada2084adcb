/**
 * What a closed circuit remembers of its calls, and whether that is enough to open it. Pure.
 *
 * Two memories, both bounded: the consecutive failures (at most as many as trip), and ten slices of the rate's
 * window, by the time at which calls ended. Nothing is remembered for a policy that is off. Times are monotonic milliseconds.
 */
import type { CircuitPolicy, RatePolicy } from "./CircuitPolicy.ts"

/** A call that ended. */
export interface Sample {
  readonly failed: boolean
  /** Milliseconds; read only where the policy asks for slow calls. */
  readonly took?: number | undefined
  /** Whose attempt it was. Undefined: a call of its own. */
  readonly call?: unknown
  /** Other calls that are in flight when it ends. Default 0. */
  readonly inFlight?: number | undefined
}

interface Failure {
  readonly at: number
  readonly call: unknown
  readonly concurrent: boolean
}

interface Slice {
  /** Which of the window's slices since time zero. */
  readonly index: number
  /** Its last call. */
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

/** The slices of a rate's window. More would forget more evenly and cost more. */
export const slices = 10

/** A success that changes nothing: the usual case, decided without the time. */
export const unmoved = (policy: CircuitPolicy, counts: CircuitCounts): boolean =>
  policy.rate === undefined && counts.streak.length === 0

/** When the latest call was that is remembered. */
export const lastAt = ({ streak, slices }: CircuitCounts): number | undefined =>
  streak.at(-1)?.at ?? slices.at(-1)?.at

/** Remembers a call. */
export const add = (
  { consecutive, rate }: CircuitPolicy,
  counts: CircuitCounts,
  sample: Sample,
  now: number
): CircuitCounts => ({
  streak: consecutive === undefined ? empty.streak : nextStreak(counts.streak, sample, consecutive, now),
  slices: rate === undefined ? empty.slices : nextSlices(counts.slices, sample, rate, now)
})

/** Why the circuit must open now, if it must. `inFlight` calls have not ended: they count as not failed. */
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
  // A loop, because each outcome of a call counts them.
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

/** The newest failures, as many as trip; of older ones those that show that further calls failed. */
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

/** How many calls failed; an attempt without a call is one of its own. */
const callsOf = (streak: ReadonlyArray<Failure>): number => {
  const named = new Set(streak.flatMap(({ call }) => (call === undefined ? [] : [call])))
  return named.size + streak.filter(({ call }) => call === undefined).length
}

/**
 * Whether calls used the circuit at the same time: attempts overlapped, or a call came back after another's. Calls one
 * after the other are as good as one: each failed when it had the circuit to itself.
 */
const isTogether = (streak: ReadonlyArray<Failure>): boolean =>
  streak.some(
    ({ call, concurrent }, index) =>
      concurrent ||
      (call !== streak[index - 1]?.call && streak.slice(0, index).some((earlier) => earlier.call === call))
  )

const width = ({ window }: RatePolicy): number => window / slices

/** A slice counts while all of it lies within the window, so that nothing older ever does. */
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
  // Old slices go when a new one begins: most calls only replace the last.
  return isLast
    ? known.with(known.length - 1, next)
    : [...known.filter((slice) => isWithin(slice, rate, now - rate.window)), next]
}
