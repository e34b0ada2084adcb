import { Failover } from "@outlast/agent"
import { Anthropic, toAiSdk } from "@outlast/providers"
import type { LanguageModel } from "ai"
import { Context, Effect, Layer, ManagedRuntime } from "effect"

const layer = Failover.layer([Anthropic.model("claude-sonnet-4-5")])

// Models for the package `ai`, from a layer or from a runtime with further services.
export const models: ReadonlyArray<LanguageModel> = [
  toAiSdk(layer),
  toAiSdk(ManagedRuntime.make(layer)),
  toAiSdk(layer, { provider: "mine", modelId: "writer" })
]

class Missing extends Context.Service<Missing, string>()("Missing") {}
const needs = Layer.unwrap(Effect.as(Missing, layer))

// @ts-expect-error: the layer needs a service that is not provided
toAiSdk(needs)

// @ts-expect-error: a layer without a model
toAiSdk(Layer.empty)

export const provided = toAiSdk(Layer.provide(needs, Layer.succeed(Missing, "here")))
