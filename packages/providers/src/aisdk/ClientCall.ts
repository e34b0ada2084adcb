/**
 * One call of the AI SDK on its way through effect/ai: the parts of its request and its answer that effect/ai cannot
 * express.
 *
 * `toAiSdk` makes one for each call, and the attempts find it in their context. They read settings, headers and
 * provider options from it, and store the parts of the answer in it as the client gave them. A part of effect/ai refers
 * to its original, and to its attempt, by a number in its metadata. A part without a counterpart travels as the metadata
 * of a response.
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

/** The keys of the numbers in the metadata of a part. Metadata that is not an object is invisible to users. */
const keys = { original: "outlastPart", attempt: "outlastAttempt" } as const

type Metadata = Readonly<Record<string, unknown>> | undefined
type Marked = { readonly metadata?: Response.ProviderMetadata | undefined }

export class ClientCall {
  readonly options: LanguageModelV4CallOptions
  /** The facts of the attempt that was the last to reach its finish. */
  finished: Answered = {}
  readonly #originals: Array<Original> = []
  readonly #attempts: Array<ClientAttempt> = []
  readonly #declared: ReadonlySet<string>

  constructor(options: LanguageModelV4CallOptions) {
    this.options = options
    this.#declared = new Set(options.tools?.map(({ name }) => name))
  }

  /** True for a tool that the program offered. effect/ai rejects results of any other tool. */
  isDeclared(tool: string): boolean {
    return this.#declared.has(tool)
  }

  /** Begins an attempt. */
  attempt(): ClientAttempt {
    const attempt = new ClientAttempt(
      this,
      this.#attempts.length,
      (original) => this.#originals.push(original) - 1
    )
    this.#attempts.push(attempt)
    return attempt
  }

  /** The facts of the attempt that has made these parts. */
  answered(parts: ReadonlyArray<{ readonly metadata?: Metadata }>): Answered {
    for (const { metadata } of parts) {
      const index = metadata?.[keys.attempt]
      const attempt = typeof index === "number" ? this.#attempts[index] : undefined
      if (attempt !== undefined) return attempt.answered
    }
    return {}
  }

  /** The original to which the metadata of a part refer. */
  original(metadata: Metadata): Original | undefined {
    const index = metadata?.[keys.original]
    return typeof index === "number" ? this.#originals[index] : undefined
  }
}

/** One attempt of the call. A hedge has facts of its own beside those of the late attempt. */
export class ClientAttempt {
  readonly call: ClientCall
  answered: Answered = {}
  readonly #index: number
  readonly #keep: (original: Original) => number

  constructor(call: ClientCall, index: number, keep: (original: Original) => number) {
    this.call = call
    this.#index = index
    this.#keep = keep
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
    if (part.type === "finish") this.call.finished = this.answered
  }

  /** Records that the stream begins. */
  start(warnings: ReadonlyArray<SharedV4Warning> = []): void {
    this.answered = { ...this.answered, isStarted: true }
    this.warn(warnings)
  }

  /** Warns about settings that this attempt cannot apply. */
  warn(warnings: ReadonlyArray<SharedV4Warning>): void {
    if (warnings.length === 0) return
    this.answered = { ...this.answered, warnings: [...(this.answered.warnings ?? []), ...warnings] }
  }

  /** The part with the number of the attempt. */
  sign<P extends Marked>(part: P): P {
    return { ...part, metadata: { ...part.metadata, [keys.attempt]: this.#index } }
  }

  /** The part with the numbers of the attempt and of its original. */
  mark<P extends Marked>(part: P, original: Original): P {
    return this.sign({ ...part, metadata: { ...part.metadata, [keys.original]: this.#keep(original) } })
  }

  /** A part without a counterpart in effect/ai. */
  carrier(original: Original): Response.ResponseMetadataPartEncoded {
    return this.mark<Response.ResponseMetadataPartEncoded>({ type: "response-metadata" }, original)
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
