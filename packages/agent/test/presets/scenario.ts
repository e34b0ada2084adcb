/** Fixtures for the presets: scripted targets under a policy without jitter. */
import { Effect } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { Failover, RecoveryPolicy } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import type { Chain } from "../support.ts"

export const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

export const always = (fault: FaultPlan.Fault): FaultPlan.Step => ({ times: "always", fault })
export const reset: FaultPlan.Fault = { type: "reset" }

/** Keeps the second half of the last message's words. */
export const compact = (prompt: Prompt.Prompt) => {
  const words = textOf(prompt).split(" ")
  return Effect.succeed(Prompt.make(words.slice(words.length / 2).join(" ")))
}

/** A provider's model with these failures, which then answers hello. */
export const model = (
  provider: string,
  name: string,
  faults: ReadonlyArray<FaultPlan.Step>,
  options: Partial<ScriptedModel.Options> = {}
) =>
  ScriptedModel.make({
    provider,
    model: name,
    plan: { answers: [{ text: "hello" }], faults },
    ...options
  })

/** The chain under a preset's policy, without its jitter. */
export const over = <Class extends string>(
  policy: RecoveryPolicy.RecoveryPolicy<Class>,
  chain: Chain,
  options: Omit<Failover.Options<Class>, "policy"> = {}
) => Effect.provide(Failover.layer(chain, { ...options, policy: RecoveryPolicy.withoutJitter(policy) }))

export const times = (target: ScriptedModel.ScriptedModel) =>
  Effect.map(target.requests, (requests) => requests.map(({ time }) => time))

/** The last message of each request: the user's question, or a nudge. */
export const lastWords = (target: ScriptedModel.ScriptedModel) =>
  Effect.map(target.requests, (requests) => requests.map(({ prompt }) => textOf(prompt)))

const textOf = (prompt: Prompt.Prompt): string => {
  const content = prompt.content.at(-1)?.content ?? ""
  return typeof content === "string"
    ? content
    : content.map((part) => (part.type === "text" ? part.text : "")).join("")
}
