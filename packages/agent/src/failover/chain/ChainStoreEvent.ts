/**
 * Events of a chain about the store of its cooldowns: plain data, without keys.
 */
import { EventDefinition } from "@outlast/resilience"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Scope } from "../decide/RecoveryPolicy.ts"
import { outLine } from "./TargetEvent.ts"

interface At {
  /** Unix time in milliseconds. */
  readonly at: number
}

export interface ChainStoreDown extends At {
  readonly _tag: "ChainStoreDown"
  /** The operation and the store's error message, without secrets. */
  readonly error: string
}

export interface ChainStoreUp extends At {
  readonly _tag: "ChainStoreUp"
}

export interface CooldownLearned extends At {
  readonly _tag: "CooldownLearned"
  readonly scope: Scope
  /** One of the targets that the cooldown covers. */
  readonly target: TargetRef
  readonly reason: ReasonTag
  /** Milliseconds that remain. `undefined`: until it is reset. */
  readonly length: number | undefined
}

export interface CooldownLifted extends At {
  readonly _tag: "CooldownLifted"
  readonly scope: Scope
  readonly target: TargetRef
}

export interface ChainRecordIgnored extends At {
  readonly _tag: "ChainRecordIgnored"
  /** Id of the record, cut to 200 characters. */
  readonly record: string
  /** `broken`: the value cannot be read. `newer`: a later version of this package wrote it. */
  readonly reason: "broken" | "newer"
}

export type ChainStoreEvent =
  | ChainStoreDown
  | ChainStoreUp
  | CooldownLearned
  | CooldownLifted
  | ChainRecordIgnored

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<ChainStoreEvent> = {
  ChainStoreDown: {
    doc: "The store of cooldowns cannot be asked: this process goes by what it knows. One event for each outage.",
    line: EventDefinition.named("Warn"),
    metrics: []
  },
  ChainStoreUp: {
    doc: "The store of cooldowns is reached again, and knows what this process knows.",
    line: EventDefinition.named(),
    metrics: []
  },
  CooldownLearned: {
    doc: "A cooldown that another process opened, or this one before it was restarted, holds here too.",
    line: outLine,
    metrics: []
  },
  CooldownLifted: {
    doc: "A cooldown was ended by another process: by a success or by an operator.",
    line: ({ scope, target }) => ({ level: "Info", text: `  ${scope} of ${target.id} is back` }),
    metrics: []
  },
  ChainRecordIgnored: {
    doc: "Something in the store cannot be read and is left alone. Published once for each value.",
    line: EventDefinition.named(),
    metrics: []
  }
}
