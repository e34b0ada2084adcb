/**
 * Encodes an answer as a Messages response, whole or as server-sent events.
 *
 * Blocks never interleave. A stream has a ping after its start, one delta event per delta, and cumulative counts at its
 * end. Undocumented fields are sent too.
 */
import type { Schema } from "effect"
import type { FinishReason, Speech } from "../../plan/FaultPlan.ts"
import type { Delta } from "../../plan/Answer.ts"
import { blocks, sameBlock } from "../../plan/Answer.ts"
import { parse } from "../shape.ts"
import type { Context, Frames } from "../Wire.ts"
import type { Body } from "./body.ts"
import { prefixOf, sign } from "./signature.ts"

const stopReasons: Record<FinishReason, string> = {
  stop: "end_turn",
  length: "max_tokens",
  "tool-calls": "tool_use",
  "content-filter": "refusal"
}

export const answer = (body: Body, speech: Speech, context: Context): Schema.Json => {
  const signature = signerOf(body, context)
  const content = blocks(speech.deltas, speech.all).map((block): Schema.Json => {
    switch (block.type) {
      case "reasoning":
        return { type: "thinking", thinking: shown(body, block.text), signature: signature(block.text) }
      case "text":
        return { type: "text", text: block.text, citations: null }
      case "params": {
        const call = speech.toolCalls[block.call]
        return {
          type: "tool_use",
          id: call?.id ?? "",
          name: call?.name ?? "",
          input: parse(block.text) ?? {}
        }
      }
    }
  })
  return {
    ...message(body, context),
    content: mustThink(body, speech)
      ? [{ type: "thinking", thinking: "", signature: signature("") }, ...content]
      : content,
    ...ending(speech),
    usage: { ...inputUsage(speech), ...outputUsage(speech), service_tier: "standard" }
  }
}

export const stream = (body: Body, speech: Speech, context: Context): Frames => {
  const signature = signerOf(body, context)
  const start = event("message_start", {
    message: {
      ...message(body, context),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { ...inputUsage(speech), output_tokens: 1, service_tier: "standard" }
    }
  })
  let index = -1
  const opened = (block: Schema.Json): string =>
    event("content_block_start", { index: ++index, content_block: block })
  const closed = (): string => event("content_block_stop", { index })
  const moved = (delta: Schema.Json): string => event("content_block_delta", { index, delta })
  const signed = (text: string): string => moved({ type: "signature_delta", signature: signature(text) })

  const unspoken = mustThink(body, speech)
    ? opened({ type: "thinking", thinking: "", signature: "" }) + signed("") + closed()
    : ""
  let thought = ""
  const ends = (delta: Delta): string => (delta.type === "reasoning" ? signed(thought) : "") + closed()
  const starts = (delta: Delta): string => {
    switch (delta.type) {
      case "reasoning":
        return opened({ type: "thinking", thinking: "", signature: "" })
      case "text":
        return opened({ type: "text", text: "" })
      case "params": {
        const call = speech.toolCalls[delta.call]
        const block = { type: "tool_use", id: call?.id ?? "", name: call?.name ?? "", input: {} }
        return opened(block) + moved({ type: "input_json_delta", partial_json: "" })
      }
    }
  }
  const frame = (delta: Delta): string => {
    switch (delta.type) {
      case "reasoning":
        thought += delta.text
        return shown(body, delta.text) === "" ? "" : moved({ type: "thinking_delta", thinking: delta.text })
      case "text":
        return moved({ type: "text_delta", text: delta.text })
      case "params":
        return moved({ type: "input_json_delta", partial_json: delta.text })
    }
  }
  const deltas = speech.deltas.map((delta, i) => {
    const before = speech.deltas[i - 1]
    if (before !== undefined && sameBlock(before, delta)) return frame(delta)
    return (before === undefined ? "" : ends(before)) + starts(delta) + frame(delta)
  })
  const last = speech.deltas.at(-1)
  const usage = { ...inputUsage(speech), ...outputUsage(speech) }
  return {
    head: start + event("ping", {}) + unspoken,
    deltas,
    tail:
      speech.end.type === "error"
        ? event("error", { error: { ...speech.end.error }, request_id: context.requestId })
        : (last === undefined ? "" : ends(last)) +
          event("message_delta", { delta: ending(speech), usage }) +
          event("message_stop", {})
  }
}

export const event = (type: string, fields: Readonly<Record<string, Schema.Json>>): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`

const message = (body: Body, context: Context) => ({
  id: `msg_01${String(context.index).padStart(22, "0")}`,
  type: "message",
  role: "assistant",
  model: body.model,
  container: null,
  diagnostics: null
})

const ending = (speech: Speech) => {
  const reason = speech.end.type === "finish" ? speech.end.reason : undefined
  return {
    stop_reason: reason === undefined ? null : stopReasons[reason],
    stop_sequence: null,
    stop_details: reason === "content-filter" ? { type: "refusal", category: null, explanation: null } : null
  }
}

const inputUsage = ({ usage: { input, cacheRead, cacheWrite } }: Speech) => ({
  input_tokens: Math.max(0, input - cacheRead - cacheWrite),
  cache_creation_input_tokens: cacheWrite,
  cache_read_input_tokens: cacheRead,
  cache_creation: { ephemeral_5m_input_tokens: cacheWrite, ephemeral_1h_input_tokens: 0 }
})

const outputUsage = (speech: Speech) => ({
  output_tokens: speech.usage.output,
  output_tokens_details: { thinking_tokens: speech.deltas.filter(({ type }) => type === "reasoning").length }
})

const signerOf = (body: Body, { organisation }: Context) => {
  const prefix = prefixOf(body, body.messages.length)
  return (text: string): string => sign(body.model, text, prefix, organisation)
}

/** With `display: omitted` the thinking is signed but not shown. */
const shown = (body: Body, text: string): string => (body.thinking?.display === "omitted" ? "" : text)

/** With thinking `enabled`, every answer starts with thinking. An answer without any gets an empty block. */
const mustThink = (body: Body, speech: Speech): boolean =>
  body.thinking?.type === "enabled" && speech.all.every(({ type }) => type !== "reasoning")
