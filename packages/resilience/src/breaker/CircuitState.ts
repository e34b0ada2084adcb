/**
 * The state machine of a circuit. Pure: no clock, no randomness, no effects.
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
 * **Last resort.** A call without an alternative may pass an open or a half-open circuit, once every
 * {@link lastResortEvery} ms. The outcome counts as a probe's: two successes among the last three close the circuit. A
 * failure does not lengthen the opening. A circuit therefore never turns a partly working service into an outage.
 *
 * **Recovery.** When probes have closed a circuit, calls that were refused before are let through gradually: three at
 * once, two more for each success among them, and one more every five seconds. Once any call has failed, a success lets
 * only one through. New calls pass freely. If all waiting calls were sent at once, a service that has just recovered
 * could fail again.
 *
 * Each change of phase starts a new **generation**. An outcome counts only in the generation that admitted its call.
 * Functions take the state and the time in monotonic milliseconds, and return a decision and the next state. The given
 * state is never mutated; the same object is returned when nothing changes.
 *
 * `CircuitBreaker` is the service around this machine; `CircuitStore` shares its decisions between processes.
 */
import * as Backoff from "../Backoff.ts"
import * as Counts from "./CircuitCounts.ts"
import type { CircuitPolicy } from "./CircuitPolicy.ts"

export type Phase = "closed" | "open" | "half-open" | "isolated"

/** The reason for the last opening. */
export type Cause = Counts.Trip | "probe" | "tripped"

interface Base {
  /** Incremented at each change of phase, so that late outcomes can be ignored. */
  readonly generation: number
  /** Start time of the phase. */
  readonly since: number
  /** Number of consecutive openings. */
  readonly openings: number
  /** Backoff of the last opening, in milliseconds. 0 before the first. */
  readonly backoff: number
  /** Length of the last opening, in milliseconds. */
  readonly lasted: number
  /** End of the latest `retryAfter` of a failure. An opening that begins later does not end earlier. */
  readonly notBefore: number
}

export interface Closed extends Base {
  readonly phase: "closed"
  readonly counts: Counts.CircuitCounts
  /**
   * The gradual recovery, during {@link recoveryTime} after the circuit closed. Absent when the circuit was never open.
   */
  readonly recovery?: Recovery | undefined
}

/** Counts the calls that waited for the circuit to close and were let through. */
export interface Recovery {
  /** Calls that waited and were let through. */
  readonly released: number
  /** Further calls that the successes of those have paid for. */
  readonly earned: number
  /** A call has failed since the circuit closed. */
  readonly failed?: boolean | undefined
}

export interface Open extends Base {
  readonly phase: "open"
  readonly until: number
  readonly cause: Cause
  /** Calls that passed as a last resort. Absent when there were none. */
  readonly lastResort?: LastResort | undefined
}

/** The calls that passed an open circuit as a last resort, and their outcomes. */
export interface LastResort {
  /** Time at which the latest of them was let through. */
  readonly at: number
  readonly leases: ReadonlyArray<Lease>
  /** Outcomes of the last {@link judged} calls, oldest first. True for a success. */
  readonly outcomes: ReadonlyArray<boolean>
}

/** The permit of one probe. */
export interface Lease {
  readonly holder: string
  readonly until: number
}

export interface HalfOpen extends Base {
  readonly phase: "half-open"
  /** The reason for opening. When it was slowness, a slow probe counts as failed. */
  readonly cause: Cause
  /** Time at which a call last passed as a last resort. Absent when none did. */
  readonly lastResortAt?: number | undefined
  readonly leases: ReadonlyArray<Lease>
  readonly successes: number
  readonly failures: number
}

export interface Isolated extends Base {
  readonly phase: "isolated"
  readonly holders: ReadonlyArray<string>
}

export type CircuitState = Closed | Open | HalfOpen | Isolated

/** The right to make one call and to report its outcome. */
export interface Grant {
  readonly generation: number
  /** Holder of the lease, for a probe. */
  readonly holder: string | undefined
  /** True when the call passed as a last resort. The store is not asked then. Default: false. */
  readonly lastResort?: boolean | undefined
  /** True when the call had waited for the circuit to close. Default: false. */
  readonly waited?: boolean | undefined
}

