/** Writes answers of other formats as Chat Completions. Thinking goes where DeepSeek has it: `reasoning_content`. Pure. */
import type { Response } from "effect/ai"
import { fields } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Part, Usage, Whole, Writer, Writing } from "../Wire.ts"

export class ChatWriter implements Writer {
  readonly #writing: Writing
  #calls = 0

  constructor(writing: Writing) {
    this.#writing = writing
  }

  begin(): ReadonlyArray<Fields> {
    return [this.#chunk({ role: "assistant", content: "" })]
  }

  part(part: Part): ReadonlyArray<Fields> {
    switch (part.type) {
      case "text-delta":
        return [this.#chunk({ content: part.delta })]
      case "reasoning-delta":
        return [this.#chunk({ reasoning_content: part.delta })]
      case "tool-params-start": {
        const { id, name } = part
        const call = { index: this.#calls++, id, type: "function", function: { name, arguments: "" } }
        return [this.#chunk({ tool_calls: [call] })]
      }
      case "tool-params-delta": {
        const call = { index: this.#calls - 1, function: { arguments: part.delta } }
        return [this.#chunk({ tool_calls: [call] })]
      }
      case "finish": {
        const end = this.#chunk({}, reasonOf(part.reason, this.#calls > 0))
        const asked = fields(this.#writing.body["stream_options"])["include_usage"] === true
        return asked ? [end, { ...base(this.#writing), choices: [], usage: usageOf(part.usage) }] : [end]
      }
      default:
        return []
    }
  }

  #chunk(delta: Fields, finish_reason: string | null = null): Fields {
    return { ...base(this.#writing), choices: [{ index: 0, delta, logprobs: null, finish_reason }] }
  }
}

const base = ({ created, model, unique }: Writing, object = "chat.completion.chunk"): Fields => ({
  id: `chatcmpl-${unique}`,
  object,
  created,
  model
})

export const body = (parts: ReadonlyArray<Whole>, writing: Writing): Fields => {
  const said = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")
  const thought = parts.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])).join("")
  const calls = parts.flatMap((part) =>
    part.type === "tool-call"
      ? [{ id: part.id, type: "function", function: { name: part.name, arguments: writing.written(part) } }]
      : []
  )
  const finish = parts.find((part) => part.type === "finish")
  const message = {
    role: "assistant",
    content: said === "" ? null : said,
    refusal: null,
    ...(thought === "" ? {} : { reasoning_content: thought }),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
  const finish_reason = reasonOf(finish?.reason ?? "stop", calls.length > 0)
  return {
    ...base(writing, "chat.completion"),
    choices: [{ index: 0, message, logprobs: null, finish_reason }],
    ...(finish === undefined ? {} : { usage: usageOf(finish.usage) })
  }
}

const reasonOf = (reason: Response.FinishReason, hasCalls: boolean): string => {
  if (reason === "length") return "length"
  if (reason === "content-filter") return "content_filter"
  return hasCalls ? "tool_calls" : "stop"
}

const usageOf = ({ inputTokens, outputTokens }: Usage): Fields => {
  const prompt = inputTokens.total ?? 0
  const completion = outputTokens.total ?? 0
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: inputTokens.cacheRead ?? 0 },
    completion_tokens_details: { reasoning_tokens: outputTokens.reasoning ?? 0 }
  }
}
