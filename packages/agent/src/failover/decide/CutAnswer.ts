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
import type { CutAnswer } from "./AnswerSoFar.ts"
import * as Answer from "./AnswerSoFar.ts"
import { isOver, mustEnd } from "./CallLimits.ts"
import type { Cut, Failed, Snapshot } from "./CallModel.ts"
import type { CallState, Changes, Flight, Step } from "./State.ts"
import { choosing } from "./State.ts"
import * as Log from "./CallLog.ts"
import type { Cooldown } from "./Cooldown.ts"
import { midStreamOf } from "./MidStream.ts"
import * as Openings from "./Openings.ts"
import * as OutputLimit from "./OutputLimit.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import { atOnce, sent } from "./Sending.ts"

type Policy = RecoveryPolicy<string>

/** A call whose last answer was cut. */
type Cutting = CallState & { readonly answer: CutAnswer }

/** Records an answer that the output limit cut, and decides the next step. */
export const onCut = (
  policy: Policy,
  { call, made, answer, mended }: CallState,
  flight: Flight,
  event: Cut,
  snapshot: Snapshot
): Step => {
  const { target } = flight
  const { rungs } = mended
  const gains = rungs.continuations > 0 ? [...rungs.gains, event.gain] : rungs.gains
  const state: Cutting = {
    call,
    made: { ...Log.ended(made, flight, event), inARow: undefined },
    answer: Answer.cut(answer, event),
    mended: { ...mended, rungs: { ...rungs, gains } },
    doing: choosing
  }
  return goOn(policy, state, event, target, snapshot)
}

/** Takes the step that `Truncation` chooses. */
const goOn = (policy: Policy, state: Cutting, event: Cut, here: TargetRef, snapshot: Snapshot): Step => {
  const { answer, call, made, mended } = state
  if (
    // Stryker disable next-line ConditionalExpression,BooleanLiteral: for the types; a rule without numbers stops.
    policy.truncation === false ||
    event.commit === "tool" ||
    isOver(snapshot) ||
    mustEnd(policy, state)
  ) {
    return deliver(state, here)
  }
  const { rungs } = mended
  const rung = climb(policy.truncation, rungs, {
    limit: event.limit,
    ceiling: ceilingOf(policy, state, event, here, snapshot),
    // A limit that the provider lowered cannot be raised again.
    mayRaise: !mended.lowered.has(here.model),
    mayRepeat: rungs.continuations === 0 && !answer.seen && snapshot.mayRetry,
    mayContinue:
      !call.structured &&
      (!answer.seen || midStreamOf(policy, undefined, state) !== "fail") &&
      // The user's own maximum cut the answer.
      (event.limit ?? 0) < call.outputLimit.max
  })
  if (rung._tag === "Stop") return deliver(state, here)
  const { limit } = rung
  const raised: Changes =
    limit === undefined
      ? mended
      : { ...mended, outputLimit: limit, rungs: { ...rungs, raises: rungs.raises + 1 } }
  const raise = limit === undefined ? answer.raise : { from: event.limit ?? limit, cut: event }
  if (rung._tag === "Raise") {
    const next: CallState = { ...state, mended: raised, answer: { ...answer, raise, anew: true } }
    return [{ _tag: "RaiseOutputLimit", ...atOnce(here), limit: rung.limit }, sent(next, here, 0)]
  }
  const nudge = event.inToolCall ? policy.nudges.cutInToolCall : policy.nudges.cut
  const next: CallState = {
    ...state,
    answer: { ...answer, raise, continued: true },
    mended: { ...raised, rungs: { ...raised.rungs, continuations: rungs.continuations + 1 } }
  }
  return [
    {
      _tag: "Continue",
      ...atOnce(here),
      from: here,
      failure: undefined,
      isFree: true,
      rewind: false,
      nudge: Nudge.textOf(nudge, undefined, made.attempts + 1),
      raisedTo: limit
    },
    sent(next, here, 0)
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
  const { answer, call, made, mended } = state
  // A repeat that has streamed text has made the cut answer void.
  if (answer.raise === undefined) return undefined
  if (commit === "tool" || !OutputLimit.mayRefuse(failure)) return undefined
  const { from, cut } = answer.raise
  const named = OutputLimit.lowered(policy.outputRoom, failure)
  if (call.structured || (!answer.hasText && (named ?? 0) > from)) return undefined
  const limit = Math.max(from, named ?? 0)
  const { rungs } = mended
  // The refused continuation added nothing, so it does not count.
  const continuations = rungs.continuations - (answer.anew ? 0 : 1)
  const before: Cutting = {
    ...state,
    made: { ...made, inARow: undefined },
    answer: { ...answer, anew: false, raise: undefined },
    mended: {
      ...mended,
      outputLimit: limit,
      lowered: new Map(mended.lowered).set(here.model, limit),
      rungs: { ...rungs, continuations }
    }
  }
  return goOn(policy, before, cut, here, snapshot)
}

/** Returns the highest output limit that the user, the model, its window and the cost limit allow. */
const ceilingOf = (
  { maxCost = Infinity }: Policy,
  { call, made }: CallState,
  { input }: Cut,
  here: TargetRef,
  snapshot: Snapshot
): number => {
  const info = Openings.viewOf(snapshot, here.id)?.info ?? {}
  return Math.min(call.outputLimit.max, OutputLimit.room(info, input, maxCost - made.cost))
}

/** Ends the call without a complete answer. Delivers the text of a cut answer if there is one. */
export const giveUp = (state: CallState, failure: CallFailure, cooldown: Cooldown | undefined): Step => [
  state.answer.hasText && !state.call.structured
    ? { _tag: "Deliver", cooldown }
    : { _tag: "GiveUp", failure, cooldown },
  done(state)
]

const deliver = (state: CallState, here: TargetRef): Step =>
  state.call.structured
    ? giveUp(state, local(cutObject, new Format({ side: "response" }), here), undefined)
    : [{ _tag: "Deliver", cooldown: undefined }, done(state)]

const done = (state: CallState): CallState => ({ ...state, doing: { _tag: "Done" } })
