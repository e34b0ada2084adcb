/**
 * Encodes an answer as a Responses response, whole or as server-sent events.
 *
 * Items never interleave. There is no finish reason: clients recognise calls by the items, and an answer that was cut
 * is `incomplete`. If its last item is a call, that item is never done.
 */
import type { Schema } from "effect"
import type { FinishReason, Speech, WireError } from "../../plan/FaultPlan.ts"
import type { Block, Delta } from "../../plan/Answer.ts"
import { blocks, sameBlock } from "../../plan/Answer.ts"
import { worded } from "../openai/errors.ts"
import { seal } from "../seal.ts"
import type { Context, Frames, Kept } from "../Wire.ts"
import type { Body } from "./body.ts"

type Fields = Readonly<Record<string, Schema.Json>>

/** The reason for an incomplete answer. */
const incomplete: Readonly<Record<FinishReason, string | undefined>> = {
  stop: undefined,
  "tool-calls": undefined,
  length: "max_output_tokens",
  "content-filter": "content_filter"
}

export const answer = (body: Body, speech: Speech, context: Context): Schema.Json => {
  const items = itemsOf(body, speech, context)
  return { ...response(body, context), ...ending(speech), output: items, usage: usageOf(speech) }
}

/** Returns the items to store: those of the whole response with everything before it, and each of its items. */
export const keeps = (body: Body, speech: Speech, context: Context): ReadonlyMap<string, Kept> => {
  if (body.store === false) return new Map()
  const items = itemsOf(body, speech, context)
  const kept = new Map<string, Kept>([[responseId(context), [...body.json, ...items]]])
  for (const item of items) kept.set(item.id, [item])
  return kept
}

export const stream = (body: Body, speech: Speech, context: Context): Frames => {
  let sequence = 0
  const say = (type: string, fields: Fields): string =>
    event({ type, sequence_number: sequence++, ...fields })
  const begun = { ...response(body, context), status: "in_progress", output: [], usage: null }
  const head = say("response.created", { response: begun }) + say("response.in_progress", { response: begun })

  const said = blocks(speech.deltas, speech.all)
  const items = itemsOf(body, speech, context)
  let output_index = -1
  const done = (): string => {
    const [block, item] = [said[output_index], items[output_index]]
    return block === undefined || item === undefined ? "" : closing(say, block, item, output_index)
  }
  const deltas = speech.deltas.map((delta, i) => {
    const before = speech.deltas[i - 1]
    const opens = before === undefined || !sameBlock(before, delta)
    if (opens) output_index++
    const item = items[output_index]
    if (item === undefined) return ""
    return (
      (opens ? opening(say, delta, item, output_index) : "") +
      moving(say, delta, { item_id: item.id, output_index }) +
      (isLast(speech, i) ? done() : "")
    )
  })

  const last = said.at(-1)
  const finished = { ...response(body, context), output: items, usage: usageOf(speech) }
  const tail = (): string => {
    if (speech.end.type === "error") return failing(say, finished, speech)
    const open = last !== undefined && !last.complete && !(last.type === "params" && isLimited(speech))
    const status = ending(speech)
    return (open ? done() : "") + say(`response.${status.status}`, { response: { ...finished, ...status } })
  }
  return { head, deltas, tail: tail() }
}

/** True when the delta is the last of its block. */
const isLast = ({ all }: Speech, i: number): boolean => {
  const [delta, next] = [all[i], all[i + 1]]
  return delta === undefined || next === undefined || !sameBlock(delta, next)
}

export const event = (data: Fields): string =>
  `event: ${String(data["type"])}\ndata: ${JSON.stringify(data)}\n\n`

type Say = (type: string, fields: Fields) => string

interface Item extends Fields {
  readonly id: string
}

const opening = (say: Say, { type }: Delta, item: Item, output_index: number): string => {
  const at = { item_id: item.id, output_index }
  switch (type) {
    case "reasoning": {
      const sealed = item["encrypted_content"]
      // A provisional value, shorter than that of the finished item.
      const provisional = typeof sealed === "string" ? sealed.slice(0, 16) : null
      return (
        say("response.output_item.added", {
          output_index,
          item: { ...item, summary: [], encrypted_content: provisional }
        }) +
        say("response.reasoning_summary_part.added", {
          ...at,
          summary_index: 0,
          part: { type: "summary_text", text: "" }
        })
      )
    }
    case "text":
      return (
        say("response.output_item.added", {
          output_index,
          item: { ...item, status: "in_progress", content: [] }
        }) + say("response.content_part.added", { ...at, content_index: 0, part: outputText("") })
      )
    case "params":
      return say("response.output_item.added", {
        output_index,
        item: { ...item, status: "in_progress", arguments: "" }
      })
  }
}

