/**
 * The targets whose API the strict fake server simulates.
 */
import type { ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi } from "@outlast/providers"
import type { FakeProvider, FaultPlan } from "@outlast/testing"
import { Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

export interface Case {
  readonly name: "anthropic" | "openai" | "responses" | "google"
  readonly target: (server: FakeProvider.FakeProvider) => ProviderModel.TargetSpec
}

export const cases: ReadonlyArray<Case> = [
  {
    name: "anthropic",
    target: (server) => Anthropic.model("claude-sonnet-4-5", { baseUrl: server.baseUrl("anthropic") })
  },
  {
    name: "openai",
    target: (server) => OpenAi.chatModel("gpt-4o", { baseUrl: server.baseUrl("openai") })
  },
  {
    name: "responses",
    target: (server) => OpenAi.model("gpt-5", { baseUrl: server.baseUrl("openai") })
  },
  {
    name: "google",
    target: (server) => Google.model("gemini-3-flash", { baseUrl: server.baseUrl("google") })
  }
]

export const Weather = Toolkit.make(
  Tool.make("weather", {
    description: "The weather in a city",
    parameters: Schema.Struct({ city: Schema.String }),
    success: Schema.String
  })
)
export const answers: FaultPlan.FaultPlan["answers"] = [{ text: "The meeting is on Tuesday at ten." }]