/** The reason for a refusal. `recovering`: the circuit is closed, but other calls that waited go first. */
export interface Refusal {
  readonly reason: "open" | "half-open" | "isolated" | "recovering"
  /** Milliseconds until a call is let through, when the circuit knows it. */
  readonly retryAfter: number | undefined
}

/** Properties of the call that asks. */
export interface Request {
  /** True when the call has no alternative. Default: false. */
  readonly lastResort?: boolean | undefined
  /** True when the circuit refused this call before. Default: false. */
  readonly waited?: boolean | undefined
}

/** Milliseconds between two calls that pass a circuit as a last resort. */
export const lastResortEvery = 1_000

/** Number of last-resort outcomes that are judged. {@link enough} successes among them close the circuit. */
export const judged = 3
export const enough = 2

/** Number of waiting calls that are let through at once when a circuit closes. */
export const releasedAtOnce = 3

/** Milliseconds after which a closed circuit lets one more waiting call through, whatever the outcome of the others. */
export const releaseEvery = 5_000

/** Milliseconds after which a closed circuit lets all waiting calls through. Longer than most calls wait. */
export const recoveryTime = 600_000

export type Admission =
  | { readonly granted: true; readonly grant: Grant }
  | { readonly granted: false; readonly refusal: Refusal }

/** The outcome of a call for its circuit. */
export type Ended =
  | { readonly outcome: "ignored" }
  | {
      readonly outcome: "success" | "failure"
      /** The wait that the server requested with a failure, in milliseconds. */
      readonly retryAfter?: number | undefined
      readonly took?: number | undefined
      readonly call?: unknown
      /** Number of other calls in flight. */
      readonly inFlight?: number | undefined
    }

const nothing: Base = {
  generation: 0,
  since: 0,
  openings: 0,
  backoff: 0,
  lasted: 0,
  notBefore: -Infinity
}

/** The state of an unknown circuit: closed, with nothing counted. */
export const initial: Closed = { ...nothing, phase: "closed", counts: Counts.empty }

/** Returns the phase that the next call at `now` will find. Changes nothing. */
export const phaseAt = (state: CircuitState, now: number): Phase =>
  state.phase !== "open" || now < state.until ? state.phase : "half-open"

/** True when {@link admit} would let a call through. */
export const available = (
  policy: CircuitPolicy,
  state: CircuitState,
  now: number,
  request: Request = {}
): boolean => refusal(policy, state, now, request) === undefined

/** True when a success would change nothing. This is the usual case, decided without reading the clock. */
export const unmoved = (policy: CircuitPolicy, { counts, recovery }: Closed): boolean =>
  recovery === undefined && Counts.unmoved(policy, counts)

/** Admits or refuses a call. A probe holds a lease under the name `holder` until it ends or expires. */
export const admit = (
  policy: CircuitPolicy,
  state: CircuitState,
  holder: string,
  now: number,
  request: Request = {}
): readonly [Admission, CircuitState] => {
  const refused = refusal(policy, state, now, request)
  // Stryker disable next-line ConditionalExpression,StringLiteral: for the types; an isolated circuit always refuses.
  if (refused !== undefined || state.phase === "isolated") {
    return [{ granted: false, refusal: refused ?? isolatedRefusal }, state]
  }
  if (state.phase === "closed") {
    const after = released(state, now, request)
    const grant: Grant = { generation: state.generation, holder: undefined }
    return [{ granted: true, grant: after === state ? grant : { ...grant, waited: true } }, after]
  }
  const lease: Lease = { holder, until: now + policy.probeLimit }
  // True when the circuit would refuse any call but a last resort.
  const isLast = refusal(policy, state, now, {}) !== undefined
  if (state.phase === "open" && isLast) {
    // Stryker disable next-line ArrayDeclaration: a value that is not a lease is not valid.
    const { leases = [], outcomes = [] } = state.lastResort ?? {}
    const lastResort = { at: now, leases: [...valid(leases, now), lease], outcomes }
    return [granted(state.generation, holder, true), { ...state, lastResort }]
  }
  const half = probing(state, now)
  return [
    granted(half.generation, holder, isLast),
    { ...half, leases: [...half.leases, lease], ...(isLast ? { lastResortAt: now } : {}) }
  ]
}