const moving = (say: Say, { type, text: delta }: Delta, at: Fields): string => {
  switch (type) {
    case "reasoning":
      return say("response.reasoning_summary_text.delta", { ...at, summary_index: 0, delta })
    case "text":
      return say("response.output_text.delta", { ...at, content_index: 0, delta, logprobs: [] })
    case "params":
      return say("response.function_call_arguments.delta", { ...at, delta })
  }
}

const closing = (say: Say, { type, text }: Block, item: Item, output_index: number): string => {
  const at = { item_id: item.id, output_index }
  const done = () => say("response.output_item.done", { output_index, item })
  switch (type) {
    case "reasoning": {
      const place = { ...at, summary_index: 0 }
      return (
        say("response.reasoning_summary_text.done", { ...place, text }) +
        say("response.reasoning_summary_part.done", { ...place, part: { type: "summary_text", text } }) +
        done()
      )
    }
    case "text": {
      const place = { ...at, content_index: 0 }
      return (
        say("response.output_text.done", { ...place, text, logprobs: [] }) +
        say("response.content_part.done", { ...place, part: outputText(text) }) +
        done()
      )
    }
    case "params":
      return (
        say("response.function_call_arguments.done", { ...at, arguments: text, name: item["name"] ?? "" }) +
        done()
      )
  }
}

/** Encodes the error in the form that the plan asks for. */
const failing = (say: Say, response: Fields, { end, fault }: Speech): string => {
  if (end.type !== "error") return ""
  const { type, code, message } = coded(end.error)
  switch (fault?.type === "stream-error" ? fault.form : undefined) {
    case "flat":
      return say("error", { code, message, param: null })
    case "nested":
      return say("error", { error: { type, code, message, param: null } })
    default:
      return say("response.failed", { response: { ...response, status: "failed", error: { code, message } } })
  }
}

/** Errors inside streams have a code. Only one form has the type. */
const coded = (error: WireError) => {
  const { type, code, message } = worded(error)
  return { type, message, code: code ?? codes[type] ?? type }
}

const codes: Readonly<Record<string, string | undefined>> = { overloaded_error: "slow_down" }

const itemsOf = (body: Body, speech: Speech, context: Context): ReadonlyArray<Item> =>
  blocks(speech.deltas, speech.all).map((block, i): Item => {
    const suffix = `${responseId(context).slice("resp_".length)}${i}`
    const status = block.complete || !isLimited(speech) ? "completed" : "incomplete"
    switch (block.type) {
      case "reasoning": {
        const id = `rs_${suffix}`
        const encrypted = body.include?.includes("reasoning.encrypted_content") ?? false
        return {
          type: "reasoning",
          id,
          summary: [{ type: "summary_text", text: block.text }],
          encrypted_content: encrypted ? seal(context.organisation, id) : null
        }
      }
      case "text":
        return {
          type: "message",
          id: `msg_${suffix}`,
          role: "assistant",
          status,
          content: [outputText(block.text)]
        }
      case "params": {
        const { id = "", name = "" } = speech.toolCalls[block.call] ?? {}
        return { type: "function_call", id: `fc_${suffix}`, call_id: id, name, arguments: block.text, status }
      }
    }
  })

const outputText = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] })

const responseId = ({ index }: Context): string => `resp_${String(index).padStart(24, "0")}`

const response = (body: Body, context: Context) => ({
  id: responseId(context),
  object: "response",
  created_at: Math.floor(context.now / 1_000),
  model: body.model,
  error: null,
  incomplete_details: null,
  previous_finishedid: body.previous_response_id ?? null,
  store: body.store ?? true,
  service_tier: "default"
})

/** True when the answer was cut and says so. */
const isLimited = ({ end }: Speech): boolean => end.type === "finish" && incomplete[end.reason] !== undefined

const ending = ({ end }: Speech) => {
  const reason = end.type === "finish" ? incomplete[end.reason] : undefined
  return reason === undefined
    ? { status: "completed", incomplete_details: null }
    : { status: "incomplete", incomplete_details: { reason } }
}

const usageOf = (speech: Speech) => {
  const { input, output, cacheRead, cacheWrite } = speech.usage
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cacheRead, cache_write_tokens: cacheWrite },
    output_tokens: output,
    output_tokens_details: {
      reasoning_tokens: speech.deltas.filter(({ type }) => type === "reasoning").length
    },
    total_tokens: input + output
  }
}
