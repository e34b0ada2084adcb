/**
 * Answers of effect/ai as an AI SDK model gives them: the way back of `SpecResponse`.
 *
 * Who answered, in which attempt, and for how much stands in `providerMetadata.outlast` of the answer.
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
import { answeredBy, namespace } from "@outlast/agent/failover/Answered"
import { DateTime, Option, Predicate } from "effect"
import type { Response } from "effect/ai"

/** A whole answer. */
export const whole = (
  parts: ReadonlyArray<Response.AnyPart>,
  warnings: Array<SharedV4Warning>
): LanguageModelV4GenerateResult => {
  const finish = parts.findLast((part) => part.type === "finish")
  const response = parts.find((part) => part.type === "response-metadata")
  return {
    content: parts.flatMap(contentPart),
    finishReason: finish === undefined ? noFinish : finishReason(finish.reason),
    usage: usage(finish),
    warnings,
    ...(response === undefined ? undefined : { response: responseMetadata(response) }),
    ...(finish === undefined ? undefined : finishMetadata(finish))
  }
}

/** A whole answer as a stream, each block in one piece. */
export const pieces = (parts: ReadonlyArray<Response.AnyPart>): ReadonlyArray<LanguageModelV4StreamPart> =>
  parts.flatMap((part, index): ReadonlyArray<LanguageModelV4StreamPart> => {
    if (part.type !== "text" && part.type !== "reasoning") return streamPart(part)
    const block = { id: String(index), ...metadata(part) }
    return [
      { type: `${part.type}-start`, ...block },
      { type: `${part.type}-delta`, id: block.id, delta: part.text },
      { type: `${part.type}-end`, ...block }
    ]
  })

/** A part of a stream; nothing for one without a counterpart. */
export const streamPart = (part: Response.AnyPart): ReadonlyArray<LanguageModelV4StreamPart> => {
  switch (part.type) {
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
      return [{ type: part.type, id: part.id, ...metadata(part) }]
    case "text-delta":
    case "reasoning-delta":
      return [{ type: part.type, id: part.id, delta: part.delta, ...metadata(part) }]
    case "tool-params-start":
      return [
        {
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
      return [{ type: "response-metadata", ...responseMetadata(part) }]
    case "finish":
      return [
        {
          type: "finish",
          finishReason: finishReason(part.reason),
          usage: usage(part),
          ...finishMetadata(part)
        }
      ]
    case "error":
      return [{ type: "error", error: part.error }]
    default:
      return commonPart(part)
  }
}

/** How a stream ends that cannot go on. */
export const failed = (error: unknown): ReadonlyArray<LanguageModelV4StreamPart> => [
  { type: "error", error },
  { type: "finish", finishReason: { unified: "error", raw: undefined }, usage: usage(undefined) }
]

const contentPart = (part: Response.AnyPart): ReadonlyArray<LanguageModelV4Content> =>
  part.type === "text" || part.type === "reasoning"
    ? [{ type: part.type, text: part.text, ...metadata(part) }]
    : commonPart(part)

type CommonPart = Extract<
  LanguageModelV4Content,
  { readonly type: "tool-call" | "tool-result" | "tool-approval-request" | "file" | "source" }
>

const commonPart = (part: Response.AnyPart): ReadonlyArray<CommonPart> => {
  switch (part.type) {
    case "tool-call":
      return [toolCall(part)]
    case "tool-result":
      // Other results are those of the AI SDK, which runs the tools.
      return part.providerExecuted ? [toolResult(part)] : []
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
          ...metadata(part)
        }
      ]
    case "source":
      return [source(part)]
    default:
      return []
  }
}

const toolCall = (part: Response.ToolCallPart<string, unknown>): LanguageModelV4ToolCall => ({
  type: "tool-call",
  toolCallId: part.id,
  toolName: part.name,
  // The text of arguments that are no JSON: the AI SDK takes the call for invalid, and can repair it.
  input: typeof part.params === "string" ? part.params : JSON.stringify(part.params ?? {}),
  ...(part.providerExecuted ? { providerExecuted: true } : undefined),
  ...metadata(part)
})

const toolResult = (
  part: Extract<Response.AnyPart, { readonly type: "tool-result" }>
): LanguageModelV4ToolResult => ({
  type: "tool-result",
  toolCallId: part.id,
  toolName: part.name,
  // Encoded results are JSON; the AI SDK knows no null here.
  result: (part.encodedResult ?? {}) as LanguageModelV4ToolResult["result"],
  ...(part.isFailure ? { isError: true } : undefined),
  ...(part.preliminary === true ? { preliminary: true } : undefined),
  ...metadata(part)
})

const source = (
  part: Extract<Response.AnyPart, { readonly type: "source" }>
): Extract<CommonPart, { readonly type: "source" }> => {
  if (part.sourceType === "url") {
    const { id, url, title } = part
    return { type: "source", sourceType: "url", id, url: url.href, title, ...metadata(part) }
  }
  const { id, mediaType, title, fileName } = part
  const named = fileName === undefined ? undefined : { filename: fileName }
  return { type: "source", sourceType: "document", id, mediaType, title, ...named, ...metadata(part) }
}

const responseMetadata = (part: Response.ResponseMetadataPart): LanguageModelV4ResponseMetadata => {
  const { id, modelId, timestamp } = part
  return {
    ...(id === undefined ? undefined : { id }),
    ...(modelId === undefined ? undefined : { modelId }),
    ...(timestamp === undefined ? undefined : { timestamp: DateTime.toDateUtc(timestamp) })
  }
}

const noFinish: LanguageModelV4FinishReason = { unified: "other", raw: undefined }

/** A pause is a stop whose message wants to be sent again: the raw reason says so. */
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

const usage = (finish: Response.FinishPart | undefined): LanguageModelV4Usage => {
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

/** With all that there is to say of who answered: what is written down leaves out what goes without saying. */
const finishMetadata = (finish: Response.FinishPart) =>
  metadata(
    Option.match(answeredBy([finish]), {
      onNone: () => finish,
      onSome: (answered) => ({ metadata: { ...finish.metadata, [namespace]: answered } })
    })
  )

const metadata = (part: {
  readonly metadata: Readonly<Record<string, unknown>>
}): { readonly providerMetadata: SharedV4ProviderMetadata } | undefined => {
  const kept = Object.entries(part.metadata).filter(([, value]) => Predicate.isObject(value))
  // Metadata of parts are JSON, and these are objects.
  return kept.length === 0
    ? undefined
    : { providerMetadata: Object.fromEntries(kept) as SharedV4ProviderMetadata }
}
