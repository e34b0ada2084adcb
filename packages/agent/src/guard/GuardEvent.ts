/** Events of a guard: plain data, with names of tools and files but no arguments, results or texts. */
import { Metric } from "effect"
import { EventDefinition } from "@outlast/resilience"
import type { BlockedCall } from "./BlockedCalls.ts"
import { maxTool } from "./BlockedCalls.ts"
import type { Pattern } from "./LoopDetector.ts"
import type { Extension } from "./Limits.ts"
import type { Counts, StopReason } from "./StopReason.ts"

export interface GuardStopped {
  readonly _tag: "GuardStopped"
  /** Unix time in milliseconds. */
  readonly at: number
  readonly reason: StopReason
  readonly limit: number | undefined
  readonly subject: string | undefined
  readonly counts: Counts
}

export interface GuardExtended {
  readonly _tag: "GuardExtended"
  readonly at: number
  readonly by: Extension
  /** Number of this extension of the guard, from 1. */
  readonly number: number
}

export interface GuardNudged {
  readonly _tag: "GuardNudged"
  readonly at: number
  /** The repeated tool; `undefined` for a text that repeats itself. */
  readonly tool: string | undefined
  readonly pattern: Pattern
  readonly count: number
}

export interface GuardBlocked {
  readonly _tag: "GuardBlocked"
  readonly at: number
  readonly tool: string
  /** The loop pattern, or `permission` when the host's hook refused the call. */
  readonly pattern: BlockedCall["pattern"]
  /** The text that the model read. The reason of a permission hook is left out, because it may quote arguments. */
  readonly message: string
}

export interface ToolSkipped {
  readonly _tag: "ToolSkipped"
  readonly at: number
  readonly tool: string
  readonly reason: string
}

export interface InboundDropped {
  readonly _tag: "InboundDropped"
  readonly at: number
  /** Number of dropped messages so far, including this one. */
  readonly number: number
}

export type GuardEvent =
  | GuardStopped
  | GuardExtended
  | GuardNudged
  | GuardBlocked
  | ToolSkipped
  | InboundDropped

/** Describes a blocked call in one line. The name comes from the model and may be long or contain line breaks. */
export const blockedText = ({ tool, pattern }: Pick<GuardBlocked, "tool" | "pattern">): string => {
  const name = tool.slice(0, maxTool).replaceAll(/\s+/g, " ")
  return pattern === "permission"
    ? `the tool call ${name} was refused by the permission hook`
    : `the tool call ${name} was blocked by the guard (${pattern})`
}

export const stops = Metric.counter("outlast_guard_stops_total", {
  description: "Runs that a guard stopped",
  incremental: true
})

export const blocked = Metric.counter("outlast_guard_blocked_total", {
  description: "Tool calls that a guard blocked, by pattern",
  incremental: true
})

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<GuardEvent> = {
  GuardStopped: {
    doc: "A run was stopped. Published once for each stop.",
    line: ({ reason, subject }) => ({
      level: "Warn",
      text: `✗ the guard stopped the run: ${reason}${subject === undefined ? "" : ` of ${subject}`}`
    }),
    metrics: [{ metric: stops, words: { reason: ({ reason }) => reason } }]
  },
  GuardExtended: {
    doc: "The host raised the limits.",
    line: EventDefinition.named(),
    metrics: []
  },
  GuardNudged: {
    doc: "The model gets a hint that it repeats itself.",
    line: EventDefinition.named(),
    metrics: []
  },
  GuardBlocked: {
    doc: "A tool call did not run; its result tells the model why. Published once for each call.",
    line: (event) => ({ level: "Warn", text: `✗ ${blockedText(event)}` }),
    metrics: [{ metric: blocked, words: { pattern: ({ pattern }) => pattern } }]
  },
  ToolSkipped: {
    doc: "A tool with unmet requirements was not offered.",
    line: EventDefinition.named(),
    metrics: []
  },
  InboundDropped: {
    doc: "An inbound message had neither text nor media, so no call was made.",
    line: EventDefinition.named(),
    metrics: []
  }
}
