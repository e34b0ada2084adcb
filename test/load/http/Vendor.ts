/**
 * A vendor over HTTP whose fate is drawn for each request: Chat Completions and Anthropic Messages, streams and whole
 * answers. The answer to a call is known (`answerOf`), and a continuation gets the rest of it.
 */
import { once } from "node:events"
import { createServer } from "node:http"
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"

/** What a vendor knows when it decides about a request. */
interface Ask {
  readonly call: number
  /** From 1, of this call at this vendor. */
  readonly attempt: number
  readonly key: string
  /** Milliseconds since the first request. */
  readonly at: number
  /** Requests in flight, with this one. */
  readonly inFlight: number
  /** A number in [0, 1) that depends only on the name, the call and the attempt. */
  readonly draw: (name: string) => number
}

/** `after` is the time until the first byte, `text` that until the last. Milliseconds. */
export type Fate =
  | { readonly type: "answer"; readonly after?: number; readonly text?: number }
  | {
      readonly type: "status"
      readonly status: number
      readonly after?: number
      readonly retryAfter?: number
    }
  /** Accepted, and never answered. */
  | { readonly type: "hang" }
  /** Half of the text, then nothing. A whole answer gets no byte. */
  | { readonly type: "stall"; readonly after?: number }
  /** Half of the text, then a reset. */
  | { readonly type: "cut"; readonly after?: number }
  | { readonly type: "reset"; readonly after?: number }
  /** Half of the text, then an error in the stream. */
  | { readonly type: "error"; readonly after?: number }

export interface Vendor {
  readonly name: string
  readonly dialect: "chat" | "anthropic"
  readonly keys: ReadonlyArray<string>
  readonly fate: (ask: Ask) => Fate
  /** May change the server, for faults of the connection. */
  readonly prepare?: (server: Server) => void
}

export interface Running {
  readonly vendor: Vendor
  readonly port: number
  readonly requests: () => number
  readonly inFlight: () => number
  readonly close: () => Promise<void>
}

export const promptOf = (call: number): string => `Call ${call}.`
export const answerOf = (call: number): string =>
  `This is the answer to call ${call}: the river flows north through eleven countries, past ${call * 7919} bridges, and ends in a wide delta by the sea.`

