/**
 * What a call does after an attempt that failed: it ends, tries a remedy, repeats at the target, or goes to another one.
 * Part of `CallState`. Pure.
 */
import { Duration } from "effect"
import { Backoff } from "@outlast/resilience"
import { leavable } from "../../failure/reasons/Leavable.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as Answer from "./AnswerSoFar.ts"
import {
  hasNoTime,
  isAffordable,
  isPatient,
  mayAskAnother,
  mayRepeat,
  mustEnd,
  timeCounted,
  timeLeft
} from "./CallLimits.ts"
import * as Log from "./CallLog.ts"
import type { Failed, Snapshot } from "./CallModel.ts"
import type { CallState, Flight, Step } from "./State.ts"
import { choosing } from "./State.ts"
import type { Cooldown, Cooldowns } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import { giveUp, withoutRaise } from "./CutAnswer.ts"
import * as Delays from "./Delays.ts"
import { isRefusedText, midStreamAfter } from "./MidStream.ts"
import { cooldownFor, isNotBefore } from "./NextCooldown.ts"
import * as Openings from "./Openings.ts"
import type { RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"
import { mend } from "./Remedy.ts"
import { send } from "./Sending.ts"
import { waitOrGiveUp } from "./Waiting.ts"

type Policy = RecoveryPolicy<string>

// -----------------------------------------------------------------------------
// Recording
// -----------------------------------------------------------------------------

/** Returns the state with the failed attempt recorded. */
export const record = (
  policy: Policy,
  state: CallState,
  flight: Flight,
  event: Failed,
  snapshot: Snapshot,
  draw: number
): CallState => {
  const { target, isReleased } = flight
  const { failure, keptText } = event
  const { now } = snapshot
  const row = rowOf(policy, failure)
  const answer = Answer.kept(state.answer, event)
  // Keep an answer that a limit cut. A new one would be cut again. A refusal is never kept.
  const isKept = answer._tag === "Cut" || keptText !== undefined
  const restarts =
    (!isKept || isRefusedText(event)) && midStreamAfter(policy, row, state, event) === "restart"
  const named = Delays.isNamed(failure) ? failure.retryAfter : undefined
  const made = Log.failed(state.made, Log.ended(state.made, flight, event), target, {
    failure,
    class: policy.classOf(failure),
    now,
    elapsed: event.elapsed,
    counted: timeCounted(event),
    isReleased,
    notBefore: named === undefined ? undefined : now + Duration.toMillis(named)
  })
  const next: CallState = {
    call: state.call,
    made,
    answer: Answer.failed(answer, event, { structured: state.call.structured, restarts }),
    mended: { ...state.mended, overflowed: overflowedAt(state, target, failure, snapshot) },
    doing: choosing
  }
  const backAt = Delays.backAt(policy, row, next, target, failure, snapshot, draw)
  return { ...next, made: Log.setTries(made, target, { ...Log.triesAt(next, target), backAt }) }
}

/** The largest window that the conversation did not fit. A limit in bytes says nothing about windows. */
const overflowedAt = (
  { mended: { overflowed } }: CallState,
  target: TargetRef,
  { reason }: ProviderFailure,
  snapshot: Snapshot
): number | undefined => {
  if (reason._tag !== "ContextOverflow") return overflowed
  const info = Openings.viewOf(snapshot, target.id)?.info
  const window = reason.media === true ? undefined : (info?.contextWindow ?? reason.limit)
  return Math.max(window ?? 0, overflowed ?? 0)
}

// -----------------------------------------------------------------------------
// Deciding
// -----------------------------------------------------------------------------

/** Decides after a failure that is recorded, at first or after a remedy in vain. */
export const onFailure = (
  policy: Policy,
  state: CallState,
  event: Failed,
  here: TargetRef,
  snapshot: Snapshot,
  draw: number
): Step => {
  const { failure, commit } = event
  const row = rowOf(policy, failure)
  const lowered = withoutRaise(policy, state, event, here, snapshot)
  if (lowered !== undefined) return lowered
  const stops = row.then === "stop"
  if (stops && leavable(failure.reason).length === 0) return giveUp(state, failure, undefined)
  const leaving = cooldownFor(policy, row, event, here, snapshot)
  const late = hasNoTime(policy, state, snapshot)
  if (
    commit === "tool" ||
    (Answer.isSeen(state.answer) && midStreamAfter(policy, row, state, event) === "fail") ||
    mustEnd(policy, state) ||
    (late && !mayAskAnother(policy, state, event, snapshot)) ||
    // Stryker disable next-line ConditionalExpression: only faster; no number is at least `undefined`.
    (row.targets !== undefined && Log.failedTargets(state, policy.classOf(failure)) >= row.targets)
  ) {
    return giveUp(state, failure, leaving)
  }
  const mending = mend(policy, row, state, event, here, snapshot)
  if (mending !== undefined) return mending
  return stops
    ? giveUp(state, failure, undefined)
    : goOn(policy, row, state, event, here, leaving, snapshot, draw)
}

/** Repeats at the target, goes to another one, or waits. `leaving`: the cooldown to open when the call leaves. */
const goOn = (
  policy: Policy,
  row: Row,
  state: CallState,
  event: Failed,
  here: TargetRef,
  leaving: Cooldown | undefined,
  snapshot: Snapshot,
  draw: number
): Step => {
  const { failure } = event
  const { now } = snapshot
  const after = opened(snapshot, leaving)
  const wait = Delays.beforeRepeat(policy, row, state, here, failure, snapshot, draw)
  const repeat = isAffordable(state, snapshot, here, wait) ? wait : undefined
  // A wait that the server named holds for all calls, even when this call stays at the target.
  const notBefore = isNotBefore(row, failure) ? leaving : undefined

  const find = others(policy, row, state, event, here, leaving, snapshot)
  const { equivalents, rest } = candidates(policy, state, find, here)
  const equivalent = Openings.preferred(equivalents, state, snapshot, after)
  const other = equivalent ?? Openings.preferred(rest, state, snapshot, after)
  const delay = other === undefined ? 0 : Delays.beforeReturn(policy, row, state, other.ref, draw)
  if (other !== undefined && delay <= Math.max(0, timeLeft(policy, state, snapshot))) {
    const stays =
      repeat !== undefined &&
      // Stryker disable next-line OptionalChaining: for the types; there is a failure.
      (state.made.inARow?.count ?? 0) < (row.switchAfter ?? Infinity) &&
      // The call only looked whether the target is back.
      !Cool.isLookedAt(snapshot.cooldowns, here) &&
      (equivalent === undefined
        ? isPatient(policy, state, repeat)
        : preferredToEquivalent(policy, row, state, here, failure, repeat))
    return stays
      ? send(policy, state, here, repeat, notBefore, snapshot)
      : send(policy, state, other.ref, delay, leaving, snapshot)
  }
  const left = { ...snapshot, cooldowns: after }
  if (repeat !== undefined) {
    const isElsewhere = (target: Snapshot["targets"][number]): boolean =>
      target.ref.id !== here.id && Openings.mayGoTo(policy, state, target, snapshot)
    const soonest = Openings.soonest(policy, state, left, isElsewhere)
    if (soonest === undefined || now + repeat <= soonest.until) {
      return send(policy, state, here, repeat, notBefore, snapshot)
    }
  }
  // A server with another wire format may accept the request, but the call does not wait for one.
  if (row.to === "other-dialect") return giveUp(state, failure, leaving)
  // Fail with this failure instead of `AllTargetsOut` when the targets are not at fault, or when the retry budget
  // allows no further attempt.
  const isOurs = row.then === "grow" || row.to !== "next" || !mayRepeat(state, snapshot)
  const next = waitOrGiveUp(policy, state, left, leaving, draw)
  return isOurs && next[0]._tag === "GiveUp"
    ? giveUp(state, failure, row.then === "grow" ? undefined : leaving)
    : next
}

const opened = ({ cooldowns, now }: Snapshot, cooldown: Cooldown | undefined): Cooldowns =>
  cooldown === undefined ? cooldowns : Cool.open(cooldowns, cooldown, now)

/**
 * Searches the other targets that the call may go to now. For this call one failure is enough to prefer another target,
 * even without the proof that other calls need.
 */
const others = (
  policy: Policy,
  row: Row,
  state: CallState,
  event: Failed,
  here: TargetRef,
  leaving: Cooldown | undefined,
  snapshot: Snapshot
): Openings.Find => {
  const isLateCall = hasNoTime(policy, state, snapshot)
  const at = (cooldown: Cooldown | undefined): Openings.Find =>
    Openings.among(
      Openings.ready(policy, state, snapshot, opened(snapshot, cooldown)),
      (target) =>
        target.ref.id !== here.id &&
        Openings.matches(row.to, here, target, snapshot, event.failure) &&
        (!isLateCall || !Log.hasTried(state, target.ref)) &&
        isAffordable(state, snapshot, target.ref)
    )
  const proven = leaving ?? cooldownFor(policy, row, { ...event, isProven: true }, here, snapshot)
  const elsewhere = at(proven)
  return Openings.first(elsewhere) === undefined ? at(leaving) : elsewhere
}

/**
 * Returns the targets that the call can switch to: those of the same model, and all others. Targets that this call has
 * not asked come first. Otherwise short waits bring the call back to the same targets again and again, and it never
 * reaches the one that would answer. When `patience` is over, keys that failed this call no longer come before an
 * untried model.
 */
const candidates = (
  policy: Policy,
  state: CallState,
  others: Openings.Find,
  here: TargetRef
): { readonly equivalents: Openings.Find; readonly rest: Openings.Find } => {
  const sameModel = (find: Openings.Find) => Openings.among(find, ({ ref }) => ref.model === here.model)
  const unasked = Openings.among(others, ({ ref }) => !Log.hasTried(state, ref))
  if (Openings.first(unasked) === undefined) return { equivalents: sameModel(others), rest: others }
  const fresh = sameModel(unasked)
  const isFirst = !isPatient(policy, state) || Openings.first(fresh) !== undefined
  return { equivalents: isFirst ? fresh : sameModel(others), rest: unasked }
}

/** True when the call should repeat on this target although another key or endpoint of the same model is ready. */
const preferredToEquivalent = (
  policy: Policy,
  row: Row,
  state: CallState,
  here: TargetRef,
  failure: ProviderFailure,
  delay: number
): boolean => {
  const { count } = Log.triesAt(state, here)
  if (isNotBefore(row, failure)) {
    // Only once in a call: short waits at each of many limited keys would use up its attempts.
    if (state.made.switches > 0 || count > 1) return false
    // Compare the real wait. The backoff may be longer than the wait that the server named.
    return delay <= Backoff.lengthened(Duration.toMillis(policy.shortWait), policy.retryAfterJitter, 1)
  }
  return count <= row.repeatsBeforeEquivalent && delay <= Duration.toMillis(policy.patience)
}
