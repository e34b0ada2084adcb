/** What a guard publishes: plain data, with names of tools and files but no arguments, results or texts. */
import { EventDefinition } from "@outlast/resilience"
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
  /** The how-manieth extension of this guard, from 1. */
  readonly number: number
}

export interface GuardNudged {
  readonly _tag: "GuardNudged"
  readonly at: number
  /** `undefined` for a text that repeats itself. */
  readonly tool: string | undefined
  readonly pattern: Pattern
  readonly count: number
}

export interface GuardBlocked {
  readonly _tag: "GuardBlocked"
  readonly at: number
  readonly tool: string
  /** `permission`: the host's hook refused it. */
  readonly pattern: Pattern | "permission"
  /** The text that the model read. A permission hook may repeat arguments: its reason is left out. */
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
  /** Of those dropped, from 1. */
  readonly number: number
}

export type GuardEvent =
  | GuardStopped
  | GuardExtended
  | GuardNudged
  | GuardBlocked
  | ToolSkipped
  | InboundDropped

/** Describes a call that was not run, in one line. The name is the model's: it may be of any length, in several lines. */
export const blockedText = ({ tool, pattern }: Pick<GuardBlocked, "tool" | "pattern">): string => {
  const name = tool.slice(0, maxTool).replaceAll(/\s+/g, " ")
  return pattern === "permission"
    ? `the tool call ${name} was refused by the permission hook`
    : `the tool call ${name} was blocked by the guard (${pattern})`
}

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<GuardEvent> = {
  GuardStopped: {
    doc: "A run was stopped; once for each.",
    line: ({ reason, subject }) => ({
      level: "Warn",
      text: `✗ the guard stopped the run: ${reason}${subject === undefined ? "" : ` of ${subject}`}`
    }),
    metrics: []
  },
  GuardExtended: {
    doc: "The host gave a run more than its limits.",
    line: EventDefinition.named(),
    metrics: []
  },
  GuardNudged: {
    doc: "The model is told that it goes round in circles.",
    line: EventDefinition.named(),
    metrics: []
  },
  GuardBlocked: {
    doc: "A tool call was not run; the model reads why. One event for each call.",
    line: (event) => ({ level: "Warn", text: `✗ ${blockedText(event)}` }),
    metrics: []
  },
  ToolSkipped: {
    doc: "A tool whose needs are not met was not offered.",
    line: EventDefinition.named(),
    metrics: []
  },
  InboundDropped: {
    doc: "Something came in with neither text nor media, and no call was made for it.",
    line: EventDefinition.named(),
    metrics: []
  }
}
