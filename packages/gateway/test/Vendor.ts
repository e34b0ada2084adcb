/**
 * A vendor of one wire format on a free port: it answers as a test says, and keeps what it was sent.
 */
import { Duration, Effect, Redacted } from "effect"
import type { Scope } from "effect"
import { KeySource, RecoveryPolicy } from "@outlast/agent"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi } from "@outlast/providers"
import type { IncomingHttpHeaders, ServerResponse } from "node:http"
import { createServer } from "node:http"
import type { AddressInfo, Socket } from "node:net"

export type WireName = "chat" | "messages" | "responses"

export interface Hit {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** JSON that the test itself caused to be sent. */
  readonly body: any
  readonly socket: Socket
  /** Resolves when the connection is closed by either side. */
  readonly closed: Promise<void>
}

export interface Vendor {
  readonly url: string
  readonly hits: ReadonlyArray<Hit>
}

export type Answer = (response: ServerResponse, hit: Hit, n: number) => void

/** A vendor that ends with the scope. */
export const start = (answer: Answer): Effect.Effect<Vendor, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<Vendor & { readonly close: () => void }>((resume) => {
        const hits: Array<Hit> = []
        const closings = new WeakMap<Socket, Promise<void>>()
        const server = createServer(async (incoming, response) => {
          const chunks: Array<Buffer> = []
          for await (const chunk of incoming) chunks.push(chunk)
          const text = Buffer.concat(chunks).toString()
          const { headers, socket, url = "" } = incoming
          const body = text === "" ? undefined : JSON.parse(text)
          const hit = { url, headers, text, body, socket, closed: closings.get(socket) ?? Promise.resolve() }
          answer(response, hit, hits.push(hit) - 1)
        })
        server.on("connection", (socket: Socket) => {
          socket.on("error", () => {})
          closings.set(socket, new Promise((resolve) => void socket.once("close", () => resolve())))
        })
        server.listen(0, "127.0.0.1", () => {
          // A server that listens on a port has an address of this kind.
          const { port } = server.address() as AddressInfo
          const close = () => {
            server.close()
            server.closeAllConnections()
          }
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, hits, close }))
        })
      }),
      ({ close }) => Effect.sync(close)
    ),
    ({ hits, url }) => ({ hits, url })
  )

export const secret = "sk-test-0123456789abcdefghij"

/** Formats of targets. */
export type Format = WireName | "gemini"

/** A target of a format at this vendor. */
export const target = (
  wire: Format,
  { url }: Pick<Vendor, "url">,
  model = "vendor-model",
  info: ModelInfo.ModelInfo = {}
): ProviderModel.TargetSpec => {
  const options = {
    info,
    baseUrl: `${url}/v1`,
    keys: [KeySource.value(`KEY_${model}`.replaceAll("-", "_"), Redacted.make(secret))]
  }
  if (wire === "gemini") return Google.model(model, { ...options, baseUrl: `${url}/v1beta` })
  if (wire === "messages") return Anthropic.model(model, options)
  return wire === "chat" ? OpenAi.chatModel(model, options) : OpenAi.model(model, options)
}

export const json = (
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {}
): void => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(typeof body === "string" ? body : JSON.stringify(body))
}

/** Server-sent events of these data, named by their type where the wire names them. */
export const events = (wire: Format, data: ReadonlyArray<string>): string =>
  data
    .map((each) => {
      const type = wire === "chat" || wire === "gemini" ? undefined : /"type":\s*"([^"]+)"/.exec(each)?.[1]
      return `${type === undefined ? "" : `event: ${type}\n`}data: ${each}\n\n`
    })
    .join("")

export const stream = (response: ServerResponse, text: string, isOpen = false): void => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.write(text)
  if (!isOpen) response.end()
}

const paths: Readonly<Record<WireName, string>> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses"
}

/** A small request of a wire. */
export const request = (wire: WireName, more: object = {}): object => {
  const turn = [{ role: "user", content: "Hello" }]
  const own = wire === "responses" ? { input: turn } : { messages: turn }
  return { model: "route", ...own, ...(wire === "messages" ? { max_tokens: 1000 } : {}), ...more }
}

/** Fields of a request for a stream with all that its vendor sends. */
export const streaming = (wire: WireName): object => ({
  stream: true,
  ...(wire === "chat" ? { stream_options: { include_usage: true } } : {})
})

/** Asks a gateway. */
export const ask = (
  fetch: typeof globalThis.fetch,
  wire: WireName,
  body: unknown,
  headers: Record<string, string> = {}
): Promise<Response> =>
  fetch(`http://gateway${paths[wire]}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body)
  })

/** A policy that asks the next target at once: tests run in virtual time, which nobody moves. */
export const impatient: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.interactive,
  patience: Duration.zero,
  // `fromEntries` forgets the names, which are those of the rows.
  rows: Object.fromEntries(
    Object.entries(RecoveryPolicy.interactive.rows).map(([name, row]) => [name, { ...row, attempts: 1 }])
  ) as RecoveryPolicy.RecoveryPolicy["rows"]
}
