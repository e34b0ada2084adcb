/**
 * Encodes an answer as a Gemini response, whole or as server-sent events.
 *
 * Every event is a whole response object with an increment of text. A function call is sent whole, with the last of its
 * deltas; a call that was cut is not sent at all. Gemini 3 and later sign the first function call of an answer. They
 * sign the text of an answer without calls in a last part that has no text.
 */
import type { Schema } from "effect"
import type { FinishReason, Speech } from "../../plan/FaultPlan.ts"
import type { Delta } from "../../plan/Answer.ts"
import { blocks, sameBlock } from "../../plan/Answer.ts"
import type { Context, Frames } from "../Wire.ts"
import type { Body } from "./body.ts"
import * as Errors from "./errors.ts"
import { isNewer } from "./Input.ts"
import { sign } from "./signatureRules.ts"

const finishReasons: Record<FinishReason, string> = {
  stop: "STOP",
  length: "MAX_TOKENS",
  // A finish by tool calls is "STOP" too. Clients recognise calls by the parts.
  "tool-calls": "STOP",
  "content-filter": "SAFETY"
}

export const answer = (body: Body, model: string, speech: Speech, context: Context): Schema.Json => {
  const parts = blocks(speech.deltas, speech.all).flatMap((block): ReadonlyArray<Schema.Json> => {
    switch (block.type) {
      case "reasoning":
        return thoughts(body, block.text)
      case "text":
        return [{ text: block.text, ...textSignature(model, speech) }]
      case "params":
        return block.complete ? [call(model, speech, block.call)] : []
    }
  })
  return response(model, speech, context, parts, speech.deltas.length, true)
}

export const stream = (body: Body, model: string, speech: Speech, context: Context): Frames => {
  const chunk = (parts: ReadonlyArray<Schema.Json>, sent: number, last = false): string =>
    line(response(model, speech, context, parts, sent, last))
  const partsOf = (delta: Delta, next: Delta | undefined): ReadonlyArray<Schema.Json> => {
    switch (delta.type) {
      case "reasoning":
        return thoughts(body, delta.text)
      case "text":
        return [{ text: delta.text }]
      case "params":
        return next === undefined || !sameBlock(delta, next) ? [call(model, speech, delta.call)] : []
    }
  }
  return {
    head: "",
    deltas: speech.deltas.map((delta, i) => {
      const parts = partsOf(delta, speech.all[i + 1])
      return parts.length === 0 ? "" : chunk(parts, i + 1)
    }),
    tail:
      speech.end.type === "error"
        ? line(Errors.bodyOfWireError(speech.end.error))
        : chunk([{ text: "", ...textSignature(model, speech) }], speech.deltas.length, true)
  }
}

const line = (data: Schema.Json): string => `data: ${JSON.stringify(data)}\n\n`

const response = (
  model: string,
  speech: Speech,
  { requestId, now }: Context,
  parts: ReadonlyArray<Schema.Json>,
  sent: number,
  last: boolean
): Schema.Json => ({
  candidates: [
    {
      // Thoughts may have used the whole budget. There is no part then.
      content: { role: "model", ...(parts.length === 0 ? {} : { parts }) },
      ...(last && speech.end.type === "finish" ? { finishReason: finishReasons[speech.end.reason] } : {}),
      index: 0,
      safetyRatings: []
    }
  ],
  usageMetadata: usageOf(speech, sent, last),
  modelVersion: model,
  responseId: requestId,
  createTime: new Date(now).toISOString()
})

/** Cumulative counts; the last one applies. Output tokens exclude thoughts, input tokens include the cache. */
const usageOf = ({ deltas, usage: { input, output, cacheRead } }: Speech, sent: number, last: boolean) => {
  const thoughtsTokenCount = deltas.slice(0, sent).filter(({ type }) => type === "reasoning").length
  const candidatesTokenCount = Math.max(0, (last ? output : sent) - thoughtsTokenCount)
  return {
    promptTokenCount: input,
    cachedContentTokenCount: cacheRead,
    candidatesTokenCount,
    thoughtsTokenCount,
    totalTokenCount: input + candidatesTokenCount + thoughtsTokenCount
  }
}

const thoughts = ({ generationConfig }: Body, text: string): ReadonlyArray<Schema.Json> =>
  generationConfig?.thinkingConfig?.includeThoughts === false ? [] : [{ text, thought: true }]

const call = (model: string, { toolCalls }: Speech, index: number): Schema.Json => {
  const { id = "", name = "", params = {} } = toolCalls[index] ?? {}
  return {
    functionCall: {
      name,
      // Parameters of a plan are JSON.
      args: params as Schema.Json,
      // Older models send no id.
      ...(isNewer(model) ? { id } : {})
    },
    ...(isNewer(model) && index === 0 ? { thoughtSignature: sign(model, name) } : {})
  }
}

const textSignature = (model: string, { toolCalls }: Speech) =>
  isNewer(model) && toolCalls.length === 0 ? { thoughtSignature: sign(model, "") } : {}
