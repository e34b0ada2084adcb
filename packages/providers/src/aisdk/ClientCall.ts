/**
 * One call of the AI SDK on its way through effect/ai: the parts of its request and its answer that effect/ai cannot
 * express.
 *
 * `toAiSdk` makes one for each call, and the attempts find it in their context. They read settings, headers and
 * provider options from it, and store the parts of the answer in it as the client gave them. A part of effect/ai refers
 * to its original by a number in its metadata. A part without a counterpart travels as the metadata of a response.
 *
 * A call that does not come from the AI SDK has no `ClientCall` and needs none.
 */
import type {
  JSONObject,
  LanguageModelV4CallOptions,
  SharedV4Headers,
  SharedV4Warning
} from "@ai-sdk/provider"
import { ClientOptions } from "@outlast/agent/failover"
import type { Fiber } from "effect"
import { Context } from "effect"
import type { Response } from "effect/ai"
import type * as Spec from "./Spec.ts"

/** Facts about the answer of one attempt, beside its parts. */
export interface Answered {
  readonly warnings?: ReadonlyArray<SharedV4Warning> | undefined
  /** The stream has begun. */
  readonly isStarted?: boolean | undefined
  readonly request?: { readonly url?: string; readonly body?: unknown } | undefined
  readonly response?: { readonly headers?: SharedV4Headers; readonly body?: unknown } | undefined
  /** Id, time and model of the answer. */
  readonly metadata?: Response.ResponseMetadataPartEncoded | undefined
  /** The finish of the answer, with its usage. */
  readonly finish?: Response.FinishPartEncoded | undefined
}

/** A part of a client's answer. */
export type Original = Spec.Content | Spec.StreamPart

/** The key of the number in the metadata of a part. Metadata that is not an object is invisible to users. */
const key = "outlastPart"

export class ClientCall {
  readonly options: LanguageModelV4CallOptions
  /** Facts about the answer. Each attempt replaces those of the attempt before. */
  answered: Answered = {}
  readonly #originals: Array<Original> = []
  readonly #declared: ReadonlySet<string>

  constructor(options: LanguageModelV4CallOptions) {
    this.options = options
    this.#declared = new Set(options.tools?.map(({ name }) => name))
  }

  /** True for a tool that the program offered. effect/ai rejects results of any other tool. */
  isDeclared(tool: string): boolean {
    return this.#declared.has(tool)
  }

  /** Records the answer of a client, with its warnings. */
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

  /** Records the id and the finish of the answer. */
  saw(part: Response.ResponseMetadataPartEncoded | Response.FinishPartEncoded): void {
    this.answered = {
      ...this.answered,
      ...(part.type === "finish" ? { finish: part } : { metadata: part })
    }
  }

  /** Records that the stream of this attempt begins. */
  start(warnings: ReadonlyArray<SharedV4Warning> = []): void {
    this.answered = { ...this.answered, isStarted: true }
    this.warn(warnings)
  }

  /** Warns about settings that this attempt cannot apply. */
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

  /** The original to which the metadata of a part refer. */
  original(metadata: Readonly<Record<string, unknown>> | undefined): Original | undefined {
    const index = metadata?.[key]
    return typeof index === "number" ? this.#originals[index] : undefined
  }

  #keep(original: Original): number {
    return this.#originals.push(original) - 1
  }
}

/** The call of the AI SDK that the attempt of a fiber belongs to, if there is one. */
export const currentOf = (fiber: Fiber.Fiber<unknown, unknown>): ClientCall | undefined => {
  const options = fiber.getRef(ClientOptions.ClientOptions)
  return options instanceof ClientCall ? options : undefined
}

/** The context with the call, for all of its attempts. */
export const added = <R>(context: Context.Context<R>, call: ClientCall): Context.Context<R> =>
  Context.add(context, ClientOptions.ClientOptions, call)

/** Provider options. Options of the call take precedence over those of the target. */
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
