/**
 * What an answer says, in words that are the same in every wire format.
 */
import type { WireName } from "./Vendor.ts"

export interface Said {
  readonly text: string
  /** Name and arguments of each call, as JSON text. */
  readonly calls: ReadonlyArray<readonly [name: string, given: string]>
  readonly end: "stop" | "calls" | "length" | "filter"
  /** Tokens, those from a cache included. */
  readonly input: number | undefined
  readonly cached: number
  readonly output: number | undefined
}

/** JSON of answers that a test reads. */
type Json = any

const ends: Readonly<Record<string, Said["end"]>> = {
  stop: "stop",
  tool_calls: "calls",
  function_call: "calls",
  length: "length",
  content_filter: "filter",
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "calls",
  max_tokens: "length",
  refusal: "filter",
  max_output_tokens: "length"
}

export const whole = (wire: WireName, body: Json): Said => {
  switch (wire) {
    case "chat": {
      const [choice] = body.choices
      const { content, refusal, tool_calls } = choice.message
      const calls = (tool_calls ?? []).map((call: Json) => [call.function.name, call.function.arguments])
      return {
        text: textOf(content) || (refusal ?? ""),
        calls,
        ...ended(choice.finish_reason, calls),
        ...chatUsage(body.usage)
      }
    }
    case "messages": {
      const text = body.content.map((block: Json) => (block.type === "text" ? block.text : "")).join("")
      const calls = body.content
        .filter((block: Json) => block.type === "tool_use")
        .map((block: Json) => [block.name, JSON.stringify(block.input)])
      return { text, calls, ...ended(body.stop_reason, calls), ...messagesUsage(body.usage) }
    }
    case "responses": {
      const parts = body.output.flatMap((item: Json) => (item.type === "message" ? item.content : []))
      const text = parts.map((part: Json) => part.text ?? part.refusal ?? "").join("")
      const calls = body.output
        .filter((item: Json) => item.type === "function_call")
        .map((item: Json) => [item.name, item.arguments])
      const reason = body.incomplete_details?.reason ?? "stop"
      const { usage } = body
      return {
        text,
        calls,
        ...ended(reason, calls),
        input: usage?.input_tokens,
        cached: usage?.input_tokens_details?.cached_tokens ?? 0,
        output: usage?.output_tokens
      }
    }
  }
}

const ended = (reason: string, calls: ReadonlyArray<unknown>): Pick<Said, "end"> => {
  const end = ends[reason] ?? "stop"
  return { end: end === "stop" && calls.length > 0 ? "calls" : end }
}

const textOf = (content: Json): string =>
  typeof content === "string"
    ? content
    : (content ?? []).map((part: Json) => (part.type === "text" ? part.text : "")).join("")

const chatUsage = (usage: Json) => ({
  input: usage?.prompt_tokens,
  cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
  output: usage?.completion_tokens
})

const messagesUsage = (usage: Json) => {
  const cached = usage?.cache_read_input_tokens ?? 0
  const written = usage?.cache_creation_input_tokens ?? 0
  return {
    input: usage === undefined ? undefined : usage.input_tokens + cached + written,
    cached,
    output: usage?.output_tokens
  }
}

/** Events of a stream, parsed. */
export const valuesIn = (body: string): ReadonlyArray<Json> =>
  Array.from(body.matchAll(/^data: (\{.*)$/gm), ([, data = ""]) => JSON.parse(data))

/** What a stream says; throws where it has no end. */
export const streamed = (wire: WireName, body: string): Said => {
  const values = valuesIn(body)
  switch (wire) {
    case "chat": {
      const calls: Array<[string, string]> = []
      let text = ""
      let reason: string | undefined
      let usage: Json
      for (const value of values) {
        usage = value.usage ?? usage
        const [choice] = value.choices ?? []
        text += textOf(choice?.delta?.content) || (choice?.delta?.refusal ?? "")
        reason = choice?.finish_reason ?? reason
        for (const call of choice?.delta?.tool_calls ?? []) {
          const known = (calls[call.index ?? 0] ??= ["", ""])
          known[0] += call.function.name ?? ""
          known[1] += call.function.arguments ?? ""
        }
      }
      if (reason === undefined) throw new Error("The stream has no finish reason.")
      return { text, calls, ...ended(reason, calls), ...chatUsage(usage) }
    }
    case "messages": {
      const blocks: Array<Json> = []
      let reason: string | undefined
      let usage: Json = {}
      for (const value of values) {
        const block = blocks[value.index]
        if (value.type === "message_start") usage = value.message.usage
        if (value.type === "content_block_start") {
          blocks[value.index] = { ...value.content_block, json: "" }
        }
        if (value.delta?.type === "text_delta") block.text += value.delta.text
        if (value.delta?.type === "input_json_delta") block.json += value.delta.partial_json
        if (value.type !== "message_delta") continue
        reason = value.delta.stop_reason
        const known = Object.entries(value.usage).filter(([, count]) => count !== null)
        usage = { ...usage, ...Object.fromEntries(known) }
      }
      if (reason === undefined) throw new Error("The stream has no stop reason.")
      const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join("")
      const calls = blocks
        .filter(({ type }) => type === "tool_use")
        .map(({ input, json, name }) => [name, json || JSON.stringify(input)] as const)
      return { text, calls, ...ended(reason, calls), ...messagesUsage(usage) }
    }
    case "responses": {
      const last = values.findLast(({ type }) => /^response\.(?:completed|incomplete)$/.test(type))
      if (last === undefined) throw new Error("The stream has no end.")
      return whole("responses", last.response)
    }
  }
}
