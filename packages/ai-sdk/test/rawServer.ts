/**
 * A provider as a raw HTTP server, in the wire formats of three vendors. It refuses requests beyond its window as they
 * do, and answers requests without tools with a summary.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createGoogle } from "@ai-sdk/google"
import { createOpenAI } from "@ai-sdk/openai"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import type { Wire } from "./support.ts"

interface ToolCall {
  readonly name: string
  readonly input: object
}

/** An answer: tool calls, or a text. */
type Answer = ReadonlyArray<ToolCall> | string

export interface Options {
  /** Answer to the n-th request with tools, from 0. */
  readonly answer: (n: number) => Answer
  /** Tokens, at four characters each. Default: no limit. */
  readonly window?: number
}

const summary = "A summary of what happened."

/** Writes an answer as a body, and as the events of a stream. */
interface Format {
  readonly body: (answer: Answer, n: number, tokens: number) => object
  readonly events: (answer: Answer, n: number, tokens: number) => ReadonlyArray<object | string>
  readonly refused: (tokens: number, window: number) => object
}

const idOf = (n: number, i: number): string => `call_${n}_${i}`

const anthropic: Format = {
  body: (answer, n, tokens) => ({
    id: `msg_${n}`,
    type: "message",
    role: "assistant",
    model: "claude-sonnet-4-5",
    content:
      typeof answer === "string"
        ? [{ type: "text", text: answer }]
        : answer.map(({ name, input }, i) => ({ type: "tool_use", id: idOf(n, i), name, input })),
    stop_reason: typeof answer === "string" ? "end_turn" : "tool_use",
    stop_sequence: null,
    usage: { input_tokens: tokens, output_tokens: 20 }
  }),
  events: (answer, n, tokens) => {
    const { content, stop_reason, ...message } = anthropic.body(answer, n, tokens) as {
      readonly content: ReadonlyArray<{
        readonly type: string
        readonly text?: string
        readonly input?: object
      }>
      readonly stop_reason: string
    }
    return [
      { type: "message_start", message: { ...message, content: [], stop_reason: null } },
      ...content.flatMap((block, index) => [
        {
          type: "content_block_start",
          index,
          content_block: block.type === "text" ? { type: "text", text: "" } : { ...block, input: {} }
        },
        {
          type: "content_block_delta",
          index,
          delta:
            block.type === "text"
              ? { type: "text_delta", text: block.text }
              : { type: "input_json_delta", partial_json: JSON.stringify(block.input) }
        },
        { type: "content_block_stop", index }
      ]),
      { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 20 } },
      { type: "message_stop" }
    ]
  },
  refused: (tokens, window) => ({
    type: "error",
    error: {
      type: "invalid_request_error",
      message: `prompt is too long: ${tokens} tokens > ${window} maximum`
    }
  })
}

const openai: Format = {
  body: (answer, n, tokens) => ({
    id: `chatcmpl-${n}`,
    object: "chat.completion",
    created: 1_700_000_000,
    model: "gpt-4.1",
    choices: [
      {
        index: 0,
        message: { role: "assistant", ...message(answer, n) },
        finish_reason: typeof answer === "string" ? "stop" : "tool_calls"
      }
    ],
    usage: { prompt_tokens: tokens, completion_tokens: 20, total_tokens: tokens + 20 }
  }),
  events: (answer, n, tokens) => {
    const chunk = (delta: object, finish_reason: string | null) => ({
      id: `chatcmpl-${n}`,
      object: "chat.completion.chunk",
      created: 1_700_000_000,
      model: "gpt-4.1",
      choices: [{ index: 0, delta, finish_reason }]
    })
    return [
      chunk({ role: "assistant", ...message(answer, n) }, null),
      {
        ...chunk({}, typeof answer === "string" ? "stop" : "tool_calls"),
        usage: { prompt_tokens: tokens, completion_tokens: 20, total_tokens: tokens + 20 }
      },
      "[DONE]"
    ]
  },
  refused: (tokens, window) => ({
    error: {
      message: `This model's maximum context length is ${window} tokens. However, your messages resulted in ${tokens} tokens.`,
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded"
    }
  })
}

const message = (answer: Answer, n: number) =>
  typeof answer === "string"
    ? { content: answer }
    : {
        content: null,
        tool_calls: answer.map(({ name, input }, index) => ({
          index,
          id: idOf(n, index),
          type: "function",
          function: { name, arguments: JSON.stringify(input) }
        }))
      }

const google: Format = {
  body: (answer, _n, tokens) => ({
    candidates: [
      {
        content: {
          role: "model",
          parts:
            typeof answer === "string"
              ? [{ text: answer }]
              : answer.map(({ name, input: args }) => ({ functionCall: { name, args } }))
        },
        finishReason: "STOP",
        index: 0
      }
    ],
    usageMetadata: { promptTokenCount: tokens, candidatesTokenCount: 20, totalTokenCount: tokens + 20 },
    modelVersion: "gemini-2.5-pro"
  }),
  events: (answer, n, tokens) => [google.body(answer, n, tokens)],
  refused: (tokens, window) => ({
    error: {
      code: 400,
      message: `The input token count (${tokens}) exceeds the maximum number of tokens allowed (${window}).`,
      status: "INVALID_ARGUMENT"
    }
  })
}

const formats: Readonly<Record<Wire, Format>> = { anthropic, openai, google }

/** The tools of a request, in any of the formats. */
const hasTools = (body: unknown): boolean =>
  typeof body === "object" &&
  body !== null &&
  "tools" in body &&
  Array.isArray(body.tools) &&
  body.tools.length > 0

export const rawServer = async (wire: Wire, { answer, window = Infinity }: Options) => {
  const format = formats[wire]
  /** Sizes in tokens of the requests with tools that were not refused, and the number of refused ones. */
  const seen = { accepted: [] as Array<number>, refused: 0, summaries: 0, bodies: [] as Array<string> }
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString()
      const tokens = Math.ceil(text.length / 4)
      const body: unknown = JSON.parse(text)
      if (tokens > window) {
        seen.refused++
        response.writeHead(400, { "content-type": "application/json" })
        return response.end(JSON.stringify(format.refused(tokens, window)))
      }
      const isSummary = !hasTools(body)
      if (isSummary) seen.summaries++
      else seen.bodies.push(text)
      const n = seen.accepted.length
      const said = isSummary ? summary : answer(n)
      if (!isSummary) seen.accepted.push(tokens)
      const isStream = request.url?.includes("stream") === true || /"stream":\s*true/.test(text)
      if (!isStream) {
        response.writeHead(200, { "content-type": "application/json" })
        return response.end(JSON.stringify(format.body(said, n, tokens)))
      }
      response.writeHead(200, { "content-type": "text/event-stream" })
      for (const event of format.events(said, n, tokens)) {
        const name = typeof event === "object" && "type" in event ? `event: ${String(event.type)}\n` : ""
        response.write(`${name}data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`)
      }
      return response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  // A server that listens on a port has an address of this kind.
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const models = {
    anthropic: () => createAnthropic({ apiKey: "any", baseURL: `${url}/v1` })("claude-sonnet-4-5"),
    openai: () => createOpenAI({ apiKey: "any", baseURL: `${url}/v1` }).chat("gpt-4.1"),
    google: () => createGoogle({ apiKey: "any", baseURL: `${url}/v1beta` })("gemini-2.5-pro")
  }
  return {
    url,
    seen,
    model: models[wire](),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}
