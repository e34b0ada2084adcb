/**
 * Streams of the three wire formats, and of Gemini, for one answer: thinking, a text in pieces, a call of a tool.
 */
import type { Format } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

export interface Answer {
  readonly id: string
  readonly model?: string
  readonly thinking?: string | undefined
  readonly text: ReadonlyArray<string>
  /** Arguments in pieces. */
  readonly call?: ReadonlyArray<string> | undefined
  readonly tokens?: number
}

const chat = ({ call, id, model = "m", text, thinking, tokens = 7 }: Answer): ReadonlyArray<object> => {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id,
    object: "chat.completion.chunk",
    created: 1,
    model,
    choices: [{ index: 0, delta, finish_reason }]
  })
  return [
    chunk({ role: "assistant", content: "" }),
    ...(thinking === undefined ? [] : [chunk({ reasoning_content: thinking })]),
    ...text.map((content) => chunk({ content })),
    ...(call ?? []).map((piece, i) =>
      chunk({
        tool_calls: [
          i === 0
            ? { index: 0, id: `call_${id}`, type: "function", function: { name: "look", arguments: piece } }
            : { index: 0, function: { arguments: piece } }
        ]
      })
    ),
    chunk({}, call === undefined ? "stop" : "tool_calls"),
    {
      id,
      object: "chat.completion.chunk",
      created: 1,
      model,
      choices: [],
      usage: { prompt_tokens: 5, completion_tokens: tokens, total_tokens: 5 + tokens }
    }
  ]
}

const messages = ({ call, id, model = "m", text, thinking, tokens = 7 }: Answer): ReadonlyArray<object> => {
  const blocks: Array<ReadonlyArray<object>> = []
  const block = (content_block: object, deltas: ReadonlyArray<object>) => {
    const index = blocks.length
    blocks.push([
      { type: "content_block_start", index, content_block },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index }
    ])
  }
  if (thinking !== undefined) {
    block({ type: "thinking", thinking: "", signature: "" }, [
      { type: "thinking_delta", thinking },
      { type: "signature_delta", signature: `signature-${id}` }
    ])
  }
  if (text.length > 0) {
    block(
      { type: "text", text: "" },
      text.map((piece) => ({ type: "text_delta", text: piece }))
    )
  }
  if (call !== undefined) {
    block(
      { type: "tool_use", id: `toolu_${id}`, name: "look", input: {} },
      call.map((partial_json) => ({ type: "input_json_delta", partial_json }))
    )
  }
  const usage = { input_tokens: 5, output_tokens: 1 }
  return [
    {
      type: "message_start",
      message: {
        id,
        type: "message",
        role: "assistant",
        model,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage
      }
    },
    ...blocks.flat(),
    {
      type: "message_delta",
      delta: { stop_reason: call === undefined ? "end_turn" : "tool_use", stop_sequence: null },
      usage: { output_tokens: tokens }
    },
    { type: "message_stop" }
  ]
}

const responses = ({ call, id, model = "m", text, thinking, tokens = 7 }: Answer): ReadonlyArray<object> => {
  const events: Array<object> = []
  const output: Array<object> = []
  const say = (type: string, more: object) => events.push({ type, sequence_number: events.length, ...more })
  const response = (status: string, more: object = {}) => ({
    response: { id, object: "response", created_at: 1, model, status, output: [...output], ...more }
  })
  say("response.created", response("in_progress"))
  say("response.in_progress", response("in_progress"))
  if (thinking !== undefined) {
    const output_index = output.length
    const item = { id: `rs_${id}`, type: "reasoning", summary: [] as Array<object> }
    const part = { type: "summary_text", text: "" }
    const at = { item_id: item.id, output_index, summary_index: 0 }
    say("response.output_item.added", { output_index, item })
    say("response.reasoning_summary_part.added", { ...at, part })
    say("response.reasoning_summary_text.delta", { ...at, delta: thinking })
    say("response.reasoning_summary_text.done", { ...at, text: thinking })
    const done = { ...part, text: thinking }
    say("response.reasoning_summary_part.done", { ...at, part: done })
    output.push({ ...item, summary: [done] })
    say("response.output_item.done", { output_index, item: output.at(-1) })
  }
  if (text.length > 0) {
    const output_index = output.length
    const item = { id: `msg_${id}`, type: "message", role: "assistant", status: "in_progress", content: [] }
    const part = { type: "output_text", text: "", annotations: [] }
    const at = { item_id: item.id, output_index, content_index: 0 }
    say("response.output_item.added", { output_index, item })
    say("response.content_part.added", { ...at, part })
    for (const delta of text) say("response.output_text.delta", { ...at, delta, logprobs: [] })
    const whole = text.join("")
    say("response.output_text.done", { ...at, text: whole, logprobs: [] })
    say("response.content_part.done", { ...at, part: { ...part, text: whole } })
    output.push({ ...item, status: "completed", content: [{ ...part, text: whole }] })
    say("response.output_item.done", { output_index, item: output.at(-1) })
  }
  if (call !== undefined) {
    const output_index = output.length
    const item = { id: `fc_${id}`, type: "function_call", call_id: `call_${id}`, name: "look", arguments: "" }
    const at = { item_id: item.id, output_index }
    say("response.output_item.added", { output_index, item })
    for (const delta of call) say("response.function_call_arguments.delta", { ...at, delta })
    say("response.function_call_arguments.done", { ...at, arguments: call.join("") })
    output.push({ ...item, arguments: call.join(""), status: "completed" })
    say("response.output_item.done", { output_index, item: output.at(-1) })
  }
  const usage = {
    input_tokens: 5,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 5 + tokens
  }
  say("response.completed", response("completed", { usage }))
  return events
}

const gemini = ({ call, id, model = "m", text, thinking, tokens = 7 }: Answer): ReadonlyArray<object> => {
  const chunk = (parts: ReadonlyArray<object>, more: object = {}) => ({
    candidates: [{ content: { parts, role: "model" }, index: 0, ...more }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: tokens, totalTokenCount: 5 + tokens },
    modelVersion: model,
    responseId: id
  })
  return [
    ...(thinking === undefined ? [] : [chunk([{ text: thinking, thought: true }])]),
    ...text.map((piece) => chunk([{ text: piece }])),
    ...(call === undefined
      ? []
      : [chunk([{ functionCall: { name: "look", args: JSON.parse(call.join("")) } }])]),
    chunk([{ text: "" }], { finishReason: "STOP" })
  ]
}

/** The events of an answer, as they travel. */
export const stream = (wire: Format, answer: Answer): ReadonlyArray<string> => {
  const values = { chat, gemini, messages, responses }[wire](answer).map((value) => JSON.stringify(value))
  return [...values, ...(wire === "chat" ? ["[DONE]"] : [])].map((each) => Vendor.events(wire, [each]))
}

/** What the assistant has said last in a request, behind which the user asks to go on. */
export const partialOf = ({ body }: Pick<Vendor.Hit, "body">): string => {
  const turns: ReadonlyArray<Turn> =
    body.messages ?? body.contents ?? (Array.isArray(body.input) ? body.input : [])
  const last = turns.findLast(({ role }) => role === "assistant" || role === "model")
  const content = last?.content ?? last?.parts ?? ""
  return typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("")
}

interface Turn {
  readonly role?: string
  readonly content?: string | ReadonlyArray<{ readonly text?: string }>
  readonly parts?: ReadonlyArray<{ readonly text?: string }>
}
