/**
 * Targets over any provider package of the AI SDK (specification version 3 or 4): Bedrock, Vertex, Azure,
 * Mistral, and the rest.
 *
 * `create` makes one client per key, at the first request with that key, and the client is reused. Clients do not
 * retry. A provider package that sends several requests for one call (Gemini's long decodes) does so inside one
 * attempt.
 *
 * **Redirects.** A custom client uses its own `fetch`. By default, that `fetch` follows redirects to any host, with the
 * prompt and most headers that carry keys. It also waits for the connection to close after the last event of a
 * stream. Pass {@link fetch} to avoid both, as in the example.
 *
 * **Example** (A model on Amazon Bedrock)
 *
 * ```ts
 * AiSdk.model({
 *   provider: "bedrock",
 *   model: "anthropic.claude-sonnet-4-5-20250929-v1:0",
 *   keys: ["AWS_BEARER_TOKEN_BEDROCK"],
 *   create: (key) => createAmazonBedrock({ apiKey: key, fetch: AiSdk.fetch })("anthropic.claude-sonnet-4-5-20250929-v1:0")
 * })
 * ```
 */
import type { ProviderModel } from "@outlast/agent"
import { Options as Check } from "@outlast/resilience"
import * as Dialects from "./aisdk/Dialects.ts"
import type { Provider } from "./Provider.ts"
import * as BodyLimit from "./aisdk/BodyLimit.ts"
import * as Fetch from "./aisdk/Fetch.ts"
import * as OptionChecks from "./aisdk/OptionChecks.ts"
import type { Options } from "./aisdk/Target.ts"
import * as Target from "./aisdk/Target.ts"

export type { CallSettings, Namespaced, SpecModel } from "./aisdk/Spec.ts"
export type { CommonOptions, Options } from "./aisdk/Target.ts"

/** One model at one endpoint. Omit `keys` for a model that needs no key. */
export const model = (options: Options): ProviderModel.TargetSpec => {
  Check.check(!isModel(options), module, "options", options, `${example}, and the model comes from create`)
  OptionChecks.options(module, options, checks, example)
  return Target.make(module, options, { toolFiles: "result", asGiven: true }, () =>
    Dialects.client(options.provider)
  )
}

/**
 * The `fetch` of the other constructors, for custom clients.
 *
 * - Redirects to another origin are not followed: they fail with a `ProviderFailure` of reason `PermanentNetwork`.
 * - A stream of events ends at its last event, and events that the client does not know are skipped.
 * - A response of more than {@link maxBytes} fails, and its connection is closed.
 * - A request is repeated when the server had closed its idle connection.
 */
export const fetch: typeof globalThis.fetch = Fetch.make()

/** Bytes of a response after decompression, at most, for every constructor of this package. `BodyLimit` says why. */
export const maxBytes: {
  /** A complete answer. */
  readonly answer: number
  /** A stream of events. */
  readonly stream: number
  /** One event of a stream. */
  readonly event: number
  /** Comments and dropped events of a stream in a row. */
  readonly comments: number
  /** The body of an error. */
  readonly error: number
} = BodyLimit.maxBytes

const module = "AiSdk.model"
const example = "{ provider, model, create: (key) => model }"
const { is } = Check

const checks: Check.Checks<Options> = {
  ...OptionChecks.common,
  provider: is.required(is.text),
  model: is.required(OptionChecks.model),
  // `Target` checks the URL.
  endpoint: is.string,
  providerOptions: is.record(is.record()),
  create: is.required(is.fn("(key) => model"))
}

/** True for a model of the AI SDK, which is easily passed in place of the options. */
const isModel = (options: object): boolean =>
  typeof options === "object" && options !== null && "doGenerate" in options

/** For `Registry`. */
export const registered: Provider = {
  provider: "ai-sdk",
  name: "the AI SDK",
  constructors: [{ name: "AiSdk.model", speaks: "any AI SDK provider: Bedrock, Vertex, Azure, …" }],
  keys: []
}
