/**
 * Options and helpers that the vendor modules share.
 */
import { Predicate } from "effect"
import type { Schema } from "effect"
import * as Fetch from "./Fetch.ts"
import type { Namespaced } from "./Spec.ts"
import { isSendable, refused } from "./Secrets.ts"
import * as Failures from "./SpecError.ts"
import type { CommonOptions } from "./Target.ts"

export interface VendorOptions<ProviderOptions> extends CommonOptions {
  /** Includes the version, as does each vendor's default. */
  readonly baseUrl?: string | undefined
  /** Options of the client package for a call, without its namespace. */
  readonly providerOptions?: ProviderOptions | undefined
  /** Sends the requests. Default: the global `fetch`. Redirects to another origin are not followed: see `Fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/**
 * Options of one vendor under its name. Throws an `InvalidOption` if they already have a namespace, as in a call of
 * the AI SDK: no client would read them. `names` are the known namespaces.
 */
export const namespaced = (
  module: string,
  name: string,
  options: object | undefined,
  names: ReadonlyArray<string> = namespaces
): Namespaced => {
  if (options === undefined) return {}
  for (const [namespace, inner] of Object.entries(options)) {
    if (!names.includes(namespace) || !Predicate.isObject(inner)) continue
    const field = Object.keys(inner).find((key) => /^[A-Za-z_]{1,30}$/.test(key)) ?? "option"
    throw refused(
      module,
      `providerOptions.${namespace}`,
      "left out: options have no namespace here",
      `Write providerOptions: { ${field}: … } without the namespace`
    )
  }
  // The clients type these options as interfaces; the values are JSON.
  return { [name]: options as Schema.JsonObject }
}

/** Namespaces of the AI SDK's packages. */
const namespaces = [
  "anthropic",
  "openai",
  "google",
  "azure",
  "bedrock",
  "vertex",
  "openaiCompatible",
  "openai-compatible",
  "xai",
  "groq",
  "mistral",
  "deepseek",
  "openrouter",
  "gateway"
]

/**
 * The part of a client's settings that carries the key. A client without a key would look for one in the
 * environment. Instead, the key is set to an empty string and the header that would carry it is removed.
 */
export const keyed = (key: string | undefined, header: string) =>
  key === undefined
    ? // Every client drops undefined headers; only Google's types allow them.
      { apiKey: "", headers: { [header]: undefined } as unknown as Record<string, string> }
    : { apiKey: sendable(key) }

/** The key. Throws the failure of the attempt when no header can carry it. */
export const sendable = (key: string): string => {
  if (!isSendable(key)) throw Failures.keyNotSendable()
  return key
}

/** The part of a client's settings that sends requests. Throws an `InvalidOption` for a value that is no function. */
export const fetched = (
  module: string,
  { fetch }: { readonly fetch?: typeof globalThis.fetch | undefined }
) => {
  if (fetch !== undefined && typeof fetch !== "function") {
    throw refused(
      module,
      "fetch",
      "a function (url, init) => Promise<Response>",
      "Leave it out for the global one"
    )
  }
  return { fetch: Fetch.make(fetch) }
}
