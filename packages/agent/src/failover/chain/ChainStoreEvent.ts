/** What a chain publishes about the store of its cooldowns: plain data, without keys. */
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Scope } from "../decide/RecoveryPolicy.ts"

interface At {
  /** Unix time in milliseconds. */
  readonly at: number
}

/** The store cannot be asked: this process goes by what it knows. One event for each outage. */
export interface ChainStoreDown extends At {
  readonly _tag: "ChainStoreDown"
  /** What was done and what the store said, without secrets. */
  readonly error: string
}

/** The store is reached again, and knows what this process knows. */
export interface ChainStoreUp extends At {
  readonly _tag: "ChainStoreUp"
}

/** A cooldown that another process opened, or this one before it was restarted, holds here too. */
export interface CooldownLearned extends At {
  readonly _tag: "CooldownLearned"
  readonly scope: Scope
  /** One of the targets that it covers. */
  readonly target: TargetRef
  readonly reason: ReasonTag
  /** What is left of it in milliseconds. `undefined`: until it is reset. */
  readonly length: number | undefined
}

/** A cooldown was ended by another process: by a success or by an operator. */
export interface CooldownLifted extends At {
  readonly _tag: "CooldownLifted"
  readonly scope: Scope
  readonly target: TargetRef
}

/** Something in the store cannot be read and is left alone. Published once for each value. */
export interface ChainRecordIgnored extends At {
  readonly _tag: "ChainRecordIgnored"
  /** Its id, cut to 200 characters. */
  readonly record: string
  /** `newer`: a later version of this package wrote it. */
  readonly reason: "broken" | "newer"
}

export type ChainStoreEvent =
  | ChainStoreDown
  | ChainStoreUp
  | CooldownLearned
  | CooldownLifted
  | ChainRecordIgnored
