/**
 * Gemini at Google's Gemini API. For Vertex AI use `AiSdk.model` with its own client package.
 *
 * The key is read from the configuration value `GOOGLE_GENERATIVE_AI_API_KEY` by default (many setups name it
 * `GEMINI_API_KEY`) and sent as `x-goog-api-key`.
 *
 * When a long decode of a Gemini 4 model pauses, the client continues it inside the attempt. This is the only case
 * in which an attempt sends more than one request.
 */
import type { GoogleLanguageModelOptions } from "@ai-sdk/google"
import { createGoogle } from "@ai-sdk/google"
import type { ProviderModel } from "@outlast/agent"
import * as OptionChecks from "./aisdk/OptionChecks.ts"
import * as Target from "./aisdk/Target.ts"
import type { VendorOptions } from "./aisdk/Vendor.ts"
import { fetched, keyed, namespaced } from "./aisdk/Vendor.ts"
import * as Dialects from "./aisdk/Dialects.ts"
import * as Endpoint from "./aisdk/Endpoint.ts"
import type { Provider } from "./Provider.ts"

export const defaults = {
  keys: ["GOOGLE_GENERATIVE_AI_API_KEY"],
  baseUrl: "https://generativelanguage.googleapis.com/v1beta"
} as const

/** `providerOptions` has, among others, `thinkingConfig` and `safetySettings`. */
export type Options = VendorOptions<GoogleLanguageModelOptions>

export const model = (modelId: string, options: Options = {}): ProviderModel.TargetSpec => {
  OptionChecks.forVendor("Google.model", modelId, options)
  const baseURL = Endpoint.base("Google.model", "baseUrl", options.baseUrl ?? defaults.baseUrl)
  const sending = fetched("Google.model", options)
  return Target.make(
    "Google.model",
    {
      ...options,
      provider: "google",
      model: modelId,
      endpoint: baseURL,
      keys: options.keys ?? defaults.keys,
      providerOptions: namespaced("Google.model", "google", options.providerOptions),
      create: (key) => createGoogle({ ...keyed(key, "x-goog-api-key"), baseURL, ...sending })(modelId)
    },
    { toolFiles: "result", wholeAnswers: "stream" },
    Dialects.google
  )
}

/** For `Registry`. */
export const registered: Provider = {
  provider: "google",
  name: "Google",
  constructors: [{ name: "Google.model", speaks: "Gemini" }],
  keys: defaults.keys,
  usual: { model: "gemini-2.5-pro", target: (modelId) => model(modelId) }
}
