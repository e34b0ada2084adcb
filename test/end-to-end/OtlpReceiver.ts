/** A receiver of OTLP over HTTP for tests. */
import { createServer } from "node:http"
import type { IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect } from "effect"

export interface Received {
  readonly path: string
  readonly type: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** A receiver on a port of its own, which answers as a collector does. */
export const receiver = Effect.acquireRelease(
  Effect.callback<{
    readonly received: Array<Received>
    readonly url: string
    readonly close: () => void
  }>((resume) => {
    const received: Array<Received> = []
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const type = request.headers["content-type"] ?? ""
        received.push({
          path: request.url ?? "",
          type,
          headers: request.headers,
          body: Buffer.concat(chunks)
        })
        response.writeHead(200, { "content-type": type }).end(type.includes("json") ? "{}" : "")
      })
    })
    server.listen(0, "127.0.0.1", () => {
      // A server that listens on TCP has an address with a port.
      const { port } = server.address() as AddressInfo
      resume(
        Effect.succeed({
          received,
          url: `http://127.0.0.1:${port}`,
          close: () => {
            server.closeAllConnections()
            server.close()
          }
        })
      )
    })
  }),
  ({ close }) => Effect.sync(close)
)
