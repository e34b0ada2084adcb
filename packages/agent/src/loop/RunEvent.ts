/**
 * Events of a run: what its interpreter reports to `RunState.step`. Each has a Schema and only the delta of its turn.
 *
 * Times, token counts, costs and models are in the events, so that a replay decides the same. Results stand in the
 * order of the calls, whatever the order in which they ended.
 */
import { Schema } from "effect"
import { Prompt, Response } from "effect/ai"
import { BlockedCall } from "../guard/BlockedCalls.ts"
import * as LoopDetector from "../guard/LoopDetector.ts"
import { Tripped } from "../guard/StopReason.ts"
import { AllTargetsOut } from "../failure/reasons/CallFailure.ts"
import { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import { CannotFit, ContextExhausted } from "../compaction/CompactionError.ts"
import { Memory } from "../compaction/Memory.ts"
import { RunSettings } from "./RunSettings.ts"

/** Tokens. A count that the provider did not report is 0. */
export const Usage = Schema.Struct({
  inputTokens: Schema.Finite,
  cachedInputTokens: Schema.Finite,
  outputTokens: Schema.Finite
})
export type Usage = typeof Usage.Type

/** Milliseconds that the action took: all of them, and the active ones. Absent: 0. */
export const took = { elapsed: Schema.optional(Schema.Finite), active: Schema.optional(Schema.Finite) }

/** Actions of the recovery during a call. Absent fields: not used. */
export const CallNotes = Schema.Struct({
  /** The output limit was raised to this, in tokens. */
  raisedTo: Schema.optional(Schema.Finite),
  /** Number of continuations of a cut answer. */
  continued: Schema.optional(Schema.Finite),
  /** True when the continuations ended because they added too little. */
  diminished: Schema.optional(Schema.Boolean),
  /** Images and files that were replaced with a note. */
  mediaDropped: Schema.optional(Schema.Finite)
})
export type CallNotes = typeof CallNotes.Type

/** Usage of sub-agents. */
export const Spent = Schema.Struct({
  runs: Schema.Finite,
  turns: Schema.Finite,
  toolCalls: Schema.Finite,
  events: Schema.Finite,
  tokens: Schema.Finite,
  costUsd: Schema.Finite
})
export type Spent = typeof Spent.Type

export const nothingSpent: Spent = { runs: 0, turns: 0, toolCalls: 0, events: 0, tokens: 0, costUsd: 0 }

/** Replaces `remove` messages from index `at` of the conversation before the event. */
export const Edit = Schema.Struct({
  at: Schema.Finite,
  remove: Schema.Finite,
  messages: Schema.Array(Prompt.Message)
})
export type Edit = typeof Edit.Type

/** The result of one call. */
export const CallResult = Schema.Struct({
  part: Prompt.ToolResultPart,
  /** For the loop detector. Absent for a call that did not run, and without a detector. */
  evidence: Schema.optional(LoopDetector.Evidence),
  /** The call was blocked by a guard around the run. */
  blocked: Schema.optional(BlockedCall.mapFields(({ pattern, message }) => ({ pattern, message }))),
  /** Usage of the sub-agents that the call ran. */
  spent: Schema.optional(Spent)
})
export type CallResult = typeof CallResult.Type

export const Started = Schema.TaggedStruct("Started", {
  settings: RunSettings,
  messages: Schema.Array(Prompt.Message),
  /** The run may not begin: a limit of the run that it belongs to. */
  refused: Schema.optional(Tripped)
})

export const Fitted = Schema.TaggedStruct("Fitted", {
  /** Replacements that the compaction made. Empty: the conversation fits unchanged. */
  edits: Schema.Array(Edit),
  /** True when a tier was used. */
  compacted: Schema.Boolean,
  /** True when it used a summary that was prepared in the background. */
  prepared: Schema.optional(Schema.Boolean),
  /** Usage of the summaries. */
  summaries: Schema.Struct({
    calls: Schema.Finite,
    tokens: Schema.Finite,
    costUsd: Schema.UndefinedOr(Schema.Finite)
  }),
  memory: Schema.optional(Memory),
  ...took
})

export const FitFailed = Schema.TaggedStruct("FitFailed", {
  reason: Schema.Union([CannotFit, ContextExhausted]),
  memory: Schema.optional(Memory),
  ...took
})

/** The target that answered. */
export const AnsweredBy = Schema.Struct({
  target: Schema.String,
  provider: Schema.String,
  model: Schema.String
})
export type AnsweredBy = typeof AnsweredBy.Type

/** The raised output limit of a run, and the target that accepted it. */
export const RaisedLimit = Schema.Struct({ limit: Schema.Finite, target: Schema.String })
export type RaisedLimit = typeof RaisedLimit.Type

/** A tool call of an answer, in the order of the calls in its messages. */
export const AnsweredCall = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  /** True when the call needs approval. */
  approval: Schema.optional(Schema.Boolean),
  /** Annotations of the tool. */
  hints: Schema.optional(
    Schema.Struct({
      readOnlyHint: Schema.optional(Schema.Boolean),
      idempotentHint: Schema.optional(Schema.Boolean),
      destructiveHint: Schema.optional(Schema.Boolean)
    })
  )
})
export type AnsweredCall = typeof AnsweredCall.Type

