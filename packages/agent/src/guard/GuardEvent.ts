/** What a guard publishes: plain data, with names of tools and files but no arguments, results or texts. */
import type { Pattern } from "./LoopDetector.ts"
import type { Extension } from "./Limits.ts"
import type { Counts, StopReason } from "./StopReason.ts"

/** A run was stopped; once for each. */
export interface GuardStopped {
  readonly _tag: "GuardStopped"
  /** Unix time in milliseconds. */
  readonly at: number
  readonly reason: StopReason
  readonly limit: number | undefined
  readonly subject: string | undefined
  readonly counts: Counts
}

/** The host gave more. */
export interface GuardExtended {
  readonly _tag: "GuardExtended"
  readonly at: number
  readonly by: Extension
  /** The how-manieth extension of this guard, from 1. */
  readonly number: number
}

/** The model is told that it goes round in circles. */
export interface GuardNudged {
  readonly _tag: "GuardNudged"
  readonly at: number
  /** `undefined` for a text that repeats itself. */
  readonly tool: string | undefined
  readonly pattern: Pattern
  readonly count: number
}

/** A call was not run, and the model is told why; once for each call. */
export interface GuardBlocked {
  readonly _tag: "GuardBlocked"
  readonly at: number
  readonly tool: string
  /** `permission`: the host's hook refused it. */
  readonly pattern: Pattern | "permission"
  /** What was seen. The words of a permission hook are not in it: they may have arguments. */
  readonly message: string
}

/** A tool whose needs are not met was not offered. */
export interface ToolSkipped {
  readonly _tag: "ToolSkipped"
  readonly at: number
  readonly tool: string
  readonly reason: string
}

/** Something came in with neither text nor media, and no call was made for it. */
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

/** What happened to a call that was not run, in words. */
export const blockedText = ({ tool, pattern }: Pick<GuardBlocked, "tool" | "pattern">): string =>
  pattern === "permission"
    ? `the tool call ${tool} was refused by the permission hook`
    : `the tool call ${tool} was blocked by the guard (${pattern})`
