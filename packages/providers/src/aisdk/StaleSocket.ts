/**
 * A `fetch` that repeats a request once when the server had closed the reused connection.
 *
 * Servers close idle connections. A request written at that moment fails without a response. The request is
 * sent again at once, on another connection: no failure, no wait and no cooldown.
 *
 * **Rule.** A request is repeated when undici wrote it to a socket that had carried a request before, and the socket
 * failed without a byte of a response. Node reports both on diagnostics channels (`undici:*`).
 *
 * **Limits.** A request is not repeated on a new connection, with a body that can be read only once, or with a
 * `fetch` other than undici's. A server may, in theory, have processed a request that it did not answer.
 */
import { AsyncLocalStorage } from "node:async_hooks"
import { subscribe } from "node:diagnostics_channel"
import type { Socket } from "node:net"
import { requestOf } from "./Connection.ts"

type Fetch = typeof globalThis.fetch

export const repeated =
  (send: Fetch): Fetch =>
  async (input, init) => {
    if (input instanceof Request || !canRepeat(init?.body)) return send(input, init)
    listen()
    const sent: Sent = {}
    try {
      return await sending.run(sent, () => send(input, init))
    } catch (error) {
      const { reused } = sent
      if (init?.signal?.aborted === true || reused === undefined || reused.socket.bytesRead > reused.read)
        throw error
      return send(input, init)
    }
  }

const canRepeat = (body: RequestInit["body"]): boolean =>
  body === undefined || body === null || typeof body === "string" || ArrayBuffer.isView(body)

interface Sent {
  /** The socket of the request, if it is reused, and the bytes that it had read before. */
  reused?: { readonly socket: Socket; readonly read: number } | undefined
}

const sending = new AsyncLocalStorage<Sent>()
const requests = new WeakMap<object, Sent>()
/** Sockets that have already carried a request. */
const used = new WeakSet<Socket>()

let listening = false

const listen = (): void => {
  if (listening) return
  listening = true
  subscribe("undici:request:create", (message) => {
    const sent = sending.getStore()
    const request = requestOf(message)
    if (sent !== undefined && request !== undefined) requests.set(request, sent)
  })
  subscribe("undici:client:sendHeaders", (message) => {
    const { socket } = message as { readonly socket: Socket } // as undici documents it
    const request = requestOf(message)
    const sent = request === undefined ? undefined : requests.get(request)
    if (sent !== undefined) sent.reused = used.has(socket) ? { socket, read: socket.bytesRead } : undefined
    used.add(socket)
  })
}