/** A hash of a string, in [0, 1). */
const draw = (text: string): number => {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : Array.isArray(content)
      ? content.map((part: { readonly text?: string }) => part.text ?? "").join("")
      : ""

interface Body {
  readonly stream?: boolean
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
}

/** The writers of the two wire formats. */
const formats = {
  chat: {
    start: () => "",
    delta: (content: string) =>
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta: { role: "assistant", content }, finish_reason: null }] })}\n\n`,
    end: () =>
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\n` +
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [], usage: { prompt_tokens: 9, completion_tokens: 20, total_tokens: 29 } })}\n\ndata: [DONE]\n\n`,
    whole: (content: string) =>
      JSON.stringify({
        id: "c",
        object: "chat.completion",
        created: 1,
        model: "m",
        choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
        usage: { prompt_tokens: 9, completion_tokens: 20, total_tokens: 29 }
      }),
    error: () =>
      `data: ${JSON.stringify({ error: { message: "The server had an error", type: "server_error" } })}\n\n`,
    status: (status: number) =>
      JSON.stringify({
        error: {
          message: `status ${status}`,
          type: status === 401 ? "invalid_request_error" : status === 429 ? "requests" : "server_error",
          code: status === 401 ? "invalid_api_key" : status === 429 ? "rate_limit_exceeded" : null
        }
      })
  },
  anthropic: {
    start: () =>
      `event: message_start\ndata: ${JSON.stringify({ type: "message_start", message: { id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 9, output_tokens: 1 } } })}\n\n` +
      `event: content_block_start\ndata: ${JSON.stringify({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } })}\n\n`,
    delta: (text: string) =>
      `event: content_block_delta\ndata: ${JSON.stringify({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })}\n\n`,
    end: () =>
      `event: content_block_stop\ndata: ${JSON.stringify({ type: "content_block_stop", index: 0 })}\n\n` +
      `event: message_delta\ndata: ${JSON.stringify({ type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 20 } })}\n\n` +
      `event: message_stop\ndata: ${JSON.stringify({ type: "message_stop" })}\n\n`,
    whole: (text: string) =>
      JSON.stringify({
        id: "m",
        type: "message",
        role: "assistant",
        model: "m",
        content: [{ type: "text", text }],
        stop_reason: "end_turn",
        stop_sequence: null,
        usage: { input_tokens: 9, output_tokens: 20 }
      }),
    error: () =>
      `event: error\ndata: ${JSON.stringify({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } })}\n\n`,
    status: (status: number) =>
      JSON.stringify({
        type: "error",
        error: {
          type:
            status === 401
              ? "authentication_error"
              : status === 429
                ? "rate_limit_error"
                : status === 529
                  ? "overloaded_error"
                  : "api_error",
          message: `status ${status}`
        }
      })
  }
} as const

const pause = (millis: number): Promise<void> =>
  millis <= 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, millis))

const read = async (request: IncomingMessage): Promise<Body> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString()) as Body
}

export const start = async (vendor: Vendor): Promise<Running> => {
  const format = formats[vendor.dialect]
  const attempts = new Map<number, number>()
  let requests = 0
  let inFlight = 0
  let first: number | undefined

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    first ??= Date.now()
    const at = Date.now() - first
    requests++
    inFlight++
    response.once("close", () => inFlight--)
    const body = await read(request)
    const call = Number(/Call (\d+)\./.exec(JSON.stringify(body.messages))?.[1])
    const attempt = (attempts.get(call) ?? 0) + 1
    attempts.set(call, attempt)
    const { headers } = request
    const key = String(headers["x-api-key"] ?? headers.authorization?.replace("Bearer ", "") ?? "")
    const fate = vendor.fate({
      call,
      attempt,
      key,
      at,
      inFlight,
      draw: (name) => draw(`${name}/${vendor.name}/${call}/${attempt}`)
    })
    if (fate.type === "hang") return
    await pause(fate.after ?? 0)
    if (response.destroyed) return
    const { socket } = request
    if (fate.type === "reset") return void socket.resetAndDestroy()
    if (fate.type === "status") {
      response.writeHead(fate.status, {
        "content-type": "application/json",
        ...(fate.retryAfter === undefined ? {} : { "retry-after": String(fate.retryAfter) })
      })
      return void response.end(format.status(fate.status))
    }
    const full = answerOf(call)
    const shown = body.messages
      .filter(({ role }) => role === "assistant")
      .map(({ content }) => textOf(content))
      .join("")
    const text = full.startsWith(shown.trimEnd()) ? full.slice(shown.trimEnd().length) : full
    const isStream = body.stream === true
    if (fate.type === "stall" && !isStream) return
    if (fate.type === "cut" && !isStream) return void socket.resetAndDestroy()
    if (fate.type === "error" && !isStream) {
      response.writeHead(500, { "content-type": "application/json" })
      return void response.end(format.status(500))
    }
    if (!isStream) {
      await pause(fate.type === "answer" ? (fate.text ?? 0) : 0)
      response.writeHead(200, { "content-type": "application/json" })
      return void response.end(format.whole(text))
    }
    response.writeHead(200, { "content-type": "text/event-stream" })
    const words = text.match(/\s*\S+/g) ?? []
    const written = fate.type === "answer" ? words.length : Math.ceil(words.length / 2)
    response.write(format.start())
    for (const word of words.slice(0, written)) {
      if (response.destroyed) return
      response.write(format.delta(word))
      if (fate.type === "answer" && fate.text !== undefined) await pause(fate.text / words.length)
    }
    if (fate.type === "stall") return
    if (fate.type === "cut") {
      await pause(20)
      return void socket.resetAndDestroy()
    }
    response.end(fate.type === "error" ? format.error() : format.end())
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  server.on("connection", (socket: Socket) => {
    socket.on("error", () => undefined)
  })
  vendor.prepare?.(server)
  server.listen(0, "127.0.0.1", 1024)
  await once(server, "listening")
  return {
    vendor,
    // The type of a server that listens on a port.
    port: (server.address() as AddressInfo).port,
    requests: () => requests,
    inFlight: () => inFlight,
    close: async () => {
      server.close()
      server.closeAllConnections()
      if (server.listening) await once(server, "close")
    }
  }
}
