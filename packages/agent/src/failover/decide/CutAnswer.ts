/**
 * Decides about an answer that the output limit cut: repeat it with a raised limit, continue it, or deliver it as it
 * is. Part of `CallState`. Pure.
 *
 * `Truncation` chooses the step. This module has the conditions and the consequences. {@link giveUp} ends a call with
 * the text of a cut answer, if there is one.
 */
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import { Format } from "../../failure/reasons/FailoverReason.ts"
import { cutObject, local } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as Nudge from "../../recovery/Nudge.ts"
import { climb } from "../../recovery/Truncation.ts"
import { isAffordable, isOver, mustEnd } from "./CallLimits.ts"
import type { CallState, Cut, Failed, Snapshot, Step } from "./CallModel.ts"
import * as Choice from "./Choice.ts"
import type { Cooldown } from "./Cooldown.ts"
import { midStreamOf } from "./MidStream.ts"
import * as OutputLimit from "./OutputLimit.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import { atOnce, sent } from "./Sending.ts"

type Policy = RecoveryPolicy<string>

/** Records an answer that the output limit cut, and decides the next step. */
export const onCut = (policy: Policy, before: CallState, event: Cut, snapshot: Snapshot): Step => {
  const { ledger } = before
  const isContinuation = before.rungs.continuations > 0
  const state: CallState = {
    ...before,
    left: before.target,
    cut: true,
    hasText: before.hasText || event.hasText,
    raise: undefined,
    seen: before.seen || event.commit === "text",
    inARow: undefined,
    ledger: { ...ledger, cost: ledger.cost + event.cost, tokens: ledger.tokens + event.tokens },
    rungs: {
      ...before.rungs,
      gains: isContinuation ? [...before.rungs.gains, event.gain] : before.rungs.gains
    }
  }
  return goOn(policy, state, event, snapshot)
}

/** Takes the step that `Truncation` chooses. */
const goOn = (policy: Policy, state: CallState, event: Cut, snapshot: Snapshot): Step => {
  const { target: here, ledger } = state
  if (
    here === undefined ||
    // Stryker disable next-line ConditionalExpression,BooleanLiteral: for the types; a rule without numbers stops.
    policy.truncation === false ||
    event.commit === "tool" ||
    isOver(snapshot) ||
    mustEnd(policy, state)
  ) {
    return deliver(state)
  }
  const rung = climb(policy.truncation, state.rungs, {
    limit: event.limit,
    ceiling: ceilingOf(policy, state, event, here, snapshot),
    // A limit that the provider lowered cannot be raised again.
    mayRaise: !state.lowered.has(here.model),
    mayRepeat:
      state.rungs.continuations === 0 &&
      !state.seen &&
      isAffordable({ ...state, partial: false }, snapshot, undefined),
    mayContinue:
      !state.call.structured &&
      (!state.seen || midStreamOf(policy, undefined, state) !== "fail") &&
      // The user's own maximum cut the answer.
      (event.limit ?? 0) < state.call.outputLimit.max
  })
  if (rung._tag === "Stop") return deliver(state)
  const { limit } = rung
  const { raises, continuations } = state.rungs
  const raised: CallState =
    limit === undefined
      ? state
      : {
          ...state,
          outputLimit: limit,
          raise: { from: event.limit ?? limit, cut: event },
          rungs: { ...state.rungs, raises: raises + 1 }
        }
  if (rung._tag === "Raise") {
    const next = sent({ ...raised, anew: true }, here, 0)
    return [{ _tag: "RaiseOutputLimit", ...atOnce(here), limit: rung.limit }, next]
  }
  const nudge = event.inToolCall ? policy.nudges.cutInToolCall : policy.nudges.cut
  const rungs = { ...raised.rungs, continuations: continuations + 1 }
  return [
    {
      _tag: "Continue",
      ...atOnce(here),
      from: here,
      failure: undefined,
      isFree: true,
      rewind: false,
      nudge: Nudge.textOf(nudge, undefined, ledger.attempts + 1),
      raisedTo: limit
    },
    sent({ ...raised, partial: true, rungs }, here, 0)
  ]
}

/**
 * Continues the cut answer when the provider refuses the raised limit. The continuation uses the limit before the
 * raise, or a higher one that the provider names. Returns `undefined` for any other failure. Also returns `undefined`
 * when a repeat at the named limit is better: an object, or an answer without text, cannot be continued.
 */
export const withoutRaise = (
  policy: Policy,
  state: CallState,
  { failure, commit }: Failed,
  here: TargetRef,
  snapshot: Snapshot
): Step | undefined => {
  const { raise, rungs, call } = state
  // A repeat that has streamed text has made the cut answer void.
  if (raise === undefined || !state.cut || commit === "tool" || !OutputLimit.mayRefuse(failure)) {
    return undefined
  }
  const named = OutputLimit.lowered(failure)
  if (call.structured || (!state.hasText && (named ?? 0) > raise.from)) return undefined
  const limit = Math.max(raise.from, named ?? 0)
  const refused = state.anew ? 0 : 1
  const before: CallState = {
    ...state,
    anew: false,
    raise: undefined,
    inARow: undefined,
    outputLimit: limit,
    lowered: new Map(state.lowered).set(here.model, limit),
    // The refused continuation added nothing, so it does not count.
    rungs: { ...rungs, continuations: rungs.continuations - refused }
  }
  return goOn(policy, before, raise.cut, snapshot)
}

/** Returns the highest output limit that the user, the model, its window and the cost limit allow. */
const ceilingOf = (
  { maxCost = Infinity }: Policy,
  { call, ledger }: CallState,
  { input }: Cut,
  here: TargetRef,
  snapshot: Snapshot
): number => {
  const room = OutputLimit.room(Choice.viewOf(snapshot, here.id)?.info ?? {}, input, maxCost - ledger.cost)
  return Math.min(call.outputLimit.max, room)
}

/** Ends the call without a complete answer. Delivers the text of a cut answer if there is one. */
export const giveUp = (state: CallState, failure: CallFailure, cooldown: Cooldown | undefined): Step => [
  state.hasText && !state.call.structured
    ? { _tag: "Deliver", cooldown }
    : { _tag: "GiveUp", failure, cooldown },
  { ...state, phase: "done" }
]

const deliver = (state: CallState): Step =>
  state.call.structured
    ? giveUp(state, local(cutObject, new Format({ side: "response" }), state.target), undefined)
    : [
        { _tag: "Deliver", cooldown: undefined },
        { ...state, phase: "done" }
      ]
