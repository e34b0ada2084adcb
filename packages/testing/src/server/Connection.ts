/**
 * One HTTP exchange of `node:http` as effects: the request body, writes, and the end.
 *
 * Bytes are written in pieces that break inside lines and characters, always at the same places.
 */
import type { IncomingMessage, ServerResponse } from "node:http"
import { Deferred, Effect } from "effect"

export interface Connection {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  /** Headers with lower-cased names. */
  readonly headers: Readonly<Record<string, string>>
  /** The request body. `undefined` when the client disconnected before it was complete. */
  readonly body: Effect.Effect<string | undefined>
  /** Completes when the client closed the connection before the response was complete. */
  readonly closedByClient: Effect.Effect<void>
  /** True while nothing has been sent. */
  readonly untouched: () => boolean
  readonly start: (status: number, headers: Readonly<Record<string, string>>) => Effect.Effect<void>
  /** Completes when the bytes have been handed to the operating system. */
  readonly write: (text: string) => Effect.Effect<void>
  /** Ends the response normally. */
  readonly end: Effect.Effect<void>
  /** Destroys the socket. */
  readonly destroy: Effect.Effect<void>
}

export const make = (request: IncomingMessage, response: ServerResponse): Connection => {
  const closed = Deferred.makeUnsafe<void>()
  let written = 0
  response.on("close", () => {
    if (!response.writableFinished) Deferred.doneUnsafe(closed, Effect.void)
  })
  // A client that disconnects is not an error of the server.
  request.on("error", () => {})
  response.on("error", () => {})

  const writeBytes = (bytes: Uint8Array) =>
    Effect.callback<void>((resume) => {
      response.write(bytes, () => resume(Effect.void))
    })

  return {
    method: request.method ?? "",
    path: (request.url ?? "").replace(/\?.*$/s, ""),
    query: new URLSearchParams(/\?.*$/s.exec(request.url ?? "")?.[0]),
    headers: Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [
        name,
        Array.isArray(value) ? value.join(", ") : (value ?? "")
      ])
    ),
    body: Effect.callback((resume) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => resume(Effect.succeed(Buffer.concat(chunks).toString("utf8"))))
      request.on("close", () => resume(Effect.undefined))
    }),
    closedByClient: Deferred.await(closed),
    untouched: () => !response.headersSent,
    start: (status, headers) =>
      Effect.sync(() => {
        response.writeHead(status, headers)
        response.flushHeaders()
      }),
    // Waits for a turn of the event loop between two pieces. Otherwise the client would receive them joined.
    write: (text) =>
      Effect.forEach(
        pieces(Buffer.from(text), written++),
        (bytes) => Effect.andThen(writeBytes(bytes), Effect.yieldNow),
        { discard: true }
      ),
    end: Effect.callback((resume) => {
      response.end(() => resume(Effect.void))
    }),
    destroy: Effect.sync(() => {
      request.socket.destroy()
    })
  }
}

/**
 * Splits bytes into pieces: after the first byte of the first multi-byte character, and at a place that moves with
 * `turn`. Every fourth time the bytes stay whole.
 */
export const pieces = (bytes: Uint8Array, turn: number): ReadonlyArray<Uint8Array> => {
  if (turn % 4 === 3) return bytes.length === 0 ? [] : [bytes]
  const inCharacter = bytes.findIndex((byte) => byte >= 0xc0) + 1
  const anywhere = bytes.length === 0 ? 0 : (turn * 7 + 5) % bytes.length
  const cuts = [0, ...new Set([inCharacter, anywhere]), bytes.length].sort((a, b) => a - b)
  return cuts.slice(1).flatMap((end, i) => {
    const start = cuts[i] ?? 0
    return end > start ? [bytes.subarray(start, end)] : []
  })
}
