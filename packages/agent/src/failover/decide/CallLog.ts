/**
 * The history of a call: what its attempts that have ended, its refusals and its waits add up to. Part of `CallState`.
 * Pure.
 *
 * An attempt is counted when it ends ({@link ended}), never when it is planned. One that was not sent leaves no trace but
 * the time that it waited.
 */
import { HashMap, Option } from "effect"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Spent } from "./CallModel.ts"
import type { Out } from "./Cooldown.ts"

/** Attempts of one call on one target that have ended. */
export interface Tries {
  readonly count: number
  /** Number of attempts of the call before the first one here. */
  readonly before: number
  /** Failed attempts that waited for the retry budget. They do not count against the attempts of the row. */
  readonly released: number
  /** Delay of the last repeat in milliseconds; `undefined` before the first repeat. */
  readonly delay: number | undefined
  readonly failure: ProviderFailure | undefined
  /** Time of the first failure there. */
  readonly firstFailedAt?: number | undefined
  /** Failures by class. */
  readonly classes: ReadonlyMap<string, number>
  /** End of the wait that the target's last failure named; `undefined` when it named none, or 0. */
  readonly notBefore?: number | undefined
  /**
   * Earliest time at which this call may return to the target, when its last failure named a wait. The wait grows
   * with each attempt of the call.
   */
  readonly backAt?: number | undefined
}

/** A target that refused an attempt before it was sent. */
export interface Refused extends Out {
  /** True when the target's circuit may let this call pass as a last resort. */
  readonly mayResort: boolean
  readonly byCircuit: boolean
}

const untried: Tries = {
  count: 0,
  before: 0,
  released: 0,
  delay: undefined,
  failure: undefined,
  classes: new Map()
}

export interface CallLog {
  readonly attempts: number
  /**
   * First attempts at a target after another one refused the call ({@link isRefusal}). They are part of `attempts`
   * but do not count against its limit.
   */
  readonly sweeps: number
  readonly switches: number
  /** Waits for a cooldown. */
  readonly waits: number
  /** Milliseconds of waits and failed attempts. */
  readonly spent: number
  /** US dollars of attempts that failed or were cut. */
  readonly cost: number
  /** Tokens of attempts that failed or were cut. */
  readonly tokens: number
  /** Target of the last attempt. */
  readonly left: TargetRef | undefined
  /** The last failure, also when an attempt behind it was cut. */
  readonly failure: ProviderFailure | undefined
  /** Milliseconds until that failure. */
  readonly failedAfter: number
  /** Consecutive failures of one class on `left`; `undefined` when the output limit ended the last attempt. */
  readonly inARow: { readonly class: string; readonly count: number } | undefined
  /** By target id. */
  readonly tries: HashMap.HashMap<string, Tries>
  /** Targets that a circuit or a limit on our side refused, by target id. */
  readonly refused: HashMap.HashMap<string, Refused>
}

