/**
 * The actions that send an attempt, and the state behind them. Part of `CallState`. Pure.
 */
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { badCalls, badObjects } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as Nudge from "../../recovery/Nudge.ts"
import { isContinuing, isSeen } from "./AnswerSoFar.ts"
import { isFree } from "./CallLimits.ts"
import { isSweep } from "./CallLog.ts"
import type { Action, Sent, Snapshot } from "./CallModel.ts"
import type { CallState, Step } from "./State.ts"
import { wasCut } from "./State.ts"
import type { Cooldown } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"

type Policy = RecoveryPolicy<string>

/** An action that sends an attempt. */
export type Sending = Extract<Action, { readonly probe: boolean }>

export const isSending = (action: Action): action is Sending => "probe" in action

/** The state with an attempt in flight, or about to be sent. */
export const sent = (
  state: CallState,
  target: TargetRef,
  delay: number,
  { lastResort = false, looks = false }: { readonly lastResort?: boolean; readonly looks?: boolean } = {}
): CallState => ({
  ...state,
  doing: {
    _tag: "Attempt",
    target,
    delay,
    isReleased: state.doing._tag === "Queue",
    lastResort,
    looks,
    isSweep: isSweep(state, target)
  }
})

/** One more attempt at once where the call is. */
export const atOnce = (target: TargetRef): Sent => ({
  target,
  delay: 0,
  cooldown: undefined,
  probe: false,
  lastResort: false,
  isFree: false
})

/** Sends an attempt: a repeat, a switch, or a continuation of the answer so far. */
export const send = (
  policy: Policy,
  state: CallState,
  target: TargetRef,
  delay: number,
  cooldown: Cooldown | undefined,
  snapshot: Snapshot,
  lastResort = false
): readonly [Extract<Action, { readonly _tag: "Attempt" | "Switch" | "Continue" }>, CallState] => {
  const { answer, made } = state
  const { left: from, failure } = made
  const row = failure === undefined ? undefined : rowOf(policy, failure)
  const at = snapshot.now + delay
  const { cooldowns } = snapshot
  const looks = Cool.isLookedAt(cooldowns, target)
  const next = sent(state, target, delay, { lastResort, looks })
  const probe = Cool.outOf(cooldowns, target, at) !== undefined || looks
  const common: Sent = { target, delay, cooldown, probe, lastResort, isFree: isFree(state, target, at) }
  if (from === undefined) return [{ _tag: "Attempt", ...common, rewind: false, nudge: undefined }, next]
  const attempt = made.attempts + 1
  if (isContinuing(answer)) {
    // An answer that the limit cut has no failure.
    const cause = wasCut(state) ? undefined : failure
    const { cut, interrupted } = policy.nudges
    const asks = cause === undefined ? cut : (betterSample(policy, cause) ?? interrupted)
    const nudge = Nudge.textOf(asks, cause, attempt)
    return [
      { _tag: "Continue", from, failure: cause, ...common, rewind: false, nudge, raisedTo: undefined },
      next
    ]
  }
  // Text that is not continued is begun again.
  const rewind = isSeen(answer) && state.call.rewindable
  const asks = row?.nudge ?? (failure === undefined ? undefined : betterSample(policy, failure))
  const nudge = asks === undefined ? undefined : Nudge.textOf(asks, failure, attempt)
  return from.id === target.id || failure === undefined
    ? [{ _tag: "Attempt", ...common, rewind, nudge }, next]
    : [{ _tag: "Switch", from, failure, ...common, rewind, nudge }, next]
}

/** Sends an attempt at once that may pass the target's open circuit. */
export const sendAsLastResort = (
  policy: Policy,
  state: CallState,
  target: TargetRef,
  cooldown: Cooldown | undefined,
  snapshot: Snapshot
): Step => send(policy, state, target, 0, cooldown, snapshot, true)

/** The nudge that asks for a better sample, after a bad one. */
const betterSample = ({ nudges }: Policy, { evidence: { rule } }: ProviderFailure): Nudge.Nudge | undefined =>
  badCalls.has(rule) ? nudges.wrongCall : badObjects.has(rule) ? nudges.wrongObject : undefined
