/**
 * How long a call waits before its next attempt at a target: its own backoff, the wait that the server named, and the
 * backoff over all targets. Part of `CallState`. Pure.
 */
import { Duration, HashMap } from "effect"
import { Backoff } from "@outlast/resilience"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { timeLeft } from "./CallLimits.ts"
import { triesAt } from "./CallLog.ts"
import type { Snapshot } from "./CallModel.ts"
import type { CallState } from "./State.ts"
import * as Cool from "./Cooldown.ts"
import * as Openings from "./Openings.ts"
import type { RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"

type Policy = RecoveryPolicy<string>

/** Returns the wait before a repeat at the target that failed. `formula` is our own backoff in milliseconds. */
const waitOf = (policy: Policy, row: Row, { retryAfter }: ProviderFailure, formula: number, draw: number) => {
  const rule: Backoff.HintRule = {
    retryAfter: row.retryAfter,
    maxRetryAfter: policy.maxWait,
    retryAfterJitter: policy.retryAfterJitter
  }
  return Backoff.withHint(
    rule,
    formula,
    retryAfter === undefined ? undefined : Duration.toMillis(retryAfter),
    draw
  )
}

/** Returns the number of attempts that count at `here`, and the last delay there in milliseconds. */
const usedAt = (
  policy: Policy,
  row: Row,
  state: CallState,
  here: TargetRef,
  failure: ProviderFailure,
  { streaks }: Snapshot
): { readonly used: number; readonly released: number; readonly delay: number | undefined } => {
  if (policy.counters === "target") {
    const streak = streaks.get(here.id)
    return { used: streak?.failures ?? 0, released: 0, delay: streak?.delay }
  }
  const own = triesAt(state, here)
  const used = row.pool === "own" ? (own.classes.get(policy.classOf(failure)) ?? 0) : own.count
  return { used, released: own.released, delay: own.delay }
}

/** A named wait of zero is not a wait. The repeat then counts like one of our own. */
export const isNamed = ({ retryAfter }: ProviderFailure): boolean =>
  retryAfter !== undefined && !Duration.isZero(retryAfter)

/**
 * Earliest time at which the call may return to `here`, where its last failure named a wait; `undefined` where it named
 * none that counts.
 */
export const backAt = (
  policy: Policy,
  row: Row,
  state: CallState,
  here: TargetRef,
  failure: ProviderFailure,
  snapshot: Snapshot,
  draw: number
): number | undefined => {
  if (failure.retryAfter === undefined) return undefined
  const { attempts: all, sweeps } = state.made
  const previous = triesAt(state, here).delay
  if (!isNamed(failure)) {
    // A wait of 0 is none. Once a call has failed more than once, it is a refusal that names no useful wait: its backoff
    // holds at this target, also when the call asks another one in between.
    const isRefusal = all > 1 && row.retryAfter === "minimum" && failure.evidence.shouldRetry !== false
    return isRefusal ? snapshot.now + Backoff.delay(row.backoff, all - sweeps, previous, draw) : undefined
  }
  if (row.retryAfter === "ignored") return undefined
  // Count all attempts of the call. Otherwise each of several keys under one limit would be asked again every second.
  const { used } = usedAt(policy, row, state, here, failure, snapshot)
  const formula = Backoff.delay(row.backoff, Math.max(used, all - sweeps), previous, draw)
  const wait = waitOf(policy, row, failure, formula, draw)
  return snapshot.now + (wait._tag === "TooLong" ? wait.retryAfter : wait.millis)
}

/** Returns the delay before a repeat on the same target in milliseconds, or `undefined` when no repeat is allowed. */
export const beforeRepeat = (
  policy: Policy,
  row: Row,
  state: CallState,
  here: TargetRef,
  failure: ProviderFailure,
  snapshot: Snapshot,
  draw: number
): number | undefined => {
  const { used, delay, released } = usedAt(policy, row, state, here, failure, snapshot)
  const isSpent = used - released >= row.attempts && !Openings.mayGoOn(policy, state, here, snapshot)
  if (row.then !== "retry" || isSpent || failure.evidence.shouldRetry === false) return undefined
  const backoff = Backoff.delay(row.backoff, used, delay, draw)
  // A named wait of 0 is kept after the first failure. A server that names it again and again has no place yet.
  const isAtOnce = failure.retryAfter !== undefined && Duration.isZero(failure.retryAfter)
  const obeyed: Row =
    isAtOnce && used > 1 && row.retryAfter !== "wins" ? { ...row, retryAfter: "ignored" } : row
  const wait = waitOf(policy, obeyed, failure, backoff, draw)
  // Stryker disable next-line ConditionalExpression,StringLiteral: the first is for the types; what is too long has no `millis`.
  if (wait._tag === "TooLong" || wait.millis > timeLeft(policy, state, snapshot)) return undefined
  // Another call may have opened a cooldown for the target in the meantime, or this call has probed it.
  const out = Cool.outOf(snapshot.cooldowns, here, snapshot.now + wait.millis)
  return out === undefined ? wait.millis : undefined
}

/**
 * Milliseconds before the call goes to another target. It goes at once to one that it has not asked. Once all have
 * failed, one backoff holds over all of them: it grows with each further attempt, wherever that was made.
 */
export const beforeReturn = (
  policy: Policy,
  row: Row,
  state: CallState,
  target: TargetRef,
  draw: number
): number => {
  const own = triesAt(state, target)
  if (
    !policy.sharedBackoff ||
    own.failure === undefined ||
    own.backAt !== undefined ||
    row.then !== "retry" ||
    !row.worthWaiting
  )
    return 0
  const { attempts, sweeps, tries } = state.made
  return Backoff.delay(row.backoff, attempts - sweeps - HashMap.size(tries) + 1, own.delay, draw)
}

/** The draw that makes a backoff with jitter neither longer nor shorter. */
const middle = 1 / 2

/**
 * Milliseconds for which a call waits at least before the retry budget lets it go again: the backoff of its repeats that
 * the budget let go and that failed. Without it the oldest call would use up its attempts within a few answers.
 */
export const beforeRelease = (policy: Policy, state: CallState): number => {
  const { left, failure } = state.made
  const released = left === undefined ? 0 : triesAt(state, left).released
  // Stryker disable next-line ConditionalExpression: the first is for the types; a released repeat has failed.
  return failure === undefined || released === 0
    ? 0
    : Backoff.delay(rowOf(policy, failure).backoff, released, undefined, middle)
}
