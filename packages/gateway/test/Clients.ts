/**
 * What the vendors' own clients read of an answer.
 */
import Anthropic from "@anthropic-ai/sdk"
import { assert } from "@effect/vitest"
import OpenAI from "openai"
import type { WireName } from "./Vendor.ts"

type Fetch = typeof globalThis.fetch

/** What a client has read. */
export interface Read {
  readonly id: string
  readonly text: string
  readonly call: string | undefined
  readonly thoughts: number
  readonly outputTokens: number | undefined
  readonly end: string | null | undefined
}

/** The clients of the vendors, which read a stream to its end. */
export const readers: Readonly<Record<WireName, (fetch: Fetch) => Promise<Read>>> = {
  chat: async (fetch) => {
    const client = new OpenAI({ apiKey: "none", baseURL: "http://gateway/v1", fetch })
    const stream = client.chat.completions.stream({
      model: "route",
      messages: [{ role: "user", content: "Hello" }],
      stream_options: { include_usage: true }
    })
    const { choices, id, usage } = await stream.finalChatCompletion()
    const [choice] = choices
    const [call] = choice?.message.tool_calls ?? []
    return {
      id,
      text: choice?.message.content ?? "",
      call: call?.type === "function" ? call.function.arguments : undefined,
      thoughts: 0,
      outputTokens: usage?.completion_tokens,
      end: choice?.finish_reason
    }
  },
  messages: async (fetch) => {
    const client = new Anthropic({ apiKey: "none", baseURL: "http://gateway", fetch })
    const stream = client.messages.stream({
      model: "route",
      max_tokens: 1000,
      messages: [{ role: "user", content: "Hello" }]
    })
    const { content, id, stop_reason, usage } = await stream.finalMessage()
    const call = content.find((block) => block.type === "tool_use")
    return {
      id,
      text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
      call: call === undefined ? undefined : JSON.stringify(call.input),
      thoughts: content.filter(({ type }) => type === "thinking").length,
      outputTokens: usage.output_tokens,
      end: stop_reason
    }
  },
  responses: async (fetch) => {
    const client = new OpenAI({ apiKey: "none", baseURL: "http://gateway/v1", fetch })
    const stream = client.responses.stream({ model: "route", input: "Hello" })
    const sequence: Array<number> = []
    const said: Array<string> = []
    for await (const event of stream) {
      sequence.push(event.sequence_number)
      if (event.type === "response.output_text.delta") said.push(event.delta)
    }
    assert.deepStrictEqual(
      sequence,
      sequence.map((_, i) => i),
      "sequence numbers"
    )
    const { id, output, status, usage } = await stream.finalResponse()
    const text = output
      .flatMap((item) => (item.type === "message" ? item.content : []))
      .map((part) => (part.type === "output_text" ? part.text : ""))
      .join("")
    assert.strictEqual(said.join(""), text)
    const call = output.find((item) => item.type === "function_call")
    return {
      id,
      text,
      call: call?.arguments,
      thoughts: output.filter(({ type }) => type === "reasoning").length,
      outputTokens: usage?.output_tokens,
      end: status
    }
  }
}
