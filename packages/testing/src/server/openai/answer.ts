/**
 * Encodes an answer as a Chat Completions response, whole or as server-sent events.
 *
 * This endpoint does not send reasoning. Deltas of reasoning take their time and are counted, but send nothing.
 */
import type { Schema } from "effect"
import type { FinishReason, Speech } from "../../plan/FaultPlan.ts"
import type { Delta } from "../../plan/Answer.ts"
import { blocks, sameBlock } from "../../plan/Answer.ts"
import type { Context, Frames } from "../Wire.ts"
import type { Body } from "./body.ts"
import * as Errors from "./errors.ts"

const finishReasons: Record<FinishReason, string> = {
  stop: "stop",
  length: "length",
  "tool-calls": "tool_calls",
  "content-filter": "content_filter"
}

export const answer = (body: Body, speech: Speech, context: Context): Schema.Json => {
  const said = blocks(speech.deltas, speech.all)
  const text = said.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("")
  const calls = said.flatMap((block) =>
    block.type === "params"
      ? [
          {
            id: idOf(speech, block.call),
            type: "function",
            function: { name: nameOf(speech, block.call), arguments: block.text }
          }
        ]
      : []
  )
  return {
    ...completion(body, context, "chat.completion"),
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: text === "" && calls.length > 0 ? null : text,
          refusal: null,
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
          annotations: []
        },
        logprobs: null,
        finish_reason: finishOf(speech)
      }
    ],
    usage: usageOf(speech)
  }
}

export const stream = (body: Body, speech: Speech, context: Context): Frames => {
  const withUsage = body.stream_options?.include_usage === true
  const chunk = (delta: Schema.Json, finish: string | null = null): string =>
    line({
      ...completion(body, context, "chat.completion.chunk"),
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      ...(withUsage ? { usage: null } : {})
    })
  const frame = (delta: Delta, before: Delta | undefined): string => {
    switch (delta.type) {
      case "reasoning":
        return ""
      case "text":
        return chunk({ content: delta.text })
      case "params": {
        const index = delta.call
        const id = idOf(speech, index)
        const opening = {
          index,
          id,
          type: "function",
          function: { name: nameOf(speech, index), arguments: "" }
        }
        const opens = before === undefined || !sameBlock(before, delta)
        return (
          (opens ? chunk({ tool_calls: [opening] }) : "") +
          chunk({ tool_calls: [{ index, function: { arguments: delta.text } }] })
        )
      }
    }
  }
  const usage = line({
    ...completion(body, context, "chat.completion.chunk"),
    choices: [],
    usage: usageOf(speech)
  })
  return {
    head: chunk({ role: "assistant", content: "", refusal: null }),
    deltas: speech.deltas.map((delta, i) => frame(delta, speech.deltas[i - 1])),
    tail:
      speech.end.type === "error"
        ? line(Errors.bodyOfWireError(speech.end.error))
        : chunk({}, finishOf(speech)) + (withUsage ? usage : "") + "data: [DONE]\n\n"
  }
}

const line = (data: Schema.Json): string => `data: ${JSON.stringify(data)}\n\n`

const completion = (body: Body, { index, now }: Context, object: string) => ({
  id: `chatcmpl-${String(index).padStart(24, "0")}`,
  object,
  created: Math.floor(now / 1_000),
  model: body.model,
  service_tier: "default",
  system_fingerprint: "fp_0000000000"
})

const finishOf = (speech: Speech): string | null =>
  speech.end.type === "finish" ? finishReasons[speech.end.reason] : null

const idOf = (speech: Speech, call: number): string => speech.toolCalls[call]?.id ?? ""

const nameOf = (speech: Speech, call: number): string => speech.toolCalls[call]?.name ?? ""

const usageOf = (speech: Speech) => {
  const { input, output, cacheRead, cacheWrite } = speech.usage
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cacheRead, cache_write_tokens: cacheWrite, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: speech.deltas.filter(({ type }) => type === "reasoning").length,
      audio_tokens: 0
    }
  }
}
