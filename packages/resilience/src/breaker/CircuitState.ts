/**
 * A circuit as a pure state machine: no clock, no randomness, no effects.
 *
 * ```
 *            trips                 time is up, a call comes
 *   Closed ─────────▶ Open ─────────────────────────────────▶ HalfOpen
 *     ▲                 ▲      too many probes failed             │
 *     │                 └─────────────────────────────────────────┤
 *     └───────────────────────── enough probes succeeded ─────────┘
 *
 *   any ── isolate ──▶ Isolated ── the last hold is released ──▶ Closed          reset: any but Isolated ──▶ Closed
 * ```
 *
 * Each change of phase makes a new **generation**; an outcome counts only in the generation that admitted its
 * call. Functions take the state and monotonic milliseconds and give a decision with the next state; the state
 * they were given is never changed, and comes back as the same object where nothing changed.
 *
 * `CircuitBreaker` is the service around it; `CircuitStore` shares what it decides between processes.
 */
import * as Backoff from "../retry/Backoff.ts"
import * as Counts from "./CircuitCounts.ts"
import type { CircuitPolicy } from "./CircuitPolicy.ts"

export type Phase = "closed" | "open" | "half-open" | "isolated"

/** What opened a circuit last. */
export type Cause = Counts.Trip | "probe" | "tripped"

interface Base {
  /** Fences late outcomes. */
  readonly generation: number
  /** When the phase began. */
  readonly since: number
  /** Openings in a row. */
  readonly openings: number
  /** What the backoff gave for the last opening: 0 before the first. */
  readonly backoff: number
  /** How long the last opening lasts or lasted. */
  readonly lasted: number
  /** The end of the latest `retryAfter` of a failure: no opening ends before it. */
  readonly notBefore: number
}

export interface Closed extends Base {
  readonly phase: "closed"
  readonly counts: Counts.CircuitCounts
}

export interface Open extends Base {
  readonly phase: "open"
  readonly until: number
  readonly cause: Cause
}

/** The permit of one probe. */
export interface Lease {
  readonly holder: string
  readonly until: number
}

export interface HalfOpen extends Base {
  readonly phase: "half-open"
  readonly leases: ReadonlyArray<Lease>
  readonly successes: number
  readonly failures: number
}

export interface Isolated extends Base {
  readonly phase: "isolated"
  readonly holders: ReadonlyArray<string>
}

export type CircuitState = Closed | Open | HalfOpen | Isolated

/** The right to make one call, and to say how it ended. */
export interface Grant {
  readonly generation: number
  /** Whose lease it is, for a probe. */
  readonly holder: string | undefined
}

/** Why a call was not let through. */
export interface Refusal {
  readonly reason: "open" | "half-open" | "isolated"
  /** Milliseconds until a call is let through, where the circuit knows. */
  readonly retryAfter: number | undefined
}

export type Admission =
  | { readonly granted: true; readonly grant: Grant }
  | { readonly granted: false; readonly refusal: Refusal }

/** How a call ended, for its circuit. */
export type Ended =
  | { readonly outcome: "ignored" }
  | {
      readonly outcome: "success" | "failure"
      /** Of a failure: what the server said, in milliseconds. */
      readonly retryAfter?: number | undefined
      readonly took?: number | undefined
      readonly call?: unknown
      readonly concurrent?: boolean | undefined
    }

const nothing: Base = {
  generation: 0,
  since: 0,
  openings: 0,
  backoff: 0,
  lasted: 0,
  notBefore: -Infinity
}

/** A circuit of which nothing is known. */
export const initial: Closed = { ...nothing, phase: "closed", counts: Counts.empty }

/** The phase at `now`, as the next call will find it. Reading changes nothing. */
export const phaseAt = (state: CircuitState, now: number): Phase =>
  state.phase !== "open" || now < state.until ? state.phase : "half-open"

/** Whether {@link admit} would let a call through. */
export const available = (policy: CircuitPolicy, state: CircuitState, now: number): boolean =>
  refusal(policy, state, now) === undefined

/** Lets a call through, or does not. A probe holds a lease under the name `holder` until it ends or lapses. */
export const admit = (
  policy: CircuitPolicy,
  state: CircuitState,
  holder: string,
  now: number
): readonly [Admission, CircuitState] => {
  if (state.phase === "closed") return [granted(state.generation, undefined), state]
  const refused = refusal(policy, state, now)
  if (refused !== undefined) return [{ granted: false, refusal: refused }, state]
  const half = probing(state, now)
  const lease: Lease = { holder, until: now + policy.probeLimit }
  return [granted(half.generation, holder), { ...half, leases: [...half.leases, lease] }]
}

/** Takes in how a call ended. Outcomes of another generation and of lapsed permits change nothing. */
export const settle = (
  policy: CircuitPolicy,
  state: CircuitState,
  grant: Grant,
  ended: Ended,
  now: number,
  draw: number
): CircuitState => {
  if (grant.generation !== state.generation) return state
  if (state.phase === "closed") return settleCall(policy, state, ended, now, draw)
  if (state.phase !== "half-open") return state
  const leases = state.leases.filter(({ holder }) => holder !== grant.holder)
  const lease = state.leases.find(({ holder }) => holder === grant.holder)
  if (lease === undefined || now >= lease.until) return state
  return settleProbe(policy, { ...state, leases }, ended, now, draw)
}

/** Forces the circuit open, for the policy's time or for `length` milliseconds. An isolated circuit stays so. */
export const trip = (
  policy: CircuitPolicy,
  state: CircuitState,
  now: number,
  draw: number,
  length?: number
): CircuitState => {
  if (state.phase === "isolated") return state
  const opened = open(policy, state, "tripped", now, draw)
  return length === undefined ? opened : { ...opened, until: now + length, lasted: length }
}

