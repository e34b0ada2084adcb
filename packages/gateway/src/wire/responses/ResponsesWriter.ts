/**
 * Writes answers of other formats as OpenAI Responses. The encoder numbers the events, ends texts and thinking, and collects
 * the items. Thinking is marked as that which was cut: it is taken out of later requests. Pure.
 */
import type { Response } from "effect/ai"
import { fields, parse, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Part, Usage, Whole, Writer, Writing } from "../Wire.ts"
import { cut } from "./ResponsesEncoder.ts"

export class ResponsesWriter implements Writer {
  readonly #writing: Writing
  /** The index of the open item, its id and its content. */
  #output = -1
  #item = ""
  #said = ""
  #name = ""
  constructor(writing: Writing) {
    this.#writing = writing
  }

  begin(): ReadonlyArray<Fields> {
    const response = { ...base(this.#writing), status: "in_progress", output: [] }
    return [
      { type: "response.created", response },
      { type: "response.in_progress", response }
    ]
  }

  part(part: Part): ReadonlyArray<Fields> {
    switch (part.type) {
      case "text-start": {
        const item = { type: "message", role: "assistant", status: "in_progress", content: [] }
        return [
          this.#added("msg", item),
          this.#event("response.content_part.added", {
            content_index: 0,
            part: { type: "output_text", text: "", annotations: [] }
          })
        ]
      }
      case "text-delta":
        return [this.#event("response.output_text.delta", { content_index: 0, delta: part.delta })]
      case "reasoning-start":
        return [this.#added("rs", { type: "reasoning", summary: [] })]
      case "reasoning-delta": {
        const begun =
          this.#said === ""
            ? [
                this.#event("response.reasoning_summary_part.added", {
                  summary_index: 0,
                  part: { type: "summary_text", text: "" }
                })
              ]
            : []
        this.#said += part.delta
        const delta = { summary_index: 0, delta: part.delta }
        return [...begun, this.#event("response.reasoning_summary_text.delta", delta)]
      }
      case "tool-params-start":
        this.#name = part.name
        return [this.#added("fc", callOf(part.id, part.name, "", this.#writing))]
      case "tool-params-delta": {
        this.#said += part.delta
        return this.#isText
          ? []
          : [this.#event("response.function_call_arguments.delta", { delta: part.delta })]
      }
      case "tool-params-end": {
        const call = callOf(part.id, this.#name, this.#said, this.#writing)
        const said = this.#isText
          ? [
              this.#event("response.custom_tool_call_input.delta", { delta: call["input"] }),
              this.#event("response.custom_tool_call_input.done", { input: call["input"] })
            ]
          : [this.#event("response.function_call_arguments.done", { arguments: this.#said })]
        const item = { id: this.#item, ...call }
        return [...said, { type: "response.output_item.done", output_index: this.#output, item }]
      }
      case "finish": {
        const end = endOf(part.reason)
        const type = end["status"] === "completed" ? "response.completed" : "response.incomplete"
        const response = { ...base(this.#writing), ...end, output: [], usage: usageOf(part.usage) }
        return [{ type, response }]
      }
      default:
        return []
    }
  }

  /** The open call is one of a tool whose input is any text. */
  get #isText(): boolean {
    return isText(this.#writing.calls.get(this.#name))
  }

  #added(prefix: string, item: Fields): Fields {
    this.#output++
    this.#item = `${prefix}_${this.#writing.unique}${this.#output}`
    this.#said = ""
    return {
      type: "response.output_item.added",
      output_index: this.#output,
      item: { id: this.#item, ...item }
    }
  }

  #event(type: string, more: Fields): Fields {
    return { type, item_id: this.#item, output_index: this.#output, ...more }
  }
}

const base = ({ body, created, model, unique }: Writing): Fields => ({
  id: `resp_${unique}`,
  object: "response",
  created_at: created,
  model,
  error: null,
  incomplete_details: null,
  instructions: body["instructions"] ?? null,
  metadata: body["metadata"] ?? {},
  parallel_tool_calls: body["parallel_tool_calls"] ?? true,
  previous_response_id: null,
  temperature: body["temperature"] ?? null,
  tool_choice: body["tool_choice"] ?? "auto",
  tools: body["tools"] ?? [],
  top_p: body["top_p"] ?? null
})

const isText = (tool: Fields | undefined): boolean => tool?.["type"] === "custom_tool_call"

/** The item of a call, with arguments as the model wrote them. */
const callOf = (call_id: string, name: string, said: string, { calls }: Writing): Fields => {
  const tool = calls.get(name)
  const own = { type: "function_call", name, ...tool, call_id }
  return isText(tool)
    ? { ...own, input: text(fields(parse(said))["input"]) }
    : { ...own, arguments: said, status: said === "" ? "in_progress" : "completed" }
}

export const body = (parts: ReadonlyArray<Whole>, writing: Writing): Fields => {
  const output = parts.flatMap((part, i): ReadonlyArray<Fields> => {
    const id = `${writing.unique}${i}`
    if (part.type === "text" && part.text !== "") {
      const content = [{ type: "output_text", text: part.text, annotations: [] }]
      return [{ id: `msg_${id}`, type: "message", role: "assistant", status: "completed", content }]
    }
    if (part.type === "reasoning" && part.text !== "") {
      const summary = [{ type: "summary_text", text: part.text }]
      return [{ id: `rs_${id}`, type: "reasoning", status: "completed", summary, encrypted_content: cut }]
    }
    return part.type === "tool-call"
      ? [{ id: `fc_${id}`, ...callOf(part.id, part.name, writing.written(part), writing) }]
      : []
  })
  const finish = parts.find((part) => part.type === "finish")
  return {
    ...base(writing),
    ...endOf(finish?.reason ?? "stop"),
    output,
    ...(finish === undefined ? {} : { usage: usageOf(finish.usage) })
  }
}

const endOf = (reason: Response.FinishReason): Fields => {
  if (reason !== "length" && reason !== "content-filter") return { status: "completed" }
  const why = reason === "length" ? "max_output_tokens" : "content_filter"
  return { status: "incomplete", incomplete_details: { reason: why } }
}

const usageOf = ({ inputTokens, outputTokens }: Usage): Fields => {
  const input = inputTokens.total ?? 0
  const out = outputTokens.total ?? 0
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: inputTokens.cacheRead ?? 0 },
    output_tokens: out,
    output_tokens_details: { reasoning_tokens: outputTokens.reasoning ?? 0 },
    total_tokens: input + out
  }
}
