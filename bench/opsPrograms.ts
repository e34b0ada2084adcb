/**
 * The other side of `ops.ts`, in a process of its own: a provider, and readers of `/events` that come and go when the
 * parent says so.
 */
import { once } from "node:events"
import { connect } from "node:net"
import type { Socket } from "node:net"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

const answer = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "m",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "The plan is to run the tests." },
      finish_reason: "stop"
    }
  ],
  usage: { prompt_tokens: 12, completion_tokens: 20, total_tokens: 32 }
})

const server = createServer((request, response) => {
  request.resume()
  request.on("end", () => {
    response.writeHead(200, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(answer)
    })
    response.end(answer)
  })
})

let sockets: ReadonlyArray<Socket> = []
let bytes = 0

/** A port and a number of readers; 0 ends them. */
process.on("message", ({ port, readers }: { readonly port: number; readonly readers: number }) => {
  for (const socket of sockets) socket.destroy()
  sockets = Array.from({ length: readers }, () => {
    const socket = connect(port, "127.0.0.1", () =>
      socket.write("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    )
    socket.on("error", () => {})
    socket.on("data", (chunk) => (bytes += chunk.length))
    return socket
  })
  process.send?.({ bytes })
})

server.listen(0, "127.0.0.1")
await once(server, "listening")
// The type of a server that listens on a port.
process.send?.((server.address() as AddressInfo).port)
