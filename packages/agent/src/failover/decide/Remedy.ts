/**
 * Remedies that let the same target succeed after a failure: a fresh key, parts left out, a lower output limit, a
 * compaction. Part of `CallState`. Pure.
 */
import { leavable } from "../../failure/reasons/Leavable.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { mayRepeat } from "./CallLimits.ts"
import type { Event, Failed, Snapshot } from "./CallModel.ts"
import type { CallState, Remedy, Step } from "./State.ts"
import { outputLimitAt } from "./State.ts"
import * as Openings from "./Openings.ts"
import * as OutputLimit from "./OutputLimit.ts"
import type { RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { atOnce, send } from "./Sending.ts"

type Policy = RecoveryPolicy<string>

/** The state with the remedy tried; `undefined` when the call has tried it at this target before. */
export const tried = (state: CallState, what: Remedy["what"], { id }: TargetRef): CallState | undefined => {
  const { tried } = state.mended
  return tried.some((remedy) => remedy.what === what && remedy.at === id)
    ? undefined
    : { ...state, mended: { ...state.mended, tried: [...tried, { what, at: id }] } }
}

/** Parts are left out. The call may leave out more of the same kind while some are `left`. */
export const leftOut = (
  state: CallState,
  here: TargetRef,
  { part, left = 0 }: Extract<Event, { readonly _tag: "LeftOut" }>
): CallState => {
  if (left === 0) return state
  const { mended } = state
  const others = mended.tried.filter(({ what, at }) => what !== part || at !== here.id)
  return { ...state, mended: { ...mended, tried: others } }
}

/** Returns a remedy, if the failure has one. */
export const mend = (
  policy: Policy,
  row: Row,
  state: CallState,
  failed: Failed,
  here: TargetRef,
  snapshot: Snapshot
): Step | undefined => {
  const { failure } = failed
  if (!mayRepeat(state, snapshot)) return undefined
  const mending = (next: CallState): CallState => ({ ...next, doing: { _tag: "Mend", target: here, failed } })
  const isKey = failure.reason._tag === "Auth" && Openings.viewOf(snapshot, here.id)?.renewable === true
  const renewing = isKey ? tried(state, "key", here) : undefined
  if (renewing !== undefined)
    return [{ _tag: "RenewKey", target: here, cooldown: undefined }, mending(renewing)]
  for (const part of leavable(failure.reason)) {
    const leaving = tried(state, part, here)
    if (leaving !== undefined)
      return [{ _tag: "LeaveOut", part, target: here, failure, cooldown: undefined }, mending(leaving)]
  }
  return row.then === "grow"
    ? (lowered(policy, state, failed, here, snapshot) ??
        compacted(policy, state, failed, here, snapshot, mending))
    : undefined
}

/** Repeats with an output limit that the model accepts, or that leaves room for the input. */
const lowered = (
  policy: Policy,
  state: CallState,
  { failure }: Failed,
  here: TargetRef,
  snapshot: Snapshot
): Step | undefined => {
  const { mended } = state
  const limit = OutputLimit.lowered(policy.outputRoom, failure) ?? Infinity
  // Stryker disable next-line ConditionalExpression: `true` is for the types; other reasons have no `output`.
  const counted = failure.reason._tag === "ContextOverflow" ? failure.reason.output : undefined
  if (limit >= (counted ?? outputLimitAt(state, here) ?? Infinity) || mended.lowered.has(here.model))
    return undefined
  const smaller: CallState = {
    ...state,
    mended: { ...mended, overflowed: undefined, lowered: new Map(mended.lowered).set(here.model, limit) }
  }
  const [{ nudge, rewind, isFree }, next] = send(policy, smaller, here, 0, undefined, snapshot)
  return [{ _tag: "LowerOutputLimit", ...atOnce(here), isFree, limit, rewind, nudge }, next]
}

const compacted = (
  policy: Policy,
  state: CallState,
  { failure }: Failed,
  here: TargetRef,
  { canCompact }: Snapshot,
  mending: (next: CallState) => CallState
): Step | undefined => {
  const { mended } = state
  const isAnew = policy.compactionsPer === "target" && mended.compactedAt !== here.id
  const compactions = isAnew ? 0 : mended.compactions
  if (failure.reason._tag !== "ContextOverflow" || !canCompact || compactions >= policy.maxCompactions)
    return undefined
  const next = { ...mended, compactions: compactions + 1, compactedAt: here.id }
  return [
    { _tag: "Compact", target: here, failure, cooldown: undefined },
    mending({ ...state, mended: next })
  ]
}
