/**
 * Actions of a run: what `RunState.step` asks its interpreter to do next. Each has a Schema.
 *
 * An action names no messages: the conversation is `RunTranscript`, a second fold of the same events. Calls are named
 * by their position among the calls of the last answer.
 */
import { Schema } from "effect"
import { Response } from "effect/ai"
import { BlockedCall } from "../guard/BlockedCalls.ts"
import { Tripped } from "../guard/StopReason.ts"
import { AllTargetsOut } from "../failure/reasons/CallFailure.ts"
import { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import { Reason } from "./AgentFailed.ts"
import { Spent, Usage } from "./RunEvent.ts"
import { HookPoint, RunLimits } from "./RunSettings.ts"

/** What happens to one call of a turn. */
export const Verdict = Schema.Union([
  Schema.TaggedStruct("Run", {}),
  /** The interpreter asks for approval when it runs the call. */
  Schema.TaggedStruct("Approve", {}),
  /** The call does not run. The model reads the message. */
  Schema.TaggedStruct("Block", {
    /** The type of the error result. */
    type: Schema.Literals(["execution-interrupted", "execution-denied"]),
    message: Schema.String,
    /** Absent for a call of a cut answer, and for a call that was not approved. */
    pattern: Schema.optional(BlockedCall.fields.pattern)
  })
])
export type Verdict = typeof Verdict.Type

/** Makes the conversation fit. The reply is `Fitted` or `FitFailed`. */
export const Fit = Schema.TaggedStruct("Fit", {
  /** `before` a call, or after a provider `refused` the conversation as too long. */
  cause: Schema.Literals(["before", "refused"]),
  /** The rejection. */
  reason: Schema.optional(Schema.Union([ProviderFailure, AllTargetsOut]))
})

/** Asks the model. The reply is `Answered` or `AskFailed`. */
export const Ask = Schema.TaggedStruct("Ask", {
  /** Hints for this call only. They do not become part of the conversation. */
  nudges: Schema.Array(Schema.String)
})

/** Runs the calls of the last answer. The reply is `ToolsFinished` or `ToolFailed`. */
export const RunTools = Schema.TaggedStruct("RunTools", {
  /** One for each call, in the order of the calls. */
  verdicts: Schema.Array(Verdict),
  /** What sub-agents of one call may use, at most. Absent: the run has no limits. */
  share: Schema.optional(RunLimits)
})

/** Asks for approval and suspends the run. The reply is `Approved`. */
export const AskApproval = Schema.TaggedStruct("AskApproval", { calls: Schema.Array(Schema.Finite) })

/** Asks a hook. The reply is `HookReplied`. */
export const AskHook = Schema.TaggedStruct("AskHook", {
  point: HookPoint,
  /** Positions of the calls. Empty for `beforeStop`. */
  calls: Schema.Array(Schema.Finite)
})

/** One target's part of a run. */
export const ModelShare = Schema.Struct({
  /** The id of the target; `"unknown"` for a model that did not come through Outlast. */
  target: Schema.String,
  turns: Schema.Finite,
  /** The share of the run's turns, from 0 to 1. */
  share: Schema.Finite,
  usage: Usage,
  /** US dollars; absent if the price is unknown. */
  costUsd: Schema.UndefinedOr(Schema.Finite)
})
export type ModelShare = typeof ModelShare.Type

/** Number of compactions of a run, and the usage of their summaries. */
export const Compactions = Schema.Struct({
  times: Schema.Finite,
  summaries: Schema.Struct({
    calls: Schema.Finite,
    tokens: Schema.Finite,
    costUsd: Schema.UndefinedOr(Schema.Finite)
  })
})
export type Compactions = typeof Compactions.Type

/** The reason why a guard or a hook ended the run. */
export const Stop = Schema.Struct({
  /** A reason of a guard; `hook` when a hook stopped the run. */
  reason: Schema.Union([Tripped.fields.reason, Schema.Literal("hook")]),
  limit: Schema.optional(Schema.Finite),
  /** The tool, the file or the time whose limit was reached. */
  subject: Schema.optional(Schema.String),
  message: Schema.String
})
export type Stop = typeof Stop.Type

/** The end of a run, without its text and its conversation. */
export const Ending = Schema.Struct({
  /**
   * - `completed`: the model ended by itself
   * - `cut`: the last answer is incomplete (`finishReason` says why)
   * - `refused`: the provider rejected the content, over a model that is not Outlast's; over Outlast's models the
   *   run fails instead
   * - `turn_limit`, `cost_limit`, `guard_stopped`: a limit of the run ended it
   * - `hook_stopped`: a hook ended the run
   * - `cancelled`: the run was cancelled
   * - `suspended`: calls wait for approval (`pending` names them)
   */
  status: Schema.Literals([
    "completed",
    "cut",
    "refused",
    "turn_limit",
    "cost_limit",
    "guard_stopped",
    "hook_stopped",
    "cancelled",
    "suspended"
  ]),
  /** Finish reason of the last answer; `length` is a cut answer. */
  finishReason: Response.FinishReason,
  turns: Schema.Finite,
  toolCalls: Schema.Finite,
  /** Number of tool calls that a guard or a hook blocked. */
  blockedCalls: Schema.Finite,
  /** Each target's part, in the order in which the targets first answered. */
  models: Schema.Array(ModelShare),
  /** Number of turns that another model answered than the turn before. */
  modelSwitches: Schema.Finite,
  /** Number of calls whose output limit was raised, and of continuations of cut answers. */
  outputRaises: Schema.Finite,
  continuations: Schema.Finite,
  /** Images and files that were replaced with a note. */
  mediaDropped: Schema.Finite,
  /** Usage of all turns, without summaries and sub-agents. */
  usage: Usage,
  compactions: Compactions,
  /** Usage of sub-agents. They have their own outcome. */
  subagents: Spent,
  /** US dollars of all turns and summaries with a known price; absent if no price is known. */
  costUsd: Schema.UndefinedOr(Schema.Finite),
  stop: Schema.optional(Stop)
})
export type Ending = typeof Ending.Type

export const Finish = Schema.TaggedStruct("Finish", { ending: Ending })

/** The run failed. `reason` is absent for a failure or a defect of a tool, which keeps its own type. */
export const Fail = Schema.TaggedStruct("Fail", { turn: Schema.Finite, reason: Schema.optional(Reason) })

export const RunAction = Schema.Union([Fit, Ask, RunTools, AskApproval, AskHook, Finish, Fail])
export type RunAction = typeof RunAction.Type

/** The action of a tag. */
export type Of<Tag extends RunAction["_tag"]> = Extract<RunAction, { readonly _tag: Tag }>
