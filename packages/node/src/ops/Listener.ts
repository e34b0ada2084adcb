/** One HTTP server with limits for what clients send: size, time, requests of a connection, connections. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { ByteSize, Effect, Layer, Schema } from "effect"
import { HttpIncomingMessage, HttpMiddleware, HttpServer } from "effect/http"
import { createServer } from "node:http"
import { maxBody } from "./Body.ts"

/** A server cannot listen. */
export class ListenFailed extends Schema.TaggedError<ListenFailed>("@outlast/node/ops/ListenFailed")(
  "ListenFailed",
  {
    /** The option: `probes`, `metrics` or `page`. */
    listener: Schema.String,
    host: Schema.String,
    port: Schema.Finite,
    /** The code of the system, e.g. `EADDRINUSE`. */
    code: Schema.String
  }
) {
  override get message(): string {
    const where = `${this.host}:${this.port}`
    const advice =
      this.code === "EADDRINUSE"
        ? `Another program uses the port. Choose another one (\`${this.listener}.port\`), or 0 for any free one.`
        : this.code === "EACCES"
          ? `Ports below 1024 need a privilege. Choose another one (\`${this.listener}.port\`).`
          : `Check \`${this.listener}.host\` and \`${this.listener}.port\`.`
    return `Cannot listen on ${where} for ${this.listener} (${this.code}). ${advice}`
  }
}

export interface Limits {
  /** Milliseconds in which a request must arrive. */
  readonly request: number
  readonly connections: number
}

/** Bytes of all headers. */
const maxHeaders = 8_192

/**
 * Requests of one connection. Further ones are answered with 503, and the connection ends. A client that pipelines and
 * does not read holds this many answers in memory.
 */
const maxRequests = 100

/** Options of `HttpRouter.serve`: requests of probes are not logged. */
export const quiet = { disableLogger: true, disableListenLog: true } as const

/** Serves an application (`HttpRouter.serve`) until the scope ends. Returns the port. */
export const make = <E, R>(
  listener: string,
  { host, port }: { readonly host: string; readonly port: number },
  limits: Limits,
  app: Layer.Layer<never, E, HttpServer.HttpServer | R>
) =>
  Effect.gen(function* () {
    const server = createServer({
      maxHeaderSize: maxHeaders,
      headersTimeout: limits.request,
      requestTimeout: limits.request,
      connectionsCheckingInterval: Math.max(20, Math.min(1_000, limits.request / 2)),
      keepAliveTimeout: 5_000
    })
    server.maxConnections = limits.connections
    server.maxRequestsPerSocket = maxRequests
    const http = yield* NodeHttpServer.make(() => server, {
      host,
      port,
      gracefulShutdownTimeout: "1 second"
    }).pipe(Effect.mapError(({ cause }) => new ListenFailed({ listener, host, port, code: codeOf(cause) })))
    // Connections that stay open would keep the scope from closing.
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    yield* Layer.build(Layer.provide(app, Layer.succeed(HttpServer.HttpServer, http))).pipe(
      Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBody)),
      // Requests of probes and pages would fill the traces, and their headers may hold a token.
      Effect.provideService(HttpMiddleware.TracerDisabledWhen, () => true)
    )
    // Node hands an upgraded connection over to its listener, and no limit of the server applies to it any more.
    // Without a listener, a request for another protocol is an ordinary request.
    server.removeAllListeners("upgrade")
    const address = server.address()
    return typeof address === "object" && address !== null ? address.port : port
  })

const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : "unknown"
