/**
 * Report of a compaction, as plain data. Contains no text of the conversation except tool names and call ids.
 */
import { Schema } from "effect"
import type { Tier } from "./CompactionPolicy.ts"
import type { Spent } from "./Summariser.ts"

/** A removed or shortened part of the conversation. */
export interface Dropped {
  /** `message`: removed whole. The others name the part that a remaining message lost. */
  readonly what: "message" | "result" | "arguments" | "thinking"
  /** Index of the message in the original conversation, from 0. */
  readonly at: number
  readonly role: "system" | "user" | "assistant" | "tool"
  /** Name of the tool, for a result or arguments. */
  readonly tool?: string
  /** Id of the call, for a result or arguments. */
  readonly call?: string
  /** Characters removed from a result or arguments, counted from the original text of the tool. */
  readonly characters?: number
  /** Id in the store. */
  readonly recall?: string
}

/** Outcome of one tier. */
export const Tried = Schema.Struct({
  tier: Schema.Literals(["cap", "strip", "chunks", "half", "plain"]),
  /** `enough`: reached `downTo`. `too_little`: did not. `failed`: failed or had nothing to work on. */
  outcome: Schema.Literals(["enough", "too_little", "failed"]),
  /** Size after the tier, in tokens. */
  tokens: Schema.optionalKey(Schema.Finite),
  /** Reason of a failure. */
  why: Schema.optionalKey(Schema.String)
})
export type Tried = typeof Tried.Type

export interface Report {
  /** The tier whose result was used; `none` when the conversation already fitted. */
  readonly tier: Tier | "none"
  readonly tokensBefore: number
  readonly tokensAfter: number
  /** All in tokens: window of the model, maximum size of the conversation, target size of a compaction. */
  readonly window: number
  readonly limit: number
  readonly downTo: number
  /** How the limit was computed, e.g. `90 % of the window of 200,000`. */
  readonly arithmetic: string
  readonly dropped: ReadonlyArray<Dropped>
  readonly tried: ReadonlyArray<Tried>
  /** Calls, tokens and cost of the summaries. */
  readonly summaries: Spent
}

/** Numbers of the tiers: 0 none, 1 cap and strip, 2 chunks, 3 half, 4 plain. */
export const numberOf: Readonly<Record<Tier | "none", 0 | 1 | 2 | 3 | 4>> = {
  none: 0,
  cap: 1,
  strip: 1,
  chunks: 2,
  half: 3,
  plain: 4
}

/** A part that cannot be cut, and its size. */
export const Uncuttable = Schema.Struct({
  what: Schema.Literals(["system", "pinned", "goal", "tail", "tools"]),
  tokens: Schema.Finite
})
export type Uncuttable = typeof Uncuttable.Type
