/**
 * What happens to calls and targets: this package's part of the resilience events.
 *
 * Every action of `CallState` leaves exactly one of `AttemptStarted`, `TargetSwitched`, `AnswerContinued`,
 * `OutputLimitRaised`, `OutputLimitLowered`, `CallCompacting`, `KeyRenewing`, `CallWaiting`, `CutAnswerDelivered` and
 * `CallGaveUp`. Durations are milliseconds. No event has a key or a prompt in it.
 */
import type { ReasonTag } from "../failure/FailoverReason.ts"
import type { TargetRef } from "../failure/TargetRef.ts"
import type { Doubt } from "../recovery/Seam.ts"
import type { ChainStoreEvent } from "./ChainStoreEvent.ts"
import type { KeyEvent } from "./KeyEvent.ts"
import type { Scope } from "./RecoveryPolicy.ts"

interface OfCall {
  /** Unix time in milliseconds. */
  readonly at: number
  /** Counts the calls of one layer from 1. */
  readonly call: number
  /** The attempt that the event is about, from 1; 0 before the first. */
  readonly attempt: number
}

/** A request is sent after `delay`, unless another call finds meanwhile that the target is out. */
export interface AttemptStarted extends OfCall {
  readonly _tag: "AttemptStarted"
  readonly target: TargetRef
  readonly delay: number
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
  readonly delay: number
  /** `undefined`: the output limit cut the answer. */
  readonly reason: ReasonTag | undefined
}

/** The call is repeated with room for a longer answer, in tokens. */
export interface OutputLimitRaised extends OfCall {
  readonly _tag: "OutputLimitRaised"
  readonly target: TargetRef
  readonly limit: number
}

/** The call is repeated with an output limit, in tokens, that leaves room for the conversation. */
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

/** All targets are out; the call sleeps. */
export interface CallWaiting extends OfCall {
  readonly _tag: "CallWaiting"
  readonly delay: number
}

export interface CallGaveUp extends OfCall {
  readonly _tag: "CallGaveUp"
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

export interface CallSucceeded extends OfCall {
  readonly _tag: "CallSucceeded"
  readonly target: TargetRef
  readonly elapsed: number
  readonly costUsd: number | undefined
}

export interface CooldownOpened {
  readonly _tag: "CooldownOpened"
  readonly at: number
  readonly scope: Scope
  readonly target: TargetRef
  readonly reason: ReasonTag
  /** `undefined`: until it is reset. */
  readonly length: number | undefined
}

/** A target could not be built and is never chosen. */
export interface TargetDead {
  readonly _tag: "TargetDead"
  readonly at: number
  readonly target: TargetRef
  readonly message: string
}

export type FailoverEvent =
  | ChainStoreEvent
  | KeyEvent
  | AttemptStarted
  | TargetSwitched
  | AnswerContinued
  | OutputLimitRaised
  | OutputLimitLowered
  | CallCompacting
  | KeyRenewing
  | CutAnswerDelivered
  | ModelChanged
  | SeamRepaired
  | SeamUnsure
  | CallWaiting
  | CallGaveUp
  | CallAbandoned
  | AttemptFailed
  | CallSucceeded
  | CooldownOpened
  | TargetDead