/** Applies the outcome of a call. Outcomes of another generation and of expired permits change nothing. */
export const settle = (
  policy: CircuitPolicy,
  state: CircuitState,
  grant: Grant,
  ended: Ended,
  now: number,
  draw: number
): CircuitState => {
  if (grant.generation !== state.generation) return state
  if (state.phase === "closed") return settleCall(policy, state, grant, ended, now, draw)
  if (state.phase === "isolated") return state
  const probe = judgedAsProbe(policy, state, ended)
  if (state.phase === "open") return settleLastResort(policy, state, grant, probe, now)
  const leases = state.leases.filter(({ holder }) => holder !== grant.holder)
  const lease = state.leases.find(({ holder }) => holder === grant.holder)
  if (lease === undefined || now >= lease.until) return state
  return settleProbe(policy, { ...state, leases }, probe, now, draw)
}

/** Returns the outcome of a call judged as a probe. When slowness opened the circuit, a slow success is a failure. */
export const judgedAsProbe = ({ rate }: CircuitPolicy, state: CircuitState, ended: Ended): Ended => {
  const isSlow =
    // Stryker disable next-line ConditionalExpression: for the types; other phases have no cause.
    "cause" in state &&
    state.cause === "slow-rate" &&
    ended.outcome === "success" &&
    (ended.took ?? 0) > (rate?.slowerThan ?? Infinity)
  return isSlow ? { ...ended, outcome: "failure" } : ended
}

/** Forces the circuit open, for the policy's time or for `length` milliseconds. An isolated circuit stays isolated. */
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

/** Forces the circuit closed and clears its counts. An isolated circuit is cleared too, but stays isolated. */
export const reset = (state: CircuitState, now: number): CircuitState => {
  const fresh: Base = { ...nothing, generation: state.generation + 1, since: now }
  return state.phase === "isolated"
    ? { ...fresh, phase: "isolated", holders: state.holders }
    : { ...fresh, phase: "closed", counts: Counts.empty }
}

/** Holds the circuit open by hand until `holder` releases it. Several holders are allowed. */
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
 * True when the circuit can be removed without losing anything: closed with nothing counted, or unused for `idle`
 * milliseconds. An open circuit is in use until its time is over, an isolated one always.
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

const granted = (generation: number, holder: string | undefined, lastResort: boolean): Admission => ({
  granted: true,
  grant: lastResort ? { generation, holder, lastResort } : { generation, holder }
})

const refusal = (
  policy: CircuitPolicy,
  state: CircuitState,
  now: number,
  { lastResort = false, waited = false }: Request
): Refusal | undefined => {
  switch (state.phase) {
    case "closed":
      return waited && isRecovering(state, now) && waitsFor(state, now)
        ? { reason: "recovering", retryAfter: undefined }
        : undefined
    case "isolated":
      return isolatedRefusal
    case "open": {
      const since = state.lastResort?.at ?? -Infinity
      if (now >= state.until || (lastResort && now >= since + lastResortEvery)) return undefined
      const next = lastResort ? Math.min(state.until, since + lastResortEvery) : state.until
      return { reason: "open", retryAfter: next - now }
    }
    case "half-open": {
      const undecided = policy.outOf - state.successes - state.failures
      if (valid(state.leases, now).length < Math.min(policy.permits, undecided)) return undefined
      const next = (state.lastResortAt ?? -Infinity) + lastResortEvery
      if (!lastResort) return { reason: "half-open", retryAfter: undefined }
      return now >= next ? undefined : { reason: "half-open", retryAfter: next - now }
    }
  }
}

const isolatedRefusal: Refusal = { reason: "isolated", retryAfter: undefined }

const isRecovering = (state: Closed, now: number): state is Closed & { readonly recovery: Recovery } =>
  state.recovery !== undefined && now < state.since + recoveryTime

/**
 * True when a call that waited must keep waiting. Time also releases calls, because those let through so far may all
 * have failed.
 */
const waitsFor = ({ since, recovery }: Closed & { readonly recovery: Recovery }, now: number): boolean =>
  recovery.released >= releasedAtOnce + recovery.earned + Math.floor((now - since) / releaseEvery)

/** Counts a call that was let through, if it had waited. */
const released = (state: Closed, now: number, { waited = false }: Request): Closed =>
  waited && isRecovering(state, now)
    ? { ...state, recovery: { ...state.recovery, released: state.recovery.released + 1 } }
    : state