export const empty: CallLog = {
  attempts: 0,
  sweeps: 0,
  switches: 0,
  waits: 0,
  spent: 0,
  cost: 0,
  tokens: 0,
  left: undefined,
  failure: undefined,
  failedAfter: 0,
  inARow: undefined,
  tries: HashMap.empty(),
  refused: HashMap.empty()
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/** A call, of which only the log is read. */
interface Logged {
  readonly made: CallLog
}

/** The attempts at the target that have ended; none by default. */
export const triesAt = ({ made: { tries } }: Logged, { id }: TargetRef): Tries =>
  Option.getOrUndefined(HashMap.get(tries, id)) ?? untried

/** True when an attempt of the call at the target has ended. */
export const hasTried = ({ made: { tries } }: Logged, { id }: TargetRef): boolean => HashMap.has(tries, id)

export const refusalAt = ({ made: { refused } }: Logged, { id }: TargetRef): Refused | undefined =>
  Option.getOrUndefined(HashMap.get(refused, id))

/**
 * True when the provider refused the call because of its key without working on it: rate limited, invalid key, no
 * money. Asking another target is then not a retry: it takes no attempt of the call and no token of the retry budget.
 */
export const isRefusal = ({ reason }: ProviderFailure): boolean =>
  reason._tag === "RateLimit" || reason._tag === "Auth" || reason._tag === "Billing"

/** True when the next attempt is the first one at `target`, after another target refused the call. */
export const isSweep = (state: Logged, target: TargetRef): boolean => {
  const { failure } = state.made
  return failure !== undefined && isRefusal(failure) && !hasTried(state, target)
}

/** Number of targets at which this call had a failure of the class. */
export const failedTargets = ({ made: { tries } }: Logged, of: string): number => {
  let count = 0
  for (const { classes } of HashMap.values(tries)) if (classes.has(of)) count++
  return count
}

/** The last failure at the one of these targets that the call asked last for the first time. */
export const lastFailureOf = (
  { tries }: CallLog,
  isMeant: (target: TargetRef) => boolean
): ProviderFailure | undefined => {
  let last: Tries | undefined
  for (const own of HashMap.values(tries)) {
    const at = own.failure?.target
    if (at !== undefined && isMeant(at) && own.before >= (last?.before ?? 0)) last = own
  }
  return last?.failure
}

// -----------------------------------------------------------------------------
// Writing
// -----------------------------------------------------------------------------

/** An attempt, as it was sent. */
interface Sent {
  readonly target: TargetRef
  readonly delay: number
  readonly isSweep: boolean
}

/** Counts an attempt that has ended, however it ended. */
export const ended = (made: CallLog, { delay, isSweep, target }: Sent, { cost, tokens }: Spent): CallLog => {
  const { left } = made
  const own = triesAt({ made }, target)
  const isFirst = own.count === 0
  return {
    ...made,
    attempts: made.attempts + 1,
    sweeps: made.sweeps + (isSweep ? 1 : 0),
    switches: made.switches + (left === undefined || left.id === target.id ? 0 : 1),
    spent: made.spent + delay,
    cost: made.cost + cost,
    tokens: made.tokens + tokens,
    left: target,
    tries: HashMap.set(made.tries, target.id, {
      ...own,
      count: own.count + 1,
      before: isFirst ? made.attempts : own.before,
      delay: isFirst ? undefined : delay
    })
  }
}

/** The failure of the attempt that {@link ended} has counted last. */
export interface Failure {
  readonly failure: ProviderFailure
  readonly class: string
  readonly now: number
  /** Milliseconds that the attempt took, and those of them that count against patience and deadline. */
  readonly elapsed: number
  readonly counted: number
  /** True when the attempt waited for the retry budget. */
  readonly isReleased: boolean
  readonly notBefore: number | undefined
}

/** `before` is the log without the attempt, `made` with it. */
export const failed = (before: CallLog, made: CallLog, target: TargetRef, event: Failure): CallLog => {
  const { failure, class: of, now, elapsed, counted, isReleased, notBefore } = event
  const own = triesAt({ made }, target)
  const classes = new Map(own.classes).set(of, (own.classes.get(of) ?? 0) + 1)
  // Failures of other targets do not count as consecutive failures of this one.
  const last = before.left?.id === target.id ? before.inARow : undefined
  return {
    ...made,
    spent: made.spent + counted,
    failure,
    failedAfter: elapsed,
    inARow: { class: of, count: last?.class === of ? last.count + 1 : 1 },
    tries: HashMap.set(made.tries, target.id, {
      ...own,
      released: own.released + (isReleased ? 1 : 0),
      failure,
      firstFailedAt: own.firstFailedAt ?? now,
      classes,
      notBefore,
      backAt: undefined
    })
  }
}

/** Adds milliseconds of waits; negative ones give back time that was reserved and not used. */
export const waited = (made: CallLog, millis: number): CallLog => ({
  ...made,
  spent: Math.max(0, made.spent + millis)
})

export const setTries = (made: CallLog, { id }: TargetRef, tries: Tries): CallLog => ({
  ...made,
  tries: HashMap.set(made.tries, id, tries)
})

export const setRefused = (made: CallLog, { id }: TargetRef, refused: Refused): CallLog => ({
  ...made,
  refused: HashMap.set(made.refused, id, refused)
})

/**
 * The log without the waits that servers and circuits named for targets that an operator brought back. As behind a wait
 * that the server named, the next attempt there takes no retry budget.
 */
export const afterReset = (made: CallLog, reset: ReadonlySet<string>): CallLog => {
  let { refused, tries } = made
  for (const id of reset) {
    // The call has waited all the same: a circuit lets such calls through gradually.
    refused = HashMap.modify(refused, id, (by) => ({ ...by, until: -Infinity }))
    tries = HashMap.modify(tries, id, (own) => ({ ...own, backAt: undefined, notBefore: -Infinity }))
  }
  return { ...made, refused, tries }
}
