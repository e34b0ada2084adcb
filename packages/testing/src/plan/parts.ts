/**
 * Encodes an answer as the parts of effect/ai, for `ScriptedModel`.
 *
 * A tool call with incomplete arguments has the partial text as its arguments, as the clients of real models return it.
 * An answer with a finish reason that admits the cut has no such call.
 */
import type { Response } from "effect/ai"
import type { Speech } from "./FaultPlan.ts"
import type { Delta } from "./Answer.ts"
import { blocks, sameBlock } from "./Answer.ts"

/** All parts of an answer without streaming. */
export const whole = (speech: Speech): Array<Response.PartEncoded> => {
  const parts: Array<Response.PartEncoded> = []
  for (const block of blocks(speech.deltas, speech.all)) {
    if (block.type !== "params") parts.push({ type: block.type, text: block.text })
    else if (block.complete) parts.push(toolCall(speech, block.call))
    else if (claimsWhole(speech)) parts.push({ ...toolCall(speech, block.call), params: block.text })
  }
  return [...parts, finish(speech)]
}

/** The parts of each delta, and those of a regular end. */
export const streamed = (speech: Speech, model: string) => {
  const deltas = speech.deltas.map((delta, i): ReadonlyArray<Response.StreamPartEncoded> => {
    const before = speech.all[i - 1]
    const after = speech.all[i + 1]
    const opens = before === undefined || !sameBlock(before, delta)
    const closes = after === undefined || !sameBlock(delta, after)
    const start: ReadonlyArray<Response.StreamPartEncoded> =
      i === 0 ? [{ type: "response-metadata", id: "scripted", modelId: model }] : []
    return [
      ...start,
      ...(opens ? [opening(speech, delta)] : []),
      content(speech, delta),
      ...(closes ? closing(speech, delta) : [])
    ]
  })
  const last = speech.deltas.at(-1)
  const next = speech.all[speech.deltas.length]
  const cut = last !== undefined && next !== undefined && sameBlock(last, next)
  const end: ReadonlyArray<Response.StreamPartEncoded> = [
    ...(cut ? cutting(speech, last) : []),
    finish(speech)
  ]
  return { deltas, end }
}

/** The parts that close a block which the finish cuts. */
const cutting = (speech: Speech, last: Delta): ReadonlyArray<Response.StreamPartEncoded> => {
  if (last.type !== "params") return closing(speech, last)
  if (!claimsWhole(speech)) return []
  const params = speech.deltas
    .map((delta) => (delta.type === "params" && delta.call === last.call ? delta.text : ""))
    .join("")
  return [
    { type: "tool-params-end", id: idOf(speech, last) },
    { ...toolCall(speech, last.call), params }
  ]
}

/** True when the finish reason does not admit that the answer was cut. */
const claimsWhole = ({ end }: Speech): boolean =>
  end.type === "finish" && end.reason !== "length" && end.reason !== "content-filter"

const idOf = (speech: Speech, delta: Delta): string =>
  delta.type === "params" ? (speech.toolCalls[delta.call]?.id ?? "") : delta.type

const opening = (speech: Speech, delta: Delta): Response.StreamPartEncoded => {
  const id = idOf(speech, delta)
  return delta.type === "params"
    ? { type: "tool-params-start", id, name: speech.toolCalls[delta.call]?.name ?? "" }
    : { type: `${delta.type}-start`, id }
}

const content = (speech: Speech, delta: Delta): Response.StreamPartEncoded => ({
  type: delta.type === "params" ? "tool-params-delta" : `${delta.type}-delta`,
  id: idOf(speech, delta),
  delta: delta.text
})

const closing = (speech: Speech, delta: Delta): ReadonlyArray<Response.StreamPartEncoded> => {
  const id = idOf(speech, delta)
  return delta.type === "params"
    ? [{ type: "tool-params-end", id }, toolCall(speech, delta.call)]
    : [{ type: `${delta.type}-end`, id }]
}

const toolCall = (speech: Speech, index: number): Response.ToolCallPartEncoded => ({
  type: "tool-call",
  id: speech.toolCalls[index]?.id ?? "",
  name: speech.toolCalls[index]?.name ?? "",
  params: speech.toolCalls[index]?.params ?? {}
})

const finish = (speech: Speech): Response.FinishPartEncoded => {
  const { input, output, cacheRead, cacheWrite } = speech.usage
  return {
    type: "finish",
    reason: speech.end.type === "finish" ? speech.end.reason : "unknown",
    usage: {
      inputTokens: {
        uncached: Math.max(0, input - cacheRead - cacheWrite),
        total: input,
        cacheRead,
        cacheWrite
      },
      outputTokens: { total: output }
    }
  }
}
