/**
 * A `fetch` that repeats a request when the server had closed the reused connection.
 *
 * Servers close idle connections. A request written at that moment fails without a response. The request is
 * sent again at once, on another connection: no failure, no wait and no cooldown. Each repeat is reported
 * (`Connection.repeats`).
 *
 * **Rule.** A request is repeated when undici wrote it to a socket that had carried a request before and was idle since
 * before this one began, and the socket failed without a byte of a response. Node reports both on diagnostics channels
 * (`undici:*`). Each idle connection can fail once, so there are as many repeats as connections that died, and at most
 * {@link maxRepeats}.
 *
 * **Limits.** A request is not repeated on a new connection, with a body that can be read only once, or with a
 * `fetch` other than undici's. A server may, in theory, have processed a request that it did not answer.
 */
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
          reused !== undefined && reused.usedAt < begun && reused.socket.bytesRead === reused.read
        if (!isStale || init?.signal?.aborted === true || repeats === maxRepeats) throw error
        Connection.repeats()
      }
    }
  }

/** Many more connections than one process usually keeps idle to one server. */
const maxRepeats = 100

const canRepeat = (body: RequestInit["body"]): boolean =>
  body === undefined || body === null || typeof body === "string" || ArrayBuffer.isView(body)

interface Sent {
  /** The socket of the request, if it is reused, with its last use and the bytes that it had read before. */
  reused?: { readonly socket: Socket; readonly usedAt: number; readonly read: number } | undefined
}

const sending = new AsyncLocalStorage<Sent>()
const requests = new WeakMap<object, Sent>()
/** Counts the requests, as a clock for what came before what. */
let sends = 0
/** When each socket last carried a request. */
const used = new WeakMap<Socket, number>()

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
    const usedAt = used.get(socket)
    if (sent !== undefined) {
      sent.reused = usedAt === undefined ? undefined : { socket, usedAt, read: socket.bytesRead }
    }
    used.set(socket, sends)
  })
}
