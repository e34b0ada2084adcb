/**
 * Converts encoded answers of effect/ai to the form that an AI SDK model returns. `SpecResponse` is the opposite direction.
 *
 * `providerMetadata.outlast` of the answer has the target, the attempt and the cost.
 */
import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4ResponseMetadata,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolCall,
  LanguageModelV4ToolResult,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
  SharedV4Warning
} from "@ai-sdk/provider"
import type { ClientCall, Original } from "./ClientCall.ts"
import { Answered } from "@outlast/agent"
import { Option, Predicate } from "effect"
import type { Response } from "effect/ai"

type Part = Response.AllPartsEncoded

/** A complete answer. */
export const whole = (
  parts: ReadonlyArray<Part>,
  warnings: ReadonlyArray<SharedV4Warning>,
  client: ClientCall
): LanguageModelV4GenerateResult => {
  const finish = parts.findLast((part) => part.type === "finish")
  const metadata = parts.find(
    (part) => part.type === "response-metadata" && client.original(part.metadata) === undefined
  )
  const { request, response, warnings: own = [] } = client.answered(finish === undefined ? parts : [finish])
  return {
    content: parts.flatMap((part) => contentPart(part, client)),
    ...end(finish, client),
    warnings: [...warnings, ...own],
    ...(request === undefined ? undefined : { request }),
    ...(response === undefined && metadata === undefined
      ? undefined
      : {
          response: {
            ...response,
            ...(metadata?.type === "response-metadata" ? responseMetadata(metadata) : undefined)
          }
        }),
    ...(finish === undefined ? undefined : finishMetadata(finish))
  }
}

/** A complete answer as a stream, each block in one piece. */
export const pieces = (
  parts: ReadonlyArray<Part>,
  client: ClientCall
): ReadonlyArray<LanguageModelV4StreamPart> =>
  parts.flatMap((part, index): ReadonlyArray<LanguageModelV4StreamPart> => {
    if (part.type !== "text" && part.type !== "reasoning") return streamPart(part, client)
    const block = { id: String(index), ...metadata(part) }
    return [
      { type: `${part.type}-start`, ...block },
      { type: `${part.type}-delta`, id: block.id, delta: part.text },
      { type: `${part.type}-end`, ...block }
    ]
  })

/** A part of a stream; an empty list for one without a counterpart. */
export const streamPart = (part: Part, client: ClientCall): ReadonlyArray<LanguageModelV4StreamPart> => {
  const original = client.original(part.metadata)
  switch (part.type) {
    case "text-end":
      return [{ ...rest(original, part.type), type: part.type, id: part.id, ...metadata(part) }]
    case "text-start":
    case "reasoning-start":
    case "reasoning-end":
      return [{ type: part.type, id: part.id, ...metadata(part) }]
    case "text-delta":
    case "reasoning-delta":
      return [{ type: part.type, id: part.id, delta: part.delta, ...metadata(part) }]
    case "tool-params-start":
      return [
        {
          ...rest(original, "tool-input-start"),
          type: "tool-input-start",
          id: part.id,
          toolName: part.name,
          ...(part.providerExecuted ? { providerExecuted: true } : undefined),
          ...metadata(part)
        }
      ]
    case "tool-params-delta":
      return [{ type: "tool-input-delta", id: part.id, delta: part.delta, ...metadata(part) }]
    case "tool-params-end":
      return [{ type: "tool-input-end", id: part.id, ...metadata(part) }]
    case "response-metadata":
      // Originals come from a client, so they have the AI SDK's form.
      if (original !== undefined) return [original as LanguageModelV4StreamPart]
      return [{ type: "response-metadata", ...responseMetadata(part) }]
    case "finish":
      return [{ type: "finish", ...end(part, client), ...finishMetadata(part) }]
    case "error":
      return [{ type: "error", error: part.error }]
    default:
      return commonPart(part, original)
  }
}

/** The end of a stream that fails. */
export const failed = (error: unknown): ReadonlyArray<LanguageModelV4StreamPart> => [
  { type: "error", error },
  { type: "finish", finishReason: { unified: "error", raw: undefined }, usage: usage(undefined) }
]

const contentPart = (part: Part, client: ClientCall): ReadonlyArray<LanguageModelV4Content> => {
  const original = client.original(part.metadata)
  switch (part.type) {
    case "text":
      return [{ ...rest(original, part.type), type: part.type, text: part.text, ...metadata(part) }]
    case "reasoning":
      return [{ type: part.type, text: part.text, ...metadata(part) }]
    case "response-metadata":
      // Originals come from a client, so they have the AI SDK's form.
      return original === undefined ? [] : [original as LanguageModelV4Content]
    default:
      return commonPart(part, original)
  }
}

/** Fields of a client's part except its metadata, which arrive another way. */
const rest = (original: Original | undefined, type: Original["type"]): object => {
  if (original?.type !== type) return {}
  const { providerMetadata: _, ...fields } = original as { readonly providerMetadata?: unknown }
  return fields
}

type CommonPart = Extract<
  LanguageModelV4Content,
  { readonly type: "tool-call" | "tool-result" | "tool-approval-request" | "file" | "source" }
>