export const Answered = Schema.TaggedStruct("Answered", {
  /** The answer, as messages. */
  messages: Schema.Array(Prompt.Message),
  finish: Response.FinishReason,
  /** Calls that the run executes, in order. */
  calls: Schema.Array(AnsweredCall),
  usage: Usage,
  costUsd: Schema.optional(Schema.Finite),
  /** Absent for a model that is not Outlast's. */
  by: Schema.optional(AnsweredBy),
  raised: Schema.optional(RaisedLimit),
  notes: Schema.optional(CallNotes),
  /** Facts that compaction learned from the answer. */
  memory: Schema.optional(Memory),
  ...took
})

export const AskFailed = Schema.TaggedStruct("AskFailed", {
  reason: Schema.Union([ProviderFailure, AllTargetsOut]),
  /** True when the call can be repeated with a smaller conversation: nothing was shown, and the chain did not compact. */
  mayShrink: Schema.Boolean,
  /** The part of the answer that the consumer has seen, unless it was refused. */
  partial: Schema.optional(Schema.Array(Prompt.Message)),
  notes: Schema.optional(CallNotes),
  ...took
})

export const Approved = Schema.TaggedStruct("Approved", {
  /** One decision for each call that `AskApproval` named, in its order. */
  decisions: Schema.Array(Schema.Boolean),
  ...took
})

export const ToolsFinished = Schema.TaggedStruct("ToolsFinished", {
  /** One for each call of the turn, blocked ones included, in the order of the calls. */
  results: Schema.Array(CallResult),
  ...took
})

/** Results so far, in the order of the calls; `null` for a call without one. */
const soFar = Schema.optional(Schema.Array(Schema.NullOr(Prompt.ToolResultPart)))

export const ToolFailed = Schema.TaggedStruct("ToolFailed", {
  /** The tool whose failure ends the run; absent for a defect outside of the tools. */
  tool: Schema.optional(Schema.String),
  results: soFar,
  ...took
})

/** Reply of a hook. The model reads the message of `block`. */
export const HookReply = Schema.Union([
  Schema.TaggedStruct("Continue", {}),
  Schema.TaggedStruct("Block", { message: Schema.String }),
  Schema.TaggedStruct("Stop", { message: Schema.String })
])
export type HookReply = typeof HookReply.Type

export const HookReplied = Schema.TaggedStruct("HookReplied", {
  /** One reply for each call that `AskHook` named, in its order; exactly one for `beforeStop`. */
  replies: Schema.Array(HookReply),
  ...took
})

export const Stopped = Schema.TaggedStruct("Stopped", {
  /** Absent when a guard around the run stopped it. */
  tripped: Schema.optional(Tripped),
  results: soFar,
  ...took
})

export const Interrupted = Schema.TaggedStruct("Interrupted", {
  /** The part of the answer that the consumer has seen. */
  partial: Schema.optional(Schema.Array(Prompt.Message)),
  results: soFar,
  ...took
})

export const RunEvent = Schema.Union([
  Started,
  Fitted,
  FitFailed,
  Answered,
  AskFailed,
  Approved,
  ToolsFinished,
  ToolFailed,
  HookReplied,
  Stopped,
  Interrupted
])
export type RunEvent = typeof RunEvent.Type

/** The event of a tag. */
export type Of<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>
