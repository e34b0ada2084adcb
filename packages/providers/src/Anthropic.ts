/**
 * Claude at Anthropic's Messages API, or at any server that speaks it.
 *
 * The key is read from the configuration value `ANTHROPIC_API_KEY` by default and sent as `x-api-key`.
 *
 * **Example** (Two keys of one model)
 *
 * ```ts
 * Anthropic.model("claude-sonnet-4-5", { keys: ["ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY_2"] })
 * ```
 */
import type { AnthropicLanguageModelOptions } from "@ai-sdk/anthropic"
import { createAnthropic } from "@ai-sdk/anthropic"
import type { ProviderModel } from "@outlast/agent"
import * as OptionChecks from "./aisdk/OptionChecks.ts"
import * as Target from "./aisdk/Target.ts"
import { thinkingOff } from "./aisdk/Thinking.ts"
import type { VendorOptions } from "./aisdk/Vendor.ts"
import { fetched, keyed, namespaced } from "./aisdk/Vendor.ts"
import * as Dialects from "./aisdk/Dialects.ts"
import * as Endpoint from "./aisdk/Endpoint.ts"
import * as Secrets from "./aisdk/Secrets.ts"
import * as Wiring from "./aisdk/Wiring.ts"
import type { Provider } from "./Provider.ts"

export const defaults = {
  keys: ["ANTHROPIC_API_KEY"],
  baseUrl: "https://api.anthropic.com/v1"
} as const

/** `providerOptions` has, among others, `thinking`, `effort` and `cacheControl`. */
export type Options = VendorOptions<AnthropicLanguageModelOptions>

export const model = (modelId: string, options: Options = {}): ProviderModel.TargetSpec => {
  OptionChecks.forVendor("Anthropic.model", modelId, options)
  const baseURL = Endpoint.base("Anthropic.model", "baseUrl", options.baseUrl ?? defaults.baseUrl)
  const sending = fetched("Anthropic.model", options)
  const spec = Target.make(
    "Anthropic.model",
    {
      ...options,
      provider: "anthropic",
      model: modelId,
      endpoint: baseURL,
      keys: options.keys ?? defaults.keys,
      providerOptions: namespaced("Anthropic.model", "anthropic", options.providerOptions),
      create: (key) => createAnthropic({ ...keyed(key, "x-api-key"), baseURL, ...sending })(modelId)
    },
    { toolFiles: "result", fit: thinkingOff, wholeAnswers: "stream" },
    Dialects.anthropic
  )
  return Wiring.wired(spec, {
    wires: ["messages"],
    baseUrl: baseURL,
    headers: Secrets.headersOf("Anthropic.model", options.headers ?? {}),
    keyed: Wiring.apiKey,
    streamUsage: false,
    fetch: options.fetch
  })
}

/** For `Registry`. */
export const registered: Provider = {
  provider: "anthropic",
  name: "Anthropic",
  constructors: [{ name: "Anthropic.model", speaks: "Anthropic Messages" }],
  keys: defaults.keys,
  usual: { model: "claude-sonnet-4-5", target: (modelId) => model(modelId) }
}
