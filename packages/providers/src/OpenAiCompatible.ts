/**
 * Models behind any server that speaks OpenAI's Chat Completions: vLLM, Ollama, LM Studio, DeepSeek, Groq,
 * OpenRouter, gateways.
 *
 * Without `keys`, no key is sent. A key is sent as `authorization`.
 *
 * **Example** (A local model)
 *
 * ```ts
 * OpenAiCompatible.model({ name: "ollama", baseUrl: "http://localhost:11434/v1", model: "qwen3:8b" })
 * ```
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import type { ProviderModel } from "@outlast/agent"
import { Options as Check } from "@outlast/resilience"
import type { Schema } from "effect"
import * as OptionChecks from "./aisdk/OptionChecks.ts"
import * as Target from "./aisdk/Target.ts"
import type { VendorOptions } from "./aisdk/Vendor.ts"
import { fetched, namespaced, sendable } from "./aisdk/Vendor.ts"
import * as Dialects from "./aisdk/Dialects.ts"
import * as Endpoint from "./aisdk/Endpoint.ts"
import * as Secrets from "./aisdk/Secrets.ts"
import * as Wiring from "./aisdk/Wiring.ts"
import type { Provider } from "./Provider.ts"

export const defaults = {
  /** True when the server accepts a JSON Schema for its answer. */
  structuredOutputs: true,
  /** True when the request asks the server for the usage of a stream. */
  streamUsage: true
} as const

/** `providerOptions` are copied into the body of the request unchanged. */
export interface Options extends VendorOptions<Schema.JsonObject> {
  /** The name of the provider in events, errors and the catalogue. */
  readonly name: string
  readonly baseUrl: string
  readonly model: string
  /** Default `true`. With `false` the schema of an object request goes into the prompt (DeepSeek, older servers). */
  readonly structuredOutputs?: boolean | undefined
  /** Default `true`. With `false`, streams report no usage, for servers that refuse `stream_options`. */
  readonly streamUsage?: boolean | undefined
}

export const model = (options: Options): ProviderModel.TargetSpec => {
  OptionChecks.options(
    module,
    options,
    checks,
    `{ name: "ollama", baseUrl: "http://…/v1", model: "qwen3:8b" }`
  )
  const baseURL = Endpoint.base(module, "baseUrl", options.baseUrl)
  const streamUsage = options.streamUsage ?? defaults.streamUsage
  const structuredOutputs = options.structuredOutputs ?? defaults.structuredOutputs
  const sending = fetched(module, options)
  const spec = Target.make(
    module,
    {
      ...options,
      provider: options.name,
      endpoint: baseURL,
      providerOptions: namespaced(module, namespace, options.providerOptions, [
        namespace,
        "openai-compatible"
      ]),
      create: (key) =>
        createOpenAICompatible({
          // One name for both: the client reads options, and writes metadata, under it.
          name: namespace,
          baseURL,
          includeUsage: streamUsage,
          supportsStructuredOutputs: structuredOutputs,
          ...(key === undefined ? undefined : { apiKey: sendable(key) }),
          ...sending
        })(options.model)
    },
    {
      toolFiles: "user-message",
      strictSchemas: structuredOutputs ? namespace : undefined,
      schemaInPrompt: !structuredOutputs
    },
    Dialects.compatible
  )
  return Wiring.wired(spec, {
    wires: ["chat"],
    baseUrl: baseURL,
    headers: Secrets.headersOf(module, options.headers ?? {}),
    keyed: Wiring.bearer,
    streamUsage,
    fetch: options.fetch
  })
}

const namespace = "openaiCompatible"

const module = "OpenAiCompatible.model"
const { is } = Check

const checks: Check.Checks<Options> = {
  ...OptionChecks.vendor,
  name: is.required(is.text),
  // `Endpoint.base` checks the URL.
  baseUrl: is.required(is.anything),
  model: is.required(OptionChecks.model),
  structuredOutputs: is.flag,
  streamUsage: is.flag
}

/** For `Registry`. */
export const registered: Provider = {
  provider: "openai-compatible",
  name: "OpenAI-compatible servers",
  constructors: [{ name: "OpenAiCompatible.model", speaks: "Chat Completions of other vendors" }],
  keys: []
}
