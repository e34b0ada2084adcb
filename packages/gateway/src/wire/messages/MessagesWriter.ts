/**
 * Writes answers of other formats as Anthropic Messages. Thinking has a signature that no vendor has made: it is taken out of
 * later requests. Pure.
 */
import type { Response } from "effect/ai"
import { isFields } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Part, Usage, Whole, Writer, Writing } from "../Wire.ts"
import { cut } from "./MessagesEncoder.ts"

export class MessagesWriter implements Writer {
  readonly #writing: Writing
  #index = -1
  #hasCalls = false

  constructor(writing: Writing) {
    this.#writing = writing
  }

  begin(): ReadonlyArray<Fields> {
    const usage = { input_tokens: 0, output_tokens: 0 }
    const message = { ...base(this.#writing), content: [], stop_reason: null, stop_sequence: null, usage }
    return [{ type: "message_start", message }]
  }

  part(part: Part): ReadonlyArray<Fields> {
    switch (part.type) {
      case "text-start":
        return [this.#start({ type: "text", text: "" })]
      case "text-delta":
        return [this.#delta({ type: "text_delta", text: part.delta })]
      case "reasoning-start":
        return [this.#start({ type: "thinking", thinking: "", signature: "" })]
      case "reasoning-delta":
        return [this.#delta({ type: "thinking_delta", thinking: part.delta })]
      case "tool-params-start":
        this.#hasCalls = true
        return [this.#start({ type: "tool_use", id: part.id, name: part.name, input: {} })]
      case "tool-params-delta":
        return [this.#delta({ type: "input_json_delta", partial_json: part.delta })]
      case "tool-params-end":
        return [{ type: "content_block_stop", index: this.#index }]
      case "finish": {
        const delta = { stop_reason: reasonOf(part.reason, this.#hasCalls), stop_sequence: null }
        return [{ type: "message_delta", delta, usage: usageOf(part.usage) }]
      }
      default:
        return []
    }
  }

  #start(content_block: Fields): Fields {
    return { type: "content_block_start", index: ++this.#index, content_block }
  }

  #delta(delta: Fields): Fields {
    return { type: "content_block_delta", index: this.#index, delta }
  }
}

const base = ({ model, unique }: Writing): Fields => ({
  id: `msg_${unique}`,
  type: "message",
  role: "assistant",
  model
})

export const body = (parts: ReadonlyArray<Whole>, writing: Writing): Fields => {
  const content = parts.flatMap((part): ReadonlyArray<Fields> => {
    if (part.type === "text") return part.text === "" ? [] : [{ type: "text", text: part.text }]
    if (part.type === "reasoning") {
      return part.text === "" ? [] : [{ type: "thinking", thinking: part.text, signature: cut }]
    }
    // A call that the output limit has cut has no object.
    return part.type === "tool-call" && isFields(part.params)
      ? [{ type: "tool_use", id: part.id, name: part.name, input: part.params }]
      : []
  })
  const finish = parts.find((part) => part.type === "finish")
  const hasCalls = parts.some(({ type }) => type === "tool-call")
  return {
    ...base(writing),
    content,
    stop_reason: reasonOf(finish?.reason ?? "stop", hasCalls),
    stop_sequence: null,
    ...(finish === undefined ? {} : { usage: usageOf(finish.usage) })
  }
}

const reasonOf = (reason: Response.FinishReason, hasCalls: boolean): string => {
  if (reason === "length") return "max_tokens"
  if (reason === "content-filter") return "refusal"
  if (reason === "pause") return "pause_turn"
  return hasCalls ? "tool_use" : "end_turn"
}

const usageOf = ({ inputTokens, outputTokens }: Usage): Fields => {
  const { cacheRead = 0, cacheWrite = 0, total = 0 } = inputTokens
  return {
    input_tokens: inputTokens.uncached ?? Math.max(0, total - cacheRead - cacheWrite),
    cache_read_input_tokens: cacheRead,
    cache_creation_input_tokens: cacheWrite,
    output_tokens: outputTokens.total ?? 0
  }
}
