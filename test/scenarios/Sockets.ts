/**
 * Counts the bytes in flight between the sockets of this process. Both ends are in the process, so bytes that one has
 * written and the other has not read can be counted.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import type { Socket } from "node:net"
import type { Scope } from "effect"
import { Effect } from "effect"
import type { Io } from "./VirtualTime.ts"

/** Watches all sockets that are opened in the scope. */
export const watch: Effect.Effect<Io, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => new Ends()),
  (ends) => Effect.sync(() => ends.stop())
)

class Ends implements Io {
  readonly #clients = new Set<Socket>()
  /** Server sockets by the ports of both ends. */
  readonly #servers = new Map<string, Socket>()
  #count = 0

  readonly #onClient = (message: unknown) => {
    const socket = socketOf(message)
    this.#clients.add(socket)
    this.#seen(socket, () => this.#clients.delete(socket))
  }

  readonly #onServer = (message: unknown) => {
    const socket = socketOf(message)
    const ports = `${socket.remotePort} ${socket.localPort}`
    this.#servers.set(ports, socket)
    this.#seen(socket, () => this.#servers.delete(ports))
  }

  constructor() {
    subscribe("net.client.socket", this.#onClient)
    subscribe("net.server.socket", this.#onServer)
  }

  stop(): void {
    unsubscribe("net.client.socket", this.#onClient)
    unsubscribe("net.server.socket", this.#onServer)
  }

  #seen(socket: Socket, closed: () => void): void {
    this.#count++
    socket.once("close", () => {
      this.#count++
      closed()
    })
  }

  pending(): boolean {
    if (this.#clients.size !== this.#servers.size) return true
    for (const client of this.#clients) if (!this.#isLevel(client)) return true
    return false
  }

  moved(): number {
    let moved = this.#count
    for (const socket of this.#clients) moved += socket.bytesRead + socket.bytesWritten
    return moved
  }

  /** True when the other end has read all bytes. A socket that is still connecting has no other end. */
  #isLevel(client: Socket): boolean {
    const server = this.#servers.get(`${client.localPort} ${client.remotePort}`)
    return (
      server !== undefined &&
      server.bytesRead === client.bytesWritten &&
      client.bytesRead === server.bytesWritten
    )
  }
}

/** Node's documentation specifies the messages of these channels. */
const socketOf = (message: unknown): Socket => (message as { readonly socket: Socket }).socket