const commonPart = (part: Part, original: Original | undefined): ReadonlyArray<CommonPart> => {
  switch (part.type) {
    case "tool-call":
      return [
        {
          ...toolCall(part),
          // Arguments as the client wrote them, and the flag of a dynamic tool.
          ...(original?.type === "tool-call"
            ? { ...rest(original, part.type), toolCallId: part.id, toolName: part.name }
            : undefined)
        }
      ]
    case "tool-result":
      // Results without the flag belong to the AI SDK, which runs those tools.
      return part.providerExecuted ? [{ ...rest(original, part.type), ...toolResult(part) }] : []
    case "tool-approval-request": {
      const { type, approvalId, toolCallId } = part
      return [{ type, approvalId, toolCallId, ...metadata(part) }]
    }
    case "file":
      return [
        {
          type: "file",
          mediaType: part.mediaType,
          data: { type: "data", data: part.data },
          ...rest(original, part.type),
          ...metadata(part)
        }
      ]
    case "source":
      return [source(part, original)]
    default:
      return []
  }
}

const toolCall = (part: Response.ToolCallPartEncoded): LanguageModelV4ToolCall => ({
  type: "tool-call",
  toolCallId: part.id,
  toolName: part.name,
  // Arguments that are not JSON stay text: the AI SDK marks the call invalid and can repair it.
  input: typeof part.params === "string" ? part.params : JSON.stringify(part.params ?? {}),
  ...(part.providerExecuted ? { providerExecuted: true } : undefined),
  ...metadata(part)
})

const toolResult = (part: Extract<Part, { readonly type: "tool-result" }>): LanguageModelV4ToolResult => ({
  type: "tool-result",
  toolCallId: part.id,
  toolName: part.name,
  // Encoded results are JSON; the AI SDK allows no null here.
  result: (part.result ?? {}) as LanguageModelV4ToolResult["result"],
  ...(part.isFailure ? { isError: true } : undefined),
  ...(part.preliminary === true ? { preliminary: true } : undefined),
  ...metadata(part)
})

const source = (
  part: Extract<Part, { readonly type: "source" }>,
  original: Original | undefined
): Extract<CommonPart, { readonly type: "source" }> => {
  if (original?.type === "source" && original.sourceType === "url") {
    const { id, url, title } = original
    const titled = title === undefined ? undefined : { title }
    return { type: "source", sourceType: "url", id, url, ...titled, ...metadata(part) }
  }
  if (part.sourceType === "url") {
    const { id, url, title } = part
    return { type: "source", sourceType: "url", id, url, title, ...metadata(part) }
  }
  const { id, mediaType, title, fileName } = part
  const named = fileName === undefined ? undefined : { filename: fileName }
  return { type: "source", sourceType: "document", id, mediaType, title, ...named, ...metadata(part) }
}

const responseMetadata = (part: Response.ResponseMetadataPartEncoded): LanguageModelV4ResponseMetadata => {
  const { id, modelId, timestamp } = part
  return {
    ...(id === undefined ? undefined : { id }),
    ...(modelId === undefined ? undefined : { modelId }),
    ...(timestamp === undefined ? undefined : { timestamp: new Date(timestamp) })
  }
}

/** Finish reason and usage of an answer, in Outlast's terms and in the provider's. */
const end = (
  finish: Response.FinishPartEncoded | undefined,
  client: ClientCall
): { readonly finishReason: LanguageModelV4FinishReason; readonly usage: LanguageModelV4Usage } => {
  const original = finish && client.original(finish.metadata)
  const own = original?.type === "finish" ? original : undefined
  const reason = finish === undefined ? noFinish : finishReason(finish.reason)
  const raw = own?.usage.raw
  return {
    finishReason: own === undefined ? reason : { unified: reason.unified, raw: own.finishReason.raw },
    // The sum of all attempts; `raw` is the report of the last one.
    usage: { ...usage(finish), ...(raw === undefined ? undefined : { raw }) }
  }
}

const noFinish: LanguageModelV4FinishReason = { unified: "other", raw: undefined }

/** A pause is a stop whose message must be sent again. The raw reason tells the two apart. */
const finishReason = (reason: Response.FinishReason): LanguageModelV4FinishReason => {
  switch (reason) {
    case "pause":
      return { unified: "stop", raw: "pause" }
    case "unknown":
      return { unified: "other", raw: "unknown" }
    default:
      return { unified: reason, raw: reason }
  }
}

const usage = (finish: Response.FinishPartEncoded | undefined): LanguageModelV4Usage => {
  const { inputTokens, outputTokens } = finish?.usage ?? {}
  return {
    inputTokens: {
      total: inputTokens?.total,
      noCache: inputTokens?.uncached,
      cacheRead: inputTokens?.cacheRead,
      cacheWrite: inputTokens?.cacheWrite
    },
    outputTokens: {
      total: outputTokens?.total,
      text: outputTokens?.text,
      reasoning: outputTokens?.reasoning
    }
  }
}

/** All facts about the target that answered. The written form omits default values. */
const finishMetadata = (finish: Response.FinishPartEncoded) =>
  metadata(
    Option.match(Answered.answeredBy([finish]), {
      onNone: () => finish,
      onSome: (answered) => ({ metadata: { ...finish.metadata, [Answered.namespace]: answered } })
    })
  )

const metadata = (part: {
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}): { readonly providerMetadata: SharedV4ProviderMetadata } | undefined => {
  if (part.metadata === undefined) return undefined
  const kept = Object.entries(part.metadata).filter(([, value]) => Predicate.isObject(value))
  // Metadata of parts are JSON, and these values are objects.
  return kept.length === 0
    ? undefined
    : { providerMetadata: Object.fromEntries(kept) as SharedV4ProviderMetadata }
}
