/** Results of a run: pure functions over its log. All times are milliseconds. */

export interface CallLog {
  readonly number: number
  readonly start: number
  /** `undefined`: still in flight when the simulation ended. */
  end: number | undefined
  answered: boolean
  requests: number
  /** Duration of the last attempt, which is the answering one in an answered call. */
  last: number
  /** From the start to the first token that the consumer saw; `undefined` for a whole answer. */
  firstToken: number | undefined
  /** The vendor whose answer came to its end: its place in the chain. */
  vendor: number | undefined
}

export interface Log {
  readonly calls: ReadonlyArray<CallLog>
  /** The time of each request. Sorted. */
  readonly requests: ReadonlyArray<number>
  /** The same by vendor, in the order of the chain. */
  readonly byVendor: ReadonlyArray<ReadonlyArray<number>>
  /** The times at which circuits opened and closed. */
  readonly circuits: ReadonlyArray<{
    readonly at: number
    readonly circuit: string
    readonly to: string
    readonly failures: number
  }>
}

export interface Report {
  readonly calls: number
  readonly answered: number
  /** Calls without an answer or a failure. */
  readonly unfinished: number
  /** Answered calls per call. */
  readonly goodput: number
  readonly requests: number
  readonly requestsPerCall: number
  readonly maxRequestsPerCall: number
  /** Wait of answered calls: from the call to its answer, without the answering attempt. */
  readonly waitP50: number
  readonly waitP99: number
  /** The longest call, answered or failed. */
  readonly longest: number
  /** Most requests within one second. */
  readonly peak: number
  /** Longest time with calls in flight and without an answer. */
  readonly stall: number
  /** From the start to the last end of a call. */
  readonly elapsed: number
  /** Failed calls before the first answered one, in the order in which they began. */
  readonly failedFirst: number
  /** Openings and closings of all circuits. */
  readonly opened: number
  readonly closed: number
  /** Failed requests before a circuit first opened; `undefined` when none did. */
  readonly failuresToOpen: number | undefined
  /**
   * From the end of the outage or surge until 95 % of new calls succeed, Infinity for never; `undefined` without one,
   * or when no call began after it.
   */
  readonly recovery: number | undefined
}

/** `outageEnd`: when the last outage or surge ends, if one does. */
export const report = ({ calls, circuits, requests }: Log, outageEnd?: number): Report => {
  const answered = calls.filter((call) => call.answered)
  const waits = answered.map(({ end = 0, start, last }) => end - start - last).sort((a, b) => a - b)
  const firstAnswered = calls.findIndex((call) => call.answered)
  const ends = calls.map(({ end = 0 }) => end)
  return {
    calls: calls.length,
    answered: answered.length,
    unfinished: calls.filter(({ end }) => end === undefined).length,
    goodput: answered.length / calls.length,
    requests: requests.length,
    requestsPerCall: requests.length / calls.length,
    maxRequestsPerCall: largest(calls.map((call) => call.requests)),
    waitP50: quantile(waits, 0.5),
    waitP99: quantile(waits, 0.99),
    longest: largest(calls.map(({ start, end = Infinity }) => end - start)),
    peak: peakOf(requests),
    stall: stallOf(calls),
    elapsed: largest(ends),
    failedFirst: firstAnswered === -1 ? calls.length : firstAnswered,
    opened: circuits.filter(({ to }) => to === "open").length,
    closed: circuits.filter(({ to }) => to === "closed").length,
    failuresToOpen: circuits.find(({ to }) => to === "open")?.failures,
    recovery: outageEnd === undefined ? undefined : recoveryOf(calls, outageEnd)
  }
}

/** The largest number. `Math.max(...)` would overflow the stack with many arguments. */
const largest = (numbers: ReadonlyArray<number>): number => numbers.reduce((a, b) => Math.max(a, b), 0)

/** A quantile of sorted numbers. 0 for an empty list. */
export const quantile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0

/** The most of these times within one second. */
export const peakOf = (times: ReadonlyArray<number>): number => {
  let from = 0
  return times.reduce((most, at, to) => {
    while ((times[from] ?? at) <= at - 1_000) from++
    return Math.max(most, to - from + 1)
  }, 0)
}

const stallOf = (calls: ReadonlyArray<CallLog>): number => {
  type Change = { readonly at: number; readonly underWay: -1 | 1; readonly isAnswer: boolean }
  const changes = calls.flatMap(({ start, end, answered }): ReadonlyArray<Change> => [
    { at: start, underWay: 1, isAnswer: false },
    ...(end === undefined ? [] : [{ at: end, underWay: -1, isAnswer: answered } as const])
  ])
  let [longest, since, underWay] = [0, 0, 0]
  for (const { at, underWay: change, isAnswer } of changes.sort((a, b) => a.at - b.at)) {
    if (underWay === 0) since = at
    else longest = Math.max(longest, at - since)
    if (isAnswer) since = at
    underWay += change
  }
  return longest
}

const window = 10_000
const enough = 0.95

/** The first second after the outage from which on each window of ten seconds has enough answered calls. */
const recoveryOf = (calls: ReadonlyArray<CallLog>, outageEnd: number): number | undefined => {
  const last = largest(calls.map(({ start }) => start))
  if (last < outageEnd) return undefined
  // Only full windows count, unless every window is shorter.
  const lastWindow = Math.max(outageEnd, last - window)
  let recovered = Infinity
  for (
    let at = outageEnd + Math.floor((lastWindow - outageEnd) / 1_000) * 1_000;
    at >= outageEnd;
    at -= 1_000
  ) {
    const begun = calls.filter(({ start }) => start >= at && start < at + window)
    if (begun.filter(({ answered }) => answered).length < enough * begun.length) return recovered
    recovered = at - outageEnd
  }
  return recovered
}
