/**
 * Folds the parts of a stream into the parts of a whole answer: what `generateText` would have given. Pure.
 *
 * - A text or a reasoning block becomes one part, in the place of its start. Its metadata is that of start, deltas and
 *   end; later fields win, because signatures and encrypted reasoning come late.
 * - Tool calls, results, files, sources and the finish stay as they are. Pieces of tool arguments and preliminary
 *   results are dropped: the call and the result themselves follow.
 * - All metadata of the response becomes one part.
 *
 * **What it does not do.** It judges no answer. An `error` part is dropped; the caller looks at it first.
 */
import { Predicate } from "effect"
import type { Schema, Types } from "effect"
import type { Response } from "effect/ai"

type StreamPart = Response.StreamPartEncoded
type Part = Response.PartEncoded
type Block = Types.Mutable<Response.TextPartEncoded | Response.ReasoningPartEncoded>

/** The parts of the whole answer, in the order in which they began. */
export const fold = (stream: ReadonlyArray<StreamPart>): Array<Part> => {
  const parts: Array<Part> = []
  /** Blocks without an end so far, by kind and id. */
  const open = new Map<string, Block>()
  let response: Types.Mutable<Response.ResponseMetadataPartEncoded> | undefined
  const begin = (block: Block, key: string): Block => {
    open.set(key, block)
    parts.push(block)
    return block
  }
  for (const part of stream) {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const type = part.type === "text-start" ? "text" : "reasoning"
        merge(begin({ type, text: "" }, `${type} ${part.id}`), part)
        break
      }
      case "text-delta":
      case "reasoning-delta": {
        const type = part.type === "text-delta" ? "text" : "reasoning"
        const key = `${type} ${part.id}`
        const block = open.get(key) ?? begin({ type, text: "" }, key)
        block.text += part.delta
        merge(block, part)
        break
      }
      case "text-end":
      case "reasoning-end": {
        const key = `${part.type === "text-end" ? "text" : "reasoning"} ${part.id}`
        const block = open.get(key)
        if (block !== undefined) merge(block, part)
        open.delete(key)
        break
      }
      case "response-metadata": {
        if (response === undefined) parts.push((response = { ...part }))
        else Object.assign(response, part)
        break
      }
      case "tool-result": {
        if (part.preliminary !== true) parts.push(part)
        break
      }
      case "tool-params-start":
      case "tool-params-delta":
      case "tool-params-end":
      case "error":
        break
      default:
        parts.push(part)
    }
  }
  return parts
}

/** True when a tool call of the program was begun and never made: the answer was cut inside its arguments. */
export const lacksCall = (stream: ReadonlyArray<StreamPart>): boolean => {
  let open = 0
  for (const part of stream) {
    if (isProviders(part)) continue
    if (part.type === "tool-params-start") open++
    else if (part.type === "tool-call") open--
  }
  return open > 0
}

/** True for a part of a tool that the provider runs itself. */
export const isProviders = (part: StreamPart | Part): boolean =>
  "providerExecuted" in part && part.providerExecuted === true

/** True for content. Keep-alives, metadata and the frames of blocks are no progress. */
export const isProgress = (part: StreamPart): boolean => {
  switch (part.type) {
    case "text-delta":
    case "reasoning-delta":
      return part.delta !== ""
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
    case "response-metadata":
    case "error":
      return false
    default:
      return true
  }
}

/** As effect/ai does when it makes a conversation of a stream: namespace by namespace, field by field. */
const merge = (block: Block, { metadata }: StreamPart): void => {
  if (metadata === undefined) return
  const merged: Record<string, Schema.Json> = { ...block.metadata }
  for (const [namespace, fields] of Object.entries(metadata)) {
    const known = merged[namespace]
    merged[namespace] =
      Predicate.isObject(known) && Predicate.isObject(fields)
        ? Object.assign({}, known, fields)
        : (fields ?? null)
  }
  block.metadata = merged
}
