import { Agent } from "@outlast/agent"
import type { AgentFailed, Outcome } from "@outlast/agent"
import { Schema } from "effect"
import type { Effect } from "effect"
import { Tool, Toolkit } from "effect/ai"
import type { LanguageModel, McpClient, McpClientError } from "effect/ai"

const Kit = Toolkit.make(Tool.make("look", { success: Schema.String }))

// The handlers of a toolkit are a requirement of the run.
export const plain: Effect.Effect<
  Outcome.Outcome,
  AgentFailed.AgentFailed,
  LanguageModel.LanguageModel | Tool.Handler<"look">
> = Agent.run({ prompt: "x", toolkit: Kit })

// Without a toolkit, and with one that has its handlers, only the model is.
export const alone: Effect.Effect<Outcome.Outcome, AgentFailed.AgentFailed, LanguageModel.LanguageModel> =
  Agent.run({ prompt: "x" })

declare const remote: Effect.Success<ReturnType<typeof McpClient.toolkit>>

export const bound: Effect.Effect<
  Outcome.Outcome,
  AgentFailed.AgentFailed | McpClientError.McpClientError,
  LanguageModel.LanguageModel
> = Agent.run({ prompt: "x", toolkit: remote })

// @ts-expect-error: the handlers of the toolkit are not provided
export const missing: typeof alone = Agent.run({ prompt: "x", toolkit: Kit })
