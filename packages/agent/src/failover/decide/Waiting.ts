/**
 * The waits of a call that can go nowhere now: for a target that is out, or for the retry budget. Says how long, and
 * which news end the wait before. Part of `CallState`. Pure.
 */
import { Duration } from "effect"
import { Backoff } from "@outlast/resilience"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { isAffordable, isFree, isWorking, mustEnd, timeLeft } from "./CallLimits.ts"
import * as Log from "./CallLog.ts"
import type { Snapshot, Soonest } from "./CallModel.ts"
import type { CallState, Step } from "./State.ts"
import type { Cooldown } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import { giveUp } from "./CutAnswer.ts"
import * as Delays from "./Delays.ts"
import * as Openings from "./Openings.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"
import { tried } from "./Remedy.ts"
import { send, sendAsLastResort } from "./Sending.ts"

type Policy = RecoveryPolicy<string>

/**
 * What a call does that can be sent nowhere now: it passes an open circuit as a last resort, probes or waits for the
 * target that is back first, waits for the retry budget, or ends.
 */
export const waitOrGiveUp = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  cooldown: Cooldown | undefined,
  draw: number
): Step => {
  const mayAsk = timeLeft(policy, state, snapshot) > 0 && !mustEnd(policy, state)
  const resort = mayAsk ? Openings.lastResort(policy, state, snapshot) : undefined
  if (resort !== undefined && isAffordable(state, snapshot, resort)) {
    return sendAsLastResort(policy, state, resort, cooldown, snapshot)
  }
  const isMeant = (target: Snapshot["targets"][number]) => Openings.mayGoTo(policy, state, target, snapshot)
  const soonest = mustEnd(policy, state) ? undefined : Openings.soonest(policy, state, snapshot, isMeant)
  return (
    (soonest === undefined ? undefined : untilBack(policy, state, snapshot, cooldown, soonest, draw)) ??
    forBudget(policy, state, snapshot, cooldown) ??
    giveUp(state, Openings.allOut(policy, state, snapshot), cooldown)
  )
}

/** Probes the target that is back first, or waits for it; `undefined` when the call may do neither. */
const untilBack = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  cooldown: Cooldown | undefined,
  soonest: Soonest,
  draw: number
): Step | undefined => {
  const { target, until, failure, refused } = soonest
  const { now } = snapshot
  const wait = Math.max(0, until - now)
  if (policy.whenAllOut === "fail" || !isAffordable(state, snapshot, target, wait)) return undefined
  if (
    policy.whenAllOut === "probe" &&
    isAffordable(state, snapshot, target) &&
    !refused &&
    Cool.isUnprobed(snapshot.cooldowns, target, now)
  ) {
    const probing = tried(state, "probe", target)
    if (probing !== undefined) return send(policy, probing, target, 0, cooldown, snapshot)
  }
  const left = timeLeft(policy, state, snapshot)
  const isTooLong = failure.retryAfter !== undefined && wait > Duration.toMillis(policy.maxWait)
  if (wait > left || isTooLong) return undefined
  const { made } = state
  // Other calls may have put the target out again when this one wakes. It waits on, for no request, until its deadline.
  const isMany = !refused && made.waits >= policy.maxAttempts
  const least = isMany ? Math.max(wait, Duration.toMillis(policy.pacing.leastWait)) : wait
  const sleep = Math.min(left, Backoff.lengthened(least, policy.retryAfterJitter, draw))
  return [
    { _tag: "Wait", until: now + sleep, cooldown, soonest, forBudget: false },
    {
      ...state,
      made: { ...Log.waited(made, sleep), waits: made.waits + (refused ? 0 : 1) },
      doing: { _tag: "Wait" }
    }
  ]
}

/**
 * Waits for the retry budget instead of ending the call: `undefined` when the budget is not the reason, or when no wait
 * can help. The shell wakes the call as soon as a success pays for its attempt, in the order of the calls. A call that
 * wakes without a token has no hope left, and ends.
 */
export const forBudget = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  cooldown: Cooldown | undefined
): Step | undefined => {
  const { failure, left: target, spent } = state.made
  const { now } = snapshot
  const left = timeLeft(policy, state, snapshot)
  if (
    snapshot.mayRetry ||
    failure === undefined ||
    // Stryker disable next-line ConditionalExpression: for the types; a call that has failed has left a target.
    target === undefined ||
    policy.whenAllOut !== "wait" ||
    left <= 0 ||
    mustEnd(policy, state) ||
    state.doing._tag === "Queue" ||
    !mayReturn(policy, state, failure, snapshot)
  ) {
    return undefined
  }
  const until = now + left
  return [
    { _tag: "Wait", until, cooldown, soonest: { target, until, failure, refused: false }, forBudget: true },
    {
      ...state,
      made: Log.waited(state.made, left),
      doing: {
        _tag: "Queue",
        restsUntil: now + Delays.beforeRelease(policy, state),
        hopesUntil: now + Duration.toMillis(policy.pacing.hopesFor) - spent
      }
    }
  ]
}

/**
 * True when a target can be asked before the deadline: one that the call has not asked, or any if its failure passes.
 */
const mayReturn = (
  policy: Policy,
  state: CallState,
  failure: ProviderFailure,
  snapshot: Snapshot
): boolean => {
  const end = snapshot.now + timeLeft(policy, state, snapshot)
  const mayRepeat = rowOf(policy, failure).worthWaiting
  const found = Openings.ready(policy, state, { ...snapshot, now: end })(
    (target) =>
      (mayRepeat || !Log.hasTried(state, target.ref)) && Openings.mayGoTo(policy, state, target, snapshot)
  )
  return found !== undefined
}

// -----------------------------------------------------------------------------
// News that end a wait
// -----------------------------------------------------------------------------

/**
 * True when a call that waits for a cooldown may continue early. A target that it may go to `isBack`: it has answered
 * another call in the meantime, or an operator brought it back. The retry budget has a token, or the attempt needs
 * none; successes refill the budget.
 */
export const mayWake = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  snapshot: Snapshot,
  isBack: (target: TargetRef) => boolean
): boolean => {
  const found = Openings.ready(
    policy,
    state,
    snapshot
  )(
    (target) =>
      isBack(target.ref) &&
      (snapshot.mayRetry || isFree(state, target.ref, snapshot.now)) &&
      Cool.outOf(snapshot.cooldowns, target.ref, snapshot.now) === undefined &&
      Openings.mayGoTo(policy, state, target, snapshot)
  )
  return found !== undefined
}

/** True when a call that waits for the retry budget may ask `target` now, or any target. */
export const mayRelease = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  snapshot: Snapshot,
  target: TargetRef | undefined
): boolean => {
  if (state.doing._tag !== "Queue" || snapshot.now < state.doing.restsUntil) return false
  const found = Openings.ready(
    policy,
    state,
    snapshot
  )(
    (view) =>
      (target === undefined || view.ref.id === target.id) && Openings.mayGoTo(policy, state, view, snapshot)
  )
  return found !== undefined
}

/** The time until which a wait lasts as far as can be told now, in monotonic milliseconds: `until` at most. */
export const waitsUntil = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  until: number,
  snapshot: Snapshot
): number =>
  state.doing._tag !== "Queue" || isWorking(policy, state, snapshot)
    ? until
    : Math.min(until, state.doing.hopesUntil)

/** True as long as a call may wait for the retry budget. */
export const mayHope = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  snapshot: Snapshot
): boolean =>
  state.doing._tag === "Queue" &&
  (snapshot.now < state.doing.hopesUntil || isWorking(policy, state, snapshot))
