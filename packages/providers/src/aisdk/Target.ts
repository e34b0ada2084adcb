/**
 * A `TargetSpec` over AI SDK models: what `AiSdk.model` and the modules of the vendors make.
 */
import { KeySource } from "@outlast/agent"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { Effect } from "effect"
import * as Catalogue from "../Catalogue.ts"
import * as Endpoint from "../Endpoint.ts"
import type { CallSettings, Namespaced, SpecModel } from "./Spec.ts"
import type { DialectOf } from "../Dialects.ts"
import * as Secrets from "./Secrets.ts"
import { thinks } from "./Thinking.ts"
import type { WireFormat } from "./SpecProviderModel.ts"
import * as SpecProviderModel from "./SpecProviderModel.ts"

/** What the constructors of this package have in common. */
export interface CommonOptions {
  /**
   * Names of configuration values (environment variables, by default) or sources, in the order of their use. Never the
   * keys themselves: anything else throws an `InvalidOption` that does not quote it.
   */
  readonly keys?: ReadonlyArray<string | KeySource.KeySource> | undefined
  /** Sent with every request, over the client's own. Taken for secrets: they stand in no failure. */
  readonly headers?: Readonly<Record<string, string>> | Headers | undefined
  /** Known better than the catalogue: what is given here replaces it, field by field. */
  readonly info?: ModelInfo.ModelInfo | undefined
  /** Sampling and thinking. Default: the provider's. */
  readonly settings?: CallSettings | undefined
}

export interface Options extends CommonOptions {
  /** The name under which the provider stands in events, errors and the catalogue. */
  readonly provider: string
  readonly model: string
  /** The base URL; empty, the default, when only the client knows it. */
  readonly endpoint?: string | undefined
  /** By the namespaces of the AI SDK, for example `{ bedrock: { … } }`. */
  readonly providerOptions?: Namespaced | undefined
  /**
   * Makes the client for a key; `undefined` when the target has none. A client must not look for a key
   * elsewhere then.
   */
  readonly create: (key: string | undefined) => SpecModel
}

/**
 * A target in a wire format. Errors about options name `module`. `dialectOf` is what the format takes of a conversation;
 * without it, only what all formats take.
 */
export const make = (
  module: string,
  options: Options,
  format: WireFormat,
  dialectOf?: DialectOf
): ProviderModel.TargetSpec => {
  const { keys, endpoint } = options
  Secrets.checkName(module, "model", options.model)
  Secrets.checkName(module, "provider", options.provider)
  const headers = Secrets.headersOf(module, options.headers === undefined ? {} : options.headers)
  return {
    provider: options.provider,
    model: options.model,
    endpoint: endpoint ? Endpoint.normalize(module, "endpoint", endpoint) : "",
    keys: keys === undefined ? [] : KeySource.fromOption(module, keys),
    build: Effect.sync(() =>
      SpecProviderModel.make({
        info: infoOf(options, format, dialectOf),
        format,
        settings: options.settings ?? {},
        headers,
        providerOptions: options.providerOptions ?? {},
        create: options.create
      })
    )
  }
}

const infoOf = (
  { provider, model, endpoint, info: known, settings = {}, providerOptions = {} }: Options,
  format: WireFormat,
  dialectOf: DialectOf | undefined
): ModelInfo.ModelInfo => {
  const info = { ...Catalogue.infoOf(provider, model), ...known }
  return {
    ...info,
    reasoning: known?.reasoning ?? thinks(info, settings, providerOptions),
    dialect: info.dialect ?? dialectOf?.(model, info.capabilities ?? {}, endpoint),
    wholeAnswers: info.wholeAnswers ?? format.wholeAnswers
  }
}
