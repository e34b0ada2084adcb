/**
 * A raw `node:http` server on a free port, and the bytes of streams, for tests against servers that misbehave.
 *
 * The server knows no protocol of a provider beyond the few events in {@link chat} and {@link claude}. For bytes that
 * `node:http` would not send, write to `hit.socket`. Times are real: limits of a test must be short.
 */
import { Effect } from "effect"
import type { Scope } from "effect"
import type { IncomingHttpHeaders, ServerResponse } from "node:http"
import { createServer } from "node:http"
import type { AddressInfo, Socket } from "node:net"

export interface Hit {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  /** JSON that the test itself caused to be sent. */
  readonly body: any
  readonly socket: Socket
  /** Number of the connection, from 0. */
  readonly connection: number
  /** Resolves with the time (`performance.now()`) when the connection is closed by either side. */
  readonly closed: Promise<number>
}

export interface RawServer {
  readonly url: string
  readonly hits: ReadonlyArray<Hit>
}

/** A server that answers the n-th request, from 0, by `answer`, until the scope ends. */
export const start = (
  answer: (response: ServerResponse, hit: Hit, n: number) => void
): Effect.Effect<RawServer, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<RawServer & { readonly close: () => void }>((resume) => {
        const hits: Array<Hit> = []
        const connections = new Map<Socket, { readonly number: number; readonly closed: Promise<number> }>()
        const server = createServer(async (incoming, response) => {
          const { method = "", url = "", headers, socket } = incoming
          const connection = connections.get(socket)
          const chunks: Array<Buffer> = []
          for await (const chunk of incoming) chunks.push(chunk)
          const text = Buffer.concat(chunks).toString()
          const body = text === "" ? undefined : JSON.parse(text)
          if (connection === undefined) return
          const hit: Hit = {
            method,
            url,
            headers,
            body,
            socket,
            connection: connection.number,
            closed: connection.closed
          }
          answer(response, hit, hits.push(hit) - 1)
        })
        server.on("connection", (socket: Socket) => {
          socket.on("error", () => {})
          const closed = new Promise<number>((resolve) =>
            socket.once("close", () => resolve(performance.now()))
          )
          connections.set(socket, { number: connections.size, closed })
        })
        const close = () => {
          server.close()
          server.closeAllConnections()
        }
        server.listen(0, "127.0.0.1", () => {
          // A server that listens on a port has an address of this kind.
          const { port } = server.address() as AddressInfo
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, hits, close }))
        })
      }),
      ({ close }) => Effect.sync(close)
    ),
    ({ url, hits }) => ({ url, hits })
  )

/** The head of a stream of events. */
export const head = (response: ServerResponse, headers: Readonly<Record<string, string>> = {}): void => {
  response.writeHead(200, { "content-type": "text/event-stream", ...headers })
  response.flushHeaders()
}

/** One event. An object is written as JSON; its `type`, if there is one, is the name unless `name` is given. */
export const event = (data: object | string, name = nameOf(data)): string =>
  `${name === "" ? "" : `event: ${name}\n`}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`

const nameOf = (data: object | string): string =>
  typeof data === "object" && "type" in data ? String(data.type) : ""

/** Writes a whole stream of events, and ends the body unless `open`. */
export const events = (response: ServerResponse, all: ReadonlyArray<object | string>, open = false): void => {
  head(response)
  response.write(all.map((each) => event(each)).join(""))
  if (!open) response.end()
}

export const json = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(body))
}

/** Events of OpenAI Chat Completions. */
export const chat = {
  delta: (delta: object, finish_reason: string | null = null) => ({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta, finish_reason }]
  }),
  text: (text: string) => chat.delta({ content: text }),
  call: (index: number, id: string, name: string, args: string) =>
    chat.delta({ tool_calls: [{ index, id, type: "function", function: { name, arguments: args } }] }),
  args: (index: number, args: string) =>
    chat.delta({ tool_calls: [{ index, function: { arguments: args } }] }),
  finish: (reason: string) => chat.delta({}, reason),
  usage: (input: number, output: number) => ({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [],
    usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
  }),
  done: "[DONE]"
} as const

/** Events of Anthropic Messages. */
export const claude = {
  start: {
    type: "message_start",
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 5, output_tokens: 1 }
    }
  },
  block: (index: number, content_block: object = { type: "text", text: "" }) => ({
    type: "content_block_start",
    index,
    content_block
  }),
  text: (index: number, text: string) => ({
    type: "content_block_delta",
    index,
    delta: { type: "text_delta", text }
  }),
  json: (index: number, partial_json: string) => ({
    type: "content_block_delta",
    index,
    delta: { type: "input_json_delta", partial_json }
  }),
  stop: (index: number) => ({ type: "content_block_stop", index }),
  delta: (stop_reason: string) => ({
    type: "message_delta",
    delta: { stop_reason, stop_sequence: null },
    usage: { output_tokens: 7 }
  }),
  end: { type: "message_stop" }
} as const