const valid = (leases: ReadonlyArray<Lease>, now: number): ReadonlyArray<Lease> =>
  leases.filter(({ until }) => now < until)

const probing = (state: Open | HalfOpen, now: number): HalfOpen =>
  state.phase === "half-open"
    ? { ...state, leases: valid(state.leases, now) }
    : {
        ...base(state, now),
        phase: "half-open",
        cause: state.cause,
        leases: [],
        successes: 0,
        failures: 0
      }

const settleCall = (
  policy: CircuitPolicy,
  state: Closed,
  { waited = false }: Grant,
  ended: Ended,
  now: number,
  draw: number
): CircuitState => {
  if (ended.outcome === "ignored") return state
  const failed = ended.outcome === "failure"
  if (!failed && unmoved(policy, state)) return state
  const { took, call, inFlight } = ended
  const counts = Counts.add(policy, state.counts, { failed, took, call, inFlight }, now)
  const kept = recovered(state, failed, waited, now)
  const next: Closed = failed
    ? { ...kept, counts, notBefore: notBefore(policy, state, ended, now) }
    : { ...kept, counts }
  const cause = Counts.trip(policy, counts, now, inFlight)
  return cause === undefined ? next : open(policy, next, cause, now, draw)
}

/**
 * Counts the outcome of a call for the recovery, or removes a recovery that is over. The success of a call that waited
 * pays for two more, so that the pace doubles, and for one more once any call has failed.
 */
const recovered = (state: Closed, failed: boolean, waited: boolean, now: number): Closed => {
  const { recovery } = state
  if (recovery === undefined) return state
  if (!isRecovering(state, now)) return { ...state, recovery: undefined }
  if (failed) return { ...state, recovery: { ...recovery, failed } }
  if (!waited) return state
  const pays = recovery.failed === true ? 1 : 2
  return { ...state, recovery: { ...recovery, earned: recovery.earned + pays } }
}

const settleLastResort = (
  policy: CircuitPolicy,
  state: Open,
  { holder }: Grant,
  ended: Ended,
  now: number
): CircuitState => {
  const { lastResort } = state
  const lease = lastResort?.leases.find((other) => other.holder === holder)
  // Stryker disable next-line ConditionalExpression: the first is for the types; without last resorts there is no lease.
  if (lastResort === undefined || lease === undefined || now >= lease.until) return state
  const leases = lastResort.leases.filter((other) => other !== lease)
  if (ended.outcome === "ignored") return { ...state, lastResort: { ...lastResort, leases } }
  const outcomes = [...lastResort.outcomes, ended.outcome === "success"].slice(-judged)
  return outcomes.filter(Boolean).length >= enough
    ? closed(state, now, true)
    : {
        ...state,
        notBefore: notBefore(policy, state, ended, now),
        lastResort: { ...lastResort, leases, outcomes }
      }
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
    return successes >= policy.successes ? closed(state, now, true) : { ...state, successes }
  }
  const failures = state.failures + 1
  const next: HalfOpen = { ...state, failures, notBefore: notBefore(policy, state, ended, now) }
  if (failures <= policy.outOf - policy.successes) return next
  // After an opening for slowness, further probes are also judged by their duration.
  return open(policy, next, state.cause === "slow-rate" ? "slow-rate" : "probe", now, draw)
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

/** Returns a closed state. With `gradually`, calls that waited are let through one after the other. */
const closed = (state: Base, now: number, gradually = false): Closed => ({
  ...base(state, now),
  phase: "closed",
  counts: Counts.empty,
  ...(gradually ? { recovery: { released: 0, earned: 0 } } : {})
})

const open = (policy: CircuitPolicy, state: CircuitState, cause: Cause, now: number, draw: number): Open => {
  // With `stable` the count of openings restarts when the circuit stayed closed for at least as long as its last
  // opening, otherwise at each closing.
  const isFlapping = policy.restart === "stable" && now - state.since < state.lasted
  const again = state.phase !== "closed" || isFlapping
  const openings = again ? state.openings + 1 : 1
  const previous = openings === 1 ? undefined : state.backoff
  const backoff = Backoff.delay(policy.open, openings, previous, draw)
  const until = Math.max(now + backoff, state.notBefore)
  return { ...base(state, now), phase: "open", openings, backoff, lasted: until - now, until, cause }
}
