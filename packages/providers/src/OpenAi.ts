/**
 * OpenAI's models: `model` at the Responses API, `chatModel` at Chat Completions.
 *
 * Responses is the default. Chat Completions loses the reasoning between turns, and refuses tools together
 * with reasoning from GPT-5.4 on. OpenAI stores no conversation: reasoning travels encrypted in the
 * conversation, so that a later turn may use another organisation or endpoint.
 *
 * The key is read from the configuration value `OPENAI_API_KEY` by default and sent as `authorization`.
 */
import type { OpenAILanguageModelChatOptions, OpenAILanguageModelResponsesOptions } from "@ai-sdk/openai"
import { createOpenAI } from "@ai-sdk/openai"
import type { ProviderModel } from "@outlast/agent"
import * as OptionChecks from "./aisdk/OptionChecks.ts"
import * as Target from "./aisdk/Target.ts"
import type { VendorOptions } from "./aisdk/Vendor.ts"
import { fetched, keyed, namespaced } from "./aisdk/Vendor.ts"
import * as Dialects from "./aisdk/Dialects.ts"
import * as Endpoint from "./aisdk/Endpoint.ts"
import * as Secrets from "./aisdk/Secrets.ts"
import * as Wiring from "./aisdk/Wiring.ts"
import type { Provider } from "./Provider.ts"

export const defaults = {
  keys: ["OPENAI_API_KEY"],
  baseUrl: "https://api.openai.com/v1",
  /** Responses API: OpenAI stores no answer, and sends the reasoning encrypted instead. */
  store: false
} as const

export type Options = VendorOptions<OpenAILanguageModelResponsesOptions>
export type ChatOptions = VendorOptions<OpenAILanguageModelChatOptions>

export const model = (modelId: string, options: Options = {}): ProviderModel.TargetSpec => {
  OptionChecks.forVendor("OpenAi.model", modelId, options)
  const { common, client, wiring } = setup("OpenAi.model", modelId, options)
  const providerOptions = { store: defaults.store, ...options.providerOptions }
  const spec = Target.make(
    "OpenAi.model",
    {
      ...common,
      providerOptions: namespaced("OpenAi.model", "openai", providerOptions),
      create: (key) => client(key).responses(modelId)
    },
    { toolFiles: "result", strictSchemas: "openai", wholeAnswers: "stream" },
    Dialects.responses
  )
  return Wiring.wired(spec, { ...wiring, wires: wiresOf(wiring, "responses") })
}

export const chatModel = (modelId: string, options: ChatOptions = {}): ProviderModel.TargetSpec => {
  OptionChecks.forVendor("OpenAi.chatModel", modelId, options)
  const { common, client, wiring } = setup("OpenAi.chatModel", modelId, options)
  const spec = Target.make(
    "OpenAi.chatModel",
    {
      ...common,
      providerOptions: namespaced("OpenAi.chatModel", "openai", options.providerOptions),
      create: (key) => client(key).chat(modelId)
    },
    { toolFiles: "user-message", strictSchemas: "openai", wholeAnswers: "stream" },
    Dialects.chat
  )
  return Wiring.wired(spec, { ...wiring, wires: wiresOf(wiring, "chat") })
}

/** OpenAI speaks both formats. For another server, only the format of the constructor is known. */
const wiresOf = ({ baseUrl }: Pick<Wiring.Wiring, "baseUrl">, own: Wiring.WireName) =>
  baseUrl === defaults.baseUrl ? (["chat", "responses"] as const) : [own]

const setup = (module: string, modelId: string, options: VendorOptions<object>) => {
  const baseURL = Endpoint.base(module, "baseUrl", options.baseUrl ?? defaults.baseUrl)
  const sending = fetched(module, options)
  return {
    common: {
      ...options,
      provider: "openai",
      model: modelId,
      endpoint: baseURL,
      keys: options.keys ?? defaults.keys
    },
    client: (key: string | undefined) =>
      createOpenAI({ ...keyed(key, "Authorization"), baseURL, ...sending }),
    wiring: {
      baseUrl: baseURL,
      headers: Secrets.headersOf(module, options.headers ?? {}),
      keyed: Wiring.bearer,
      streamUsage: true,
      fetch: options.fetch
    }
  }
}

/** For `Registry`. */
export const registered: Provider = {
  provider: "openai",
  name: "OpenAI",
  constructors: [
    { name: "OpenAi.model", speaks: "OpenAI Responses, nothing stored" },
    { name: "OpenAi.chatModel", speaks: "OpenAI Chat Completions" }
  ],
  keys: defaults.keys,
  usual: { model: "gpt-5.1", target: (modelId) => model(modelId) }
}
