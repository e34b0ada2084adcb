/**
 * What happens to calls and targets: this package's part of the resilience events.
 *
 * Every action of `CallState` leaves exactly one of `AttemptStarted`, `TargetSwitched`, `AnswerContinued`,
 * `CallWaiting` and `CallGaveUp`. Durations are milliseconds. No event has a key or a prompt in it.
 */
import type { ReasonTag } from "../failure/FailoverReason.ts"
import type { TargetRef } from "../failure/TargetRef.ts"
import type { Doubt } from "../recovery/Seam.ts"
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
  readonly reason: ReasonTag
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
  | AttemptStarted
  | TargetSwitched
  | AnswerContinued
  | SeamRepaired
  | SeamUnsure
  | CallWaiting
  | CallGaveUp
  | CallAbandoned
  | AttemptFailed
  | CallSucceeded
  | CooldownOpened
  | TargetDead
