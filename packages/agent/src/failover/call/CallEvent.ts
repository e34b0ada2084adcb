/**
 * What happens to calls: plain data, without keys and prompts. `FailoverEvent` says when each is published.
 *
 * Durations are milliseconds.
 */
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Doubt } from "../../recovery/Seam.ts"

interface OfCall {
  /** Unix time in milliseconds. */
  readonly at: number
  /** Counts the calls of one layer from 1. */
  readonly call: number
  /** The attempt that the event is about, from 1; 0 before the first. */
  readonly attempt: number
}

/** A request is sent: nothing keeps it away any more. One for each attempt. */
export interface AttemptStarted extends OfCall {
  readonly _tag: "AttemptStarted"
  readonly target: TargetRef
  /** How long the call waited on our side since its last attempt, or since it began. */
  readonly waited: number
  /** The failure that made another attempt necessary; `undefined` for the first, and behind a cut answer. */
  readonly after: ReasonTag | undefined
}

/** A request is sent to another target. */
export interface TargetSwitched extends OfCall {
  readonly _tag: "TargetSwitched"
  readonly from: TargetRef
  readonly target: TargetRef
  readonly reason: ReasonTag
}

/** A partial answer, already shown, is sent on to be continued. */
export interface AnswerContinued extends OfCall {
  readonly _tag: "AnswerContinued"
  readonly from: TargetRef
  readonly target: TargetRef
  /** `undefined`: the output limit cut the answer. */
  readonly reason: ReasonTag | undefined
  /** The output limit is raised to this, in tokens; `undefined`: it stays. */
  readonly limit: number | undefined
}

/** The call is repeated with room for a longer answer, in tokens. */
export interface OutputLimitRaised extends OfCall {
  readonly _tag: "OutputLimitRaised"
  readonly target: TargetRef
  readonly limit: number
}

/** The call is repeated with an output limit, in tokens, that the model takes or that leaves room for the conversation. */
export interface OutputLimitLowered extends OfCall {
  readonly _tag: "OutputLimitLowered"
  readonly target: TargetRef
  readonly limit: number
}

/** The conversation did not fit `target` and is made shorter. */
export interface CallCompacting extends OfCall {
  readonly _tag: "CallCompacting"
  readonly target: TargetRef
}

/** Images and files that the model of `target` refused are sent as a note, in this call and in later ones. */
export interface MediaDropped extends OfCall {
  readonly _tag: "MediaDropped"
  readonly target: TargetRef
  /** How many. */
  readonly dropped: number
}

/** The key of `target` was refused and is asked for anew. */
export interface KeyRenewing extends OfCall {
  readonly _tag: "KeyRenewing"
  readonly target: TargetRef
}

/** An answer that the output limit cut is delivered as it is. */
export interface CutAnswerDelivered extends OfCall {
  readonly _tag: "CutAnswerDelivered"
}

/** Another model answers than before. One for each change, whichever call finds it. */
export interface ModelChanged extends OfCall {
  readonly _tag: "ModelChanged"
  readonly from: TargetRef
  readonly target: TargetRef
  /** `undefined`: the first model of the chain is back. */
  readonly reason: ReasonTag | undefined
  /** What the user is told: `RecoveryPolicy.notices`. */
  readonly message: string
}

/** What a continuation repeated of the answer, or remarked before it, was taken out. */
export interface SeamRepaired extends OfCall {
  readonly _tag: "SeamRepaired"
  readonly target: TargetRef
  /** Characters. */
  readonly removed: number
}

/** A continuation may begin with a repetition or a remark that could not be proved: all of it was kept. */
export interface SeamUnsure extends OfCall {
  readonly _tag: "SeamUnsure"
  readonly target: TargetRef
  /** Characters that may be too many. */
  readonly kept: number
  readonly doubt: Doubt
}

/**
 * Why a call waits on our side:
 *
 * - `backoff`: before it asks the same target again, as the policy or the server says
 * - `cooldown`: all targets are out, until the first is back
 * - `circuit`: until a circuit lets a probe through
 * - `limit`: for its turn within limits that are known
 * - `health`: for the health check of a target, or until it is asked again
 * - `key`: for a key that is refreshed
 */
export type WaitReason = "backoff" | "cooldown" | "circuit" | "limit" | "health" | "key"

interface OfWait extends OfCall {
  readonly reason: WaitReason
  /** The target that is to be asked behind it. */
  readonly target: TargetRef
}

/** The call waits on our side. A check or a refresh that ends at once is no wait. */
export interface CallWaiting extends OfWait {
  readonly _tag: "CallWaiting"
  /** How long, as far as that is known. */
  readonly delay: number | undefined
  /** The circuit, the kind of limit (`requests`), or the key that it waits for. */
  readonly by: string | undefined
}

/** The wait that `CallWaiting` told of is over, also where the call was interrupted. */
export interface CallWaited extends OfWait {
  readonly _tag: "CallWaited"
  readonly elapsed: number
}

export interface CallGaveUp extends OfCall {
  readonly _tag: "CallGaveUp"
  readonly reason: ReasonTag | "AllTargetsOut"
  /** The failure's own message: what happened and what to do. */
  readonly message: string
}

/** The program was interrupted, or stopped reading, before the call had ended. */
export interface CallAbandoned extends OfCall {
  readonly _tag: "CallAbandoned"
}

export interface AttemptFailed extends OfCall {
  readonly _tag: "AttemptFailed"
  readonly target: TargetRef
  readonly reason: ReasonTag
  /** The classifier's rule that decided. */
  readonly rule: string
  readonly status: number | undefined
  readonly retryAfter: number | undefined
  readonly elapsed: number
}

/** The call is answered: `attempt` is how many attempts it took. */
export interface CallSucceeded extends OfCall {
  readonly _tag: "CallSucceeded"
  readonly target: TargetRef
  /** Of the last attempt. */
  readonly elapsed: number
  /** How long the whole call waited on our side. */
  readonly waited: number
  /** The reason of its first failure, if it had one: the call has recovered from it. */
  readonly recoveredFrom: ReasonTag | undefined
  readonly costUsd: number | undefined
  /** Tokens of the last attempt, as far as the provider named them. */
  readonly inputTokens: number | undefined
  readonly outputTokens: number | undefined
}

export type CallEvent =
  | AttemptStarted
  | TargetSwitched
  | AnswerContinued
  | OutputLimitRaised
  | OutputLimitLowered
  | CallCompacting
  | MediaDropped
  | KeyRenewing
  | CutAnswerDelivered
  | ModelChanged
  | SeamRepaired
  | SeamUnsure
  | CallWaiting
  | CallWaited
  | CallGaveUp
  | CallAbandoned
  | AttemptFailed
  | CallSucceeded
