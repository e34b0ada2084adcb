/**
 * A model of the AI SDK is a model for `AiSdk.model`, without a cast. The clients here are of version 4; the
 * types of version 3 are in none of the dependencies.
 */
import type { AnthropicProvider } from "@ai-sdk/anthropic"
import type { GoogleProvider } from "@ai-sdk/google"
import type { OpenAICompatibleProvider } from "@ai-sdk/openai-compatible"
import type { OpenAIProvider } from "@ai-sdk/openai"
import type { AiSdk } from "@outlast/providers"

type Fits<Model extends AiSdk.SpecModel> = Model

export type Anthropic = Fits<ReturnType<AnthropicProvider>>
export type Google = Fits<ReturnType<GoogleProvider>>
export type OpenAiResponses = Fits<ReturnType<OpenAIProvider["responses"]>>
export type OpenAiChat = Fits<ReturnType<OpenAIProvider["chat"]>>
export type Compatible = Fits<ReturnType<OpenAICompatibleProvider["chatModel"]>>

interface Older extends Omit<ReturnType<AnthropicProvider>, "specificationVersion"> {
  readonly specificationVersion: "v2"
}
// @ts-expect-error version 2 had other parts
export type Version2 = Fits<Older>
