/**
 * Makes a `TargetSpec` over AI SDK models, for `AiSdk.model` and the vendor modules.
 */
import { KeySource } from "@outlast/agent"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { Effect } from "effect"
import * as Catalogue from "../catalogue/Catalogue.ts"
import * as Endpoint from "./Endpoint.ts"
import type { CallSettings, Namespaced, SpecModel } from "./Spec.ts"
import type { DialectOf } from "./Dialects.ts"
import * as Secrets from "./Secrets.ts"
import { thinks } from "./Thinking.ts"
import type { WireFormat } from "./SpecProviderModel.ts"
import * as SpecProviderModel from "./SpecProviderModel.ts"

/** Options that all constructors of this package share. */
export interface CommonOptions {
  /**
   * Names of configuration values (by default, environment variables) or sources, in the order of use. Never the
   * keys themselves: any other value throws an `InvalidOption` that does not quote it.
   */
  readonly keys?: ReadonlyArray<string | KeySource.KeySource> | undefined
  /** Sent with every request, over the client's own. Treated as secrets: no failure shows them. */
  readonly headers?: Readonly<Record<string, string>> | Headers | undefined
  /** Facts about the model that replace those of the catalogue, field by field. */
  readonly info?: ModelInfo.ModelInfo | undefined
  /** Sampling and thinking. Default: that of the provider. */
  readonly settings?: CallSettings | undefined
}

export interface Options extends CommonOptions {
  /** The name of the provider in events, errors and the catalogue. */
  readonly provider: string
  readonly model: string
  /** The base URL. Default: empty, which means that only the client knows it. */
  readonly endpoint?: string | undefined
  /** Provider options by the namespaces of the AI SDK, for example `{ bedrock: { … } }`. */
  readonly providerOptions?: Namespaced | undefined
  /**
   * Makes the client for a key, which is `undefined` when the target has none. The client must not look for a key
   * elsewhere then.
   */
  readonly create: (key: string | undefined) => SpecModel
}

/**
 * A target in a wire format. Errors about options name `module`. `dialectOf` gives the dialect of the format. Default:
 * the dialect that every format accepts.
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
        provider: options.provider,
        endpoint: endpoint ?? "",
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
