/**
 * Events about the targets of a chain, no matter which call causes them: plain data, without keys.
 */
import { Metric } from "effect"
import type { Warnings } from "@outlast/resilience"
import { EventDefinition } from "@outlast/resilience"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Scope } from "../decide/PolicyModel.ts"

export interface CooldownOpened {
  readonly _tag: "CooldownOpened"
  readonly at: number
  readonly scope: Scope
  readonly target: TargetRef
  readonly reason: ReasonTag
  /** Milliseconds; `undefined`: until it is reset. */
  readonly length: number | undefined
}

export interface TargetDead {
  readonly _tag: "TargetDead"
  readonly at: number
  readonly target: TargetRef
  readonly message: string
}

export type TargetEvent = CooldownOpened | TargetDead

export const cooldowns = Metric.counter("outlast_cooldowns_total", {
  description: "Cooldowns that were opened",
  incremental: true
})

/** Log line of a cooldown that begins here or comes from the store. */
export const outLine = ({
  scope,
  target,
  length,
  reason
}: Pick<CooldownOpened, "scope" | "target" | "length" | "reason">): Warnings.Line => ({
  level: "Info",
  text: `  ${scope} of ${target.id} is out${
    length === undefined ? " until it is reset" : ` for ${EventDefinition.seconds(length)}`
  }`,
  detail: `: ${reason}`
})

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<TargetEvent> = {
  CooldownOpened: {
    doc: "A key, a model or an endpoint is not chosen for a while.",
    line: outLine,
    metrics: [{ metric: cooldowns, words: { scope: ({ scope }) => scope, reason: ({ reason }) => reason } }]
  },
  TargetDead: {
    doc: "A target could not be built and is never chosen.",
    line: ({ message }) => ({ level: "Warn", text: `✗ ${message}` }),
    metrics: []
  }
}