/** Forces the circuit closed and forgets all it has counted. An isolated circuit forgets, and stays isolated. */
export const reset = (state: CircuitState, now: number): CircuitState => {
  const fresh: Base = { ...nothing, generation: state.generation + 1, since: now }
  return state.phase === "isolated"
    ? { ...fresh, phase: "isolated", holders: state.holders }
    : { ...fresh, phase: "closed", counts: Counts.empty }
}

/** Holds the circuit open by hand until `holder` releases it. Several may. */
export const isolate = (state: CircuitState, holder: string, now: number): CircuitState =>
  state.phase !== "isolated"
    ? { ...base(state, now), phase: "isolated", holders: [holder] }
    : state.holders.includes(holder)
      ? state
      : { ...state, holders: [...state.holders, holder] }

/** Ends one hold. After the last one the circuit is closed, with nothing counted. */
export const release = (state: CircuitState, holder: string, now: number): CircuitState => {
  if (state.phase !== "isolated" || !state.holders.includes(holder)) return state
  const holders = state.holders.filter((other) => other !== holder)
  return holders.length > 0 ? { ...state, holders } : closed(state, now)
}

/**
 * Whether forgetting the circuit loses nothing that still matters: closed with nothing counted, or unused for
 * `idle` milliseconds. An open circuit is in use until its time is up, an isolated one always.
 */
export const isForgettable = (state: CircuitState, now: number, idle: number): boolean => {
  switch (state.phase) {
    case "closed": {
      const counted = Counts.lastAt(state.counts)
      const used = Math.max(counted ?? -Infinity, state.since + state.lasted, state.notBefore)
      return now >= (counted === undefined ? used : used + idle)
    }
    case "open":
      return now >= state.until + idle
    case "half-open":
      return now >= Math.max(state.since, ...state.leases.map(({ until }) => until)) + idle
    case "isolated":
      return false
  }
}

const granted = (generation: number, holder: string | undefined): Admission => ({
  granted: true,
  grant: { generation, holder }
})

const refusal = (policy: CircuitPolicy, state: CircuitState, now: number): Refusal | undefined => {
  if (state.phase === "closed") return undefined
  if (state.phase === "isolated") return { reason: "isolated", retryAfter: undefined }
  if (state.phase === "open") {
    return now < state.until ? { reason: "open", retryAfter: state.until - now } : undefined
  }
  const undecided = policy.outOf - state.successes - state.failures
  return held(state, now).length < Math.min(policy.permits, undecided)
    ? undefined
    : { reason: "half-open", retryAfter: undefined }
}

const held = ({ leases }: HalfOpen, now: number): ReadonlyArray<Lease> =>
  leases.filter(({ until }) => now < until)

const probing = (state: CircuitState, now: number): HalfOpen =>
  state.phase === "half-open"
    ? { ...state, leases: held(state, now) }
    : { ...base(state, now), phase: "half-open", leases: [], successes: 0, failures: 0 }

const settleCall = (
  policy: CircuitPolicy,
  state: Closed,
  ended: Ended,
  now: number,
  draw: number
): CircuitState => {
  if (ended.outcome === "ignored") return state
  const failed = ended.outcome === "failure"
  if (!failed && Counts.unmoved(policy, state.counts)) return state
  const { took, call, concurrent } = ended
  const counts = Counts.add(policy, state.counts, { failed, took, call, concurrent }, now)
  const next: Closed = { ...state, counts, notBefore: notBefore(policy, state, ended, now) }
  const cause = Counts.trip(policy, counts, now)
  return cause === undefined ? next : open(policy, next, cause, now, draw)
}

const settleProbe = (
  policy: CircuitPolicy,
  state: HalfOpen,
  ended: Ended,
  now: number,
  draw: number
): CircuitState => {
  if (ended.outcome === "ignored") return state
  if (ended.outcome === "success") {
    const successes = state.successes + 1
    return successes >= policy.successes ? closed(state, now) : { ...state, successes }
  }
  const failures = state.failures + 1
  const next: HalfOpen = { ...state, failures, notBefore: notBefore(policy, state, ended, now) }
  return failures > policy.outOf - policy.successes ? open(policy, next, "probe", now, draw) : next
}

const notBefore = (policy: CircuitPolicy, state: Base, ended: Ended, now: number): number =>
  ended.outcome === "failure" && ended.retryAfter !== undefined
    ? Math.max(state.notBefore, now + Math.min(ended.retryAfter, policy.maxRetryAfter))
    : state.notBefore

const base = (state: Base, now: number): Base => ({
  generation: state.generation + 1,
  since: now,
  openings: state.openings,
  backoff: state.backoff,
  lasted: state.lasted,
  notBefore: state.notBefore
})

const closed = (state: Base, now: number): Closed => ({
  ...base(state, now),
  phase: "closed",
  counts: Counts.empty
})

const open = (policy: CircuitPolicy, state: CircuitState, cause: Cause, now: number, draw: number): Open => {
  // A circuit that stayed closed as long as it was open before begins again.
  const again = state.phase !== "closed" || now - state.since < state.lasted
  const openings = again ? state.openings + 1 : 1
  const previous = openings === 1 ? undefined : state.backoff
  const backoff = Backoff.delay(policy.open, openings, previous, draw)
  const until = Math.max(now + backoff, state.notBefore)
  return { ...base(state, now), phase: "open", openings, backoff, lasted: until - now, until, cause }
}
