/**
 * A `fetch` that repeats a request when the server had closed the reused connection.
 *
 * Servers close idle connections. A request written at that moment fails without a response. The request is
 * sent again at once, on another connection: no failure, no wait and no cooldown. Each repeat is reported
 * (`Connection.repeats`).
 *
 * **Rule.** A request is repeated when undici wrote it to a socket whose last response had ended before this request
 * began, and the socket closed within {@link closesWithin} milliseconds and without a byte of a response. A later close
 * may have interrupted work that the provider bills. Node reports both on diagnostics channels (`undici:*`). Each idle
 * connection can fail once, so there are as many repeats as connections that died, and at most {@link maxRepeats}.
 *
 * **Limits.** A request is not repeated on a new connection, with a body that can be read only once, or with a
 * `fetch` other than undici's. A server may, in theory, have processed a request that it did not answer.
 */
import { Clock, Context } from "effect"
import { AsyncLocalStorage } from "node:async_hooks"
import { subscribe } from "node:diagnostics_channel"
import type { Socket } from "node:net"
import * as Connection from "./Connection.ts"

type Fetch = typeof globalThis.fetch

export const repeated =
  (send: Fetch): Fetch =>
  async (input, init) => {
    if (input instanceof Request || !canRepeat(init?.body)) return send(input, init)
    listen()
    const begun = ++sends
    for (let repeats = 0; ; repeats++) {
      const sent: Sent = {}
      try {
        return await sending.run(sent, () => send(input, init))
      } catch (error) {
        const { reused } = sent
        const isStale =
          reused !== undefined &&
          reused.endedAt < begun &&
          reused.socket.bytesRead === reused.read &&
          now() - reused.sentAt <= closesWithin &&
          isClosed(error)
        if (!isStale || init?.signal?.aborted === true || repeats === maxRepeats) throw error
        Connection.repeats()
      }
    }
  }

/** More connections than usually die in one moment. */
const maxRepeats = 16

/** Milliseconds. A server that had closed the connection answers a request with a reset after one round trip. */
const closesWithin = 1_000

/** Sockets live in real time, whatever the clock of the program. */
const clock = Context.get(Context.empty(), Clock.Clock)
const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000

const closed: ReadonlySet<unknown> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"])

const isClosed = (error: unknown): boolean => {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  return typeof cause === "object" && cause !== null && "code" in cause && closed.has(cause.code)
}

const canRepeat = (body: RequestInit["body"]): boolean =>
  body === undefined || body === null || typeof body === "string" || ArrayBuffer.isView(body)

interface Sent {
  /** The socket of the request, if it is reused, with the end of its last response and the bytes read before. */
  reused?:
    | {
        readonly socket: Socket
        readonly endedAt: number
        readonly read: number
        /** In monotonic milliseconds. */
        readonly sentAt: number
      }
    | undefined
}

const sending = new AsyncLocalStorage<Sent>()
const requests = new WeakMap<object, Sent>()
const sockets = new WeakMap<object, Socket>()
/** Counts the requests, as a clock for what came before what. */
let sends = 0
/** When the last response of each socket ended. */
const ended = new WeakMap<Socket, number>()

let listening = false

const listen = (): void => {
  if (listening) return
  listening = true
  subscribe("undici:request:create", (message) => {
    const sent = sending.getStore()
    const request = Connection.requestOf(message)
    if (sent !== undefined && request !== undefined) requests.set(request, sent)
  })
  subscribe("undici:client:sendHeaders", (message) => {
    const { socket } = message as { readonly socket: Socket } // as undici documents it
    const request = Connection.requestOf(message)
    const sent = request === undefined ? undefined : requests.get(request)
    const endedAt = ended.get(socket)
    if (sent !== undefined) {
      sent.reused =
        endedAt === undefined ? undefined : { socket, endedAt, read: socket.bytesRead, sentAt: now() }
    }
    if (request !== undefined) sockets.set(request, socket)
  })
  subscribe("undici:request:trailers", (message) => {
    const request = Connection.requestOf(message)
    const socket = request === undefined ? undefined : sockets.get(request)
    if (socket !== undefined) ended.set(socket, sends)
  })
}
