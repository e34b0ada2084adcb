/**
 * Hedges: a second attempt of a call whose first token is late. Part of `CallState`. Pure.
 *
 * While both attempts are in flight, `doing` is the hedge, and its `late` is the attempt that it hedges. Each of them may
 * fail ({@link onFailure}) and leave the other one alone. The first content ends the race ({@link onOvertaken}).
 */
import { Duration } from "effect"
import { costOf } from "../../conversation/Answered.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { unknown } from "../../conversation/Usage.ts"
import { Timeout } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import { record } from "./AfterFailure.ts"
import { hasNoTime, isOver } from "./CallLimits.ts"
import * as Log from "./CallLog.ts"
import type { Event, Failed, Overtaken, Snapshot, TargetView } from "./CallModel.ts"
import * as Cool from "./Cooldown.ts"
import { cooldownFor } from "./NextCooldown.ts"
import * as Openings from "./Openings.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import { isHedged, rowOf } from "./RecoveryPolicy.ts"
import { giveUp } from "./CutAnswer.ts"
import * as Remedy from "./Remedy.ts"
import { send } from "./Sending.ts"
import type { CallState, Flight, Step } from "./State.ts"
import { attemptsOf } from "./State.ts"

type Policy = RecoveryPolicy<string>

/** A hedge, and the late attempt that it hedges. */
type Hedge = Flight & { readonly late: Flight }

/** Milliseconds without content after which the attempt in flight is late; `Infinity` when it is never hedged. */
export const lateAfter = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  { call, doing }: CallState,
  info: ModelInfo
): number => {
  const { hedge } = policy
  if (hedge === false || call.providerTools || doing._tag !== "Attempt" || doing.late !== undefined)
    return Infinity
  return isHedged(policy, info) ? Duration.toMillis(doing.looks ? hedge.afterLook : hedge.after) : Infinity
}

/** Sends a second attempt where another target is ready and all limits of the call allow one more. */
export const onLate = (
  policy: Policy,
  state: CallState,
  flight: Flight,
  { inputTokens, mayHedge }: Extract<Event, { readonly _tag: "Late" }>,
  snapshot: Snapshot
): Step => {
  const wait: Step = [{ _tag: "Await", cooldown: undefined }, state]
  const { now, cooldowns } = snapshot
  // A look costs few requests as it is, and a target that is out meanwhile would be left anyway.
  const isCounted = !flight.looks && Cool.outOf(cooldowns, flight.target, now) === undefined
  const isAllowed =
    flight.late === undefined &&
    flight.decides === undefined &&
    (mayHedge || !isCounted) &&
    attemptsOf(state) - state.made.sweeps < policy.maxAttempts &&
    !isOver(snapshot) &&
    !hasNoTime(policy, state, snapshot)
  if (!isAllowed) return wait
  const late = costOfInput(Openings.viewOf(snapshot, flight.target.id)?.info, inputTokens)
  const isMeant = (target: TargetView): boolean =>
    isElsewhere(target.ref, flight.target) &&
    // A failed target is asked again only as the row of its failure says.
    !Log.hasTried(state, target.ref) &&
    // No probe: an attempt that is aborted shows nothing.
    !Cool.isLookedAt(cooldowns, target.ref) &&
    Cool.outOf(cooldowns, target.ref, now) === undefined &&
    state.made.cost + late + costOfInput(target.info, inputTokens) < (policy.maxCost ?? Infinity) &&
    Openings.mayGoTo(policy, state, target, snapshot)
  const ready = Openings.among(Openings.ready(policy, state, snapshot), isMeant)
  const target = Openings.preferred(ready, state, snapshot)
  if (target === undefined) return wait
  const [action, next] = send(policy, state, target.ref, 0, undefined, snapshot)
  // The machine has just set the flight.
  const doing = { ...(next.doing as Flight), late: flight, inputTokens }
  return [
    { ...action, isFree: true, hedges: flight.target, isCounted },
    { ...next, doing }
  ]
}

const isElsewhere = (target: TargetRef, late: TargetRef): boolean =>
  target.model !== late.model || target.endpoint !== late.endpoint

/** US dollars for the prompt alone; 0 where the price is not known. */
export const costOfInput = (info: ModelInfo | undefined, inputTokens: number): number =>
  costOf(info?.price, { ...unknown, inputTokens: { ...unknown.inputTokens, total: inputTokens } }) ?? 0

/** A target refused the hedge: another one is asked, where there is one. */
export const onRefusal = (
  policy: Policy,
  state: CallState,
  { inputTokens = 0, late }: Hedge,
  snapshot: Snapshot
): Step =>
  onLate(policy, { ...state, doing: late }, late, { _tag: "Late", inputTokens, mayHedge: true }, snapshot)

/** The hedge was not sent: the late attempt goes on alone. */
export const notSent = (state: CallState, late: Flight): Step => [
  { _tag: "Await", cooldown: undefined },
  { ...state, doing: late }
]

/**
 * One of the two attempts has failed: the failure is recorded, and the call goes on with the other one. A failure that ends
 * the call, or that has a remedy, decides if the other attempt fails, too. No cooldown opens before its remedy is tried.
 */
export const onFailure = (
  policy: Policy,
  state: CallState,
  hedge: Hedge,
  event: Failed,
  snapshot: Snapshot,
  draw: number
): Step => {
  const [failed, other] = pair(hedge, event.isLate === true)
  const { target } = failed
  const recorded = record(policy, state, failed, event, snapshot, draw)
  if (isOver(snapshot)) return giveUp(recorded, event.failure, undefined)
  const row = rowOf(policy, event.failure)
  const isMendable = Remedy.mend(policy, row, recorded, event, target, snapshot) !== undefined
  const own = isMendable || row.then === "stop" ? { target, failed: event } : undefined
  const decides = own ?? failed.decides ?? other.decides
  const cooldown = isMendable ? undefined : cooldownFor(policy, row, event, target, snapshot)
  return [
    { _tag: "Await", cooldown },
    { ...recorded, doing: decides === undefined ? other : { ...other, decides } }
  ]
}

/**
 * One of the two attempts answers, and the other one is aborted. A late attempt has shown no failure. Its target is left
 * only when no other attempt there has sent content meanwhile (`isProven`).
 */
export const onOvertaken = (
  policy: Policy,
  state: CallState,
  hedge: Hedge,
  event: Overtaken,
  snapshot: Snapshot
): Step => {
  const [aborted, other] = pair(hedge, event.isLate)
  const { target } = aborted
  const failure = tooLate(target)
  const cooldown = event.isLate
    ? cooldownFor(
        policy,
        rowOf(policy, failure),
        { ...event, _tag: "Failed", failure, commit: "nothing" },
        target,
        snapshot
      )
    : undefined
  return [
    { _tag: "Await", cooldown },
    { ...state, made: Log.ended(state.made, aborted, event), doing: other }
  ]
}

/** The failure that stands for a target at which attempts are late. */
export const tooLate = (target: TargetRef): ProviderFailure =>
  local("limit/late", new Timeout({ phase: "first-token", local: true }), target)

/** The attempt that has ended, and the one that goes on. */
const pair = (hedge: Hedge, isLate: boolean): readonly [Flight, Flight] => {
  const { late, inputTokens: _, ...alone } = hedge
  return isLate ? [late, alone] : [alone, late]
}
