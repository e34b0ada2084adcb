/**
 * Converts parts of an AI SDK answer to encoded parts of effect/ai.
 *
 * Metadata of a part is kept as JSON: it holds signatures, item ids and encrypted reasoning, which the next
 * turn needs. In streams, metadata may come late, in an empty delta or at the end of a block. Every part
 * passes, empty or not, and `Prompt.fromResponseParts` merges the metadata into the one part of the prompt.
 *
 * Parts without a counterpart are dropped: custom items, reasoning files, files behind a URL, sources with an invalid
 * URL.
 */
import * as Base64 from "effect/encoding/Base64"
import type { Response } from "effect/ai"
import { WindowFull } from "@outlast/agent/conversation"
import { Predicate } from "effect"
import type { Schema } from "effect"
import type * as Spec from "./Spec.ts"
import { meaningOf } from "./form/Meaning.ts"
import { unknownFinish } from "./StreamProtocol.ts"

export type CommonPart =
  | Response.ToolCallPartEncoded
  | Response.ToolResultPartEncoded
  | Response.FilePartEncoded
  | Response.UrlSourcePartEncoded
  | Response.DocumentSourcePartEncoded
  | Response.ToolApprovalRequestPartEncoded

/** A part of complete answers and streams alike. Tool calls come with parsed arguments. */
export const commonPart = (part: Exclude<Spec.CommonPart, Spec.ToolCall>): CommonPart | undefined => {
  switch (part.type) {
    case "tool-result":
      return {
        type: "tool-result",
        id: part.toolCallId,
        name: part.toolName,
        result: part.result,
        isFailure: part.isError ?? false,
        providerExecuted: true,
        ...(part.preliminary === undefined ? undefined : { preliminary: part.preliminary }),
        ...metadataOf(part)
      }
    case "file":
      return generatedFile(part)
    case "source":
      return source(part)
    case "tool-approval-request":
      return {
        type: "tool-approval-request",
        approvalId: part.approvalId,
        toolCallId: part.toolCallId,
        ...metadataOf(part)
      }
    case "custom":
    case "reasoning-file":
    case "raw":
    case "ping":
      return undefined
  }
}

/**
 * The tool call with its arguments parsed. An empty text means no arguments. Invalid JSON stays a string: a call whose `params` are a string never runs.
 */
export const toolCall = (part: Spec.ToolCall): Response.ToolCallPartEncoded => ({
  type: "tool-call",
  id: part.toolCallId,
  name: part.toolName,
  params: parsed(part.input),
  providerExecuted: part.providerExecuted ?? false,
  ...metadataOf(part)
})

const parsed = (input: string): unknown => {
  if (input.trim() === "") return {}
  try {
    const value: unknown = JSON.parse(input)
    return typeof value === "string" ? input : value
  } catch {
    return input
  }
}

const generatedFile = (part: Spec.GeneratedFile): Response.FilePartEncoded | undefined => {
  const data = bytesOf(part.data)
  if (data === undefined) return undefined
  const base64 = typeof data === "string" ? data : Base64.encode(data)
  return { type: "file", mediaType: part.mediaType, data: base64, ...metadataOf(part) }
}

const bytesOf = (data: Spec.FileData): Uint8Array | string | undefined => {
  if (typeof data === "string" || data instanceof Uint8Array) return data
  return "type" in data && data.type === "data" ? data.data : undefined
}

const source = (
  part: Spec.Source
): Response.UrlSourcePartEncoded | Response.DocumentSourcePartEncoded | undefined => {
  if (part.sourceType === "document") {
    const { id, mediaType, title, filename } = part
    const named = filename === undefined ? undefined : { fileName: filename }
    return { type: "source", sourceType: "document", id, mediaType, title, ...named, ...metadataOf(part) }
  }
  if (!URL.canParse(part.url)) return undefined
  const { id, url, title } = part
  return { type: "source", sourceType: "url", id, url, title: title ?? url, ...metadataOf(part) }
}

export const responseMetadata = (response: Spec.ResponseMetadata): Response.ResponseMetadataPartEncoded => {
  const time = response.timestamp
  return {
    type: "response-metadata",
    ...(response.id === undefined ? undefined : { id: response.id }),
    ...(response.modelId === undefined ? undefined : { modelId: response.modelId }),
    ...(time === undefined || Number.isNaN(time.getTime()) ? undefined : { timestamp: time.toISOString() })
  }
}

interface End {
  readonly finishReason: Spec.FinishReason
  readonly usage: Spec.Usage
  readonly providerMetadata?: Readonly<Record<string, unknown>> | undefined
}

/** The finish of an answer. `interrupted` and `error` are failures and never get here. */
export const finish = (end: End): Response.FinishPartEncoded =>
  meaningOf(end.finishReason.raw) === "window" ? WindowFull.marked(finishOf(end)) : finishOf(end)

const finishOf = (end: End): Response.FinishPartEncoded => ({
  type: "finish",
  reason: reasonOf(end.finishReason),
  usage: {
    inputTokens: {
      uncached: count(end.usage.inputTokens.noCache),
      total: count(end.usage.inputTokens.total),
      cacheRead: count(end.usage.inputTokens.cacheRead),
      cacheWrite: count(end.usage.inputTokens.cacheWrite)
    },
    outputTokens: {
      total: count(end.usage.outputTokens.total),
      text: count(end.usage.outputTokens.text),
      reasoning: count(end.usage.outputTokens.reasoning)
    }
  },
  response: undefined,
  ...metadataOf(end)
})

/** Anthropic pauses a loop of its own tools until the message is sent again. The client reports a stop. */
const reasonOf = ({ unified, raw }: Spec.FinishReason): Response.FinishReason => {
  if (raw === "pause_turn") return "pause"
  const meaning = meaningOf(raw)
  if (meaning === "window") return "length"
  if (unified !== "other") return finishReasons[unified] ?? "unknown"
  if (meaning === "length") return "length"
  if (meaning === "filter") return "content-filter"
  return raw === unknownFinish ? "unknown" : "other"
}

const finishReasons: Readonly<Record<string, Response.FinishReason>> = {
  stop: "stop",
  length: "length",
  "content-filter": "content-filter",
  "tool-calls": "tool-calls",
  other: "other"
}

const count = (tokens: number | undefined): number | undefined =>
  tokens !== undefined && Math.abs(tokens) <= Number.MAX_SAFE_INTEGER
    ? Math.max(0, Math.trunc(tokens))
    : undefined

/** The metadata of a part, if it has any. */
export const metadataOf = (part: {
  readonly providerMetadata?: Readonly<Record<string, unknown>> | undefined
}): { readonly metadata: Response.ProviderMetadata } | undefined => {
  if (part.providerMetadata === undefined) return undefined
  const metadata: Record<string, Schema.Json> = {}
  for (const [namespace, value] of Object.entries(part.providerMetadata)) {
    const kept = json(value)
    if (kept !== undefined) metadata[namespace] = kept
  }
  return { metadata }
}

/** The value as JSON. Drops `undefined`, which clients leave in their metadata. */
const json = (value: unknown): Schema.Json | undefined => {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value
  if (typeof value === "number") return Number.isFinite(value) ? value : null
  if (Array.isArray(value)) return value.map((item) => json(item) ?? null)
  if (!Predicate.isObject(value)) return undefined
  const object: Record<string, Schema.Json> = {}
  for (const [key, item] of Object.entries(value)) {
    const kept = json(item)
    if (kept !== undefined) object[key] = kept
  }
  return object
}
