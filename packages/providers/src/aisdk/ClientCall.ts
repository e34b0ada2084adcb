/**
 * One call of the AI SDK on its way through effect/ai: what it asks and what the client answers, as far as effect/ai has
 * no words for it.
 *
 * `toAiSdk` makes one for each call, and the attempts find it in their context. They take settings, headers and provider
 * options from it, and leave the parts of the answer as the client gave them. A part of effect/ai names its original by
 * a number in its metadata; a part without a counterpart travels as the metadata of a response.
 *
 * A call that does not come from the AI SDK has none, and loses nothing.
 */
import type {
  JSONObject,
  LanguageModelV4CallOptions,
  SharedV4Headers,
  SharedV4Warning
} from "@ai-sdk/provider"
import { ClientOptions } from "@outlast/agent/failover"
import { Effect } from "effect"
import type { Response } from "effect/ai"
import type * as Spec from "./Spec.ts"

/** What an attempt knows of its answer beside the parts. */
export interface Answered {
  readonly warnings?: ReadonlyArray<SharedV4Warning> | undefined
  /** Its stream has said that it begins. */
  readonly isStarted?: boolean | undefined
  readonly request?: { readonly url?: string; readonly body?: unknown } | undefined
  readonly response?: { readonly headers?: SharedV4Headers; readonly body?: unknown } | undefined
  /** Its id, its time and the model. */
  readonly metadata?: Response.ResponseMetadataPartEncoded | undefined
  /** How it ended, with its usage. */
  readonly finish?: Response.FinishPartEncoded | undefined
}

/** A part of a client's answer that is kept. */
export type Original = Spec.Content | Spec.StreamPart

/** The key of the number in the metadata of a part. Metadata that is no object is shown to nobody. */
const key = "outlastPart"

export class ClientCall {
  readonly options: LanguageModelV4CallOptions
  /** Of the attempt that answers: each attempt replaces what the one before has left. */
  answered: Answered = {}
  readonly #originals: Array<Original> = []
  readonly #declared: ReadonlySet<string>

  constructor(options: LanguageModelV4CallOptions) {
    this.options = options
    this.#declared = new Set(options.tools?.map(({ name }) => name))
  }

  /** effect/ai knows no results of tools that were not offered. */
  isDeclared(tool: string): boolean {
    return this.#declared.has(tool)
  }

  /** What a client has answered, with all that it warns of. */
  answer({
    request,
    response,
    warnings = []
  }: Pick<Spec.GenerateResult, "request" | "response" | "warnings">): void {
    const { headers, body } = response ?? {}
    const answered = {
      ...(headers === undefined ? undefined : { headers }),
      ...(body === undefined ? undefined : { body })
    }
    this.answered = { ...this.answered, request, response: answered }
    this.warn(warnings)
  }

  /** What the answer of this attempt says of itself. */
  saw(part: Response.ResponseMetadataPartEncoded | Response.FinishPartEncoded): void {
    this.answered = {
      ...this.answered,
      ...(part.type === "finish" ? { finish: part } : { metadata: part })
    }
  }

  /** The stream of this attempt begins. */
  start(warnings: ReadonlyArray<SharedV4Warning> = []): void {
    this.answered = { ...this.answered, isStarted: true }
    this.warn(warnings)
  }

  /** Warns of what this attempt cannot be asked. */
  warn(warnings: ReadonlyArray<SharedV4Warning>): void {
    if (warnings.length === 0) return
    this.answered = { ...this.answered, warnings: [...(this.answered.warnings ?? []), ...warnings] }
  }

  /** The part with the number of its original. */
  mark<P extends { readonly metadata?: Response.ProviderMetadata | undefined }>(
    part: P,
    original: Original
  ): P {
    return { ...part, metadata: { ...part.metadata, [key]: this.#keep(original) } }
  }

  /** A part without a counterpart in effect/ai. */
  carrier(original: Original): Response.ResponseMetadataPartEncoded {
    return { type: "response-metadata", metadata: { [key]: this.#keep(original) } }
  }

  /** The original that the metadata of a part name. */
  original(metadata: Readonly<Record<string, unknown>>): Original | undefined {
    const index = metadata[key]
    return typeof index === "number" ? this.#originals[index] : undefined
  }

  #keep(original: Original): number {
    return this.#originals.push(original) - 1
  }
}

/** The call of the AI SDK that an attempt belongs to, if there is one. */
export const current: Effect.Effect<ClientCall | undefined> = Effect.map(
  ClientOptions.ClientOptions,
  (options) => (options instanceof ClientCall ? options : undefined)
)

/** Provides the call to all attempts. */
export const provided =
  (call: ClientCall) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.provideService(self, ClientOptions.ClientOptions, call)

/** Options of providers, those of the call over those of the target. */
export const merged = (
  target: Spec.Namespaced,
  call: Readonly<Record<string, JSONObject>> | undefined
): Spec.Namespaced =>
  call === undefined
    ? target
    : {
        ...target,
        ...Object.fromEntries(
          Object.entries(call).map(([name, options]) => [name, { ...target[name], ...options }])
        )
      }
