/**
 * A gateway behind an HTTP server of Node.
 *
 * - Beyond loopback it does not start without a key (`Access`).
 * - Bounded are the headers (32 KiB), the body, the time of a request to arrive, and the calls at a time.
 * - A caller that leaves ends its call at once. A caller that reads slowly slows the vendor down.
 * - At the end of the scope new requests are refused, and running answers may go on for {@link Options.drain}. Those that
 *   have not ended by then end with an error of their format.
 *
 * **Example** (On a port of its own)
 *
 * ```ts
 * const serving = Effect.gen(function* () {
 *   const gateway = yield* Gateway.make()
 *   const { url } = yield* Server.listen(gateway, { port: 4190 })
 *   yield* Console.log(`Set the base URL of your client to ${url}/v1`)
 *   return yield* Effect.never
 * })
 * ```
 */
import { Options as Check } from "@outlast/resilience"
import { Clock, Data, Duration, Effect, Latch, Option, Redacted } from "effect"
import type { Scope } from "effect"
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as Problems from "../answer/Problems.ts"
import * as Replies from "../answer/Replies.ts"
import type { Reply } from "../answer/Reply.ts"
import type { Gateway } from "../Gateway.ts"
import type { Incoming } from "../Handler.ts"
import { isServed, wireAt } from "../Handler.ts"
import * as Access from "./Access.ts"

export interface Options {
  /** Default: any free port. */
  readonly port?: number | undefined
  /** Default: `127.0.0.1`. Any address beyond loopback needs `keys`. */
  readonly host?: string | undefined
  /** Keys of callers, of at least 16 characters. Default: none is asked for. */
  readonly keys?: ReadonlyArray<Redacted.Redacted> | undefined
  /** Origins of web pages that may ask. Default: none. */
  readonly origins?: ReadonlyArray<string> | undefined
  /** Host names under which the server is reached, beside loopback. Default: none. */
  readonly names?: ReadonlyArray<string> | undefined
  /** Hears of each request once its answer has ended. Default: nobody does. */
  readonly onAnswered?: ((entry: Entry) => void) | undefined
  /** Time for running answers at the end. Default: 10 s. */
  readonly drain?: Duration.Input | undefined
}

/** A request and its answer, without content. */
export interface Entry {
  readonly method: string
  /** A path that is served; empty for any other. */
  readonly path: string
  readonly status: number
  /** Milliseconds from the request to the end of its answer. */
  readonly duration: number
  /** Who answered, with the name of the key, e.g. `openai/gpt-5.1#OPENAI_API_KEY`. */
  readonly target: string | undefined
  readonly attempts: number
  /** The caller left before the end. */
  readonly hasLeft: boolean
}

export const defaults = {
  port: 0,
  host: "127.0.0.1",
  drain: Duration.seconds(10)
} as const

/** The server cannot start. */
export class NotStarted extends Data.TaggedError("NotStarted")<{ readonly message: string }> {}

export interface Listening {
  /** Without a path, e.g. `http://127.0.0.1:4190`. */
  readonly url: string
  /** Refuses new requests from now on, with status 503. */
  readonly refuse: Effect.Effect<void>
  /** Refuses new requests, and waits for the running answers. Ends those that take longer than {@link Options.drain}. */
  readonly drained: Effect.Effect<void>
  /** Ends the running answers with an error of their format, and waits until that is written. */
  readonly interrupted: Effect.Effect<void>
}

const { is } = Check

const checks: Check.Checks<Options> = {
  port: (module, field, value) =>
    Check.check(
      typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 65_535,
      module,
      field,
      value,
      "a port from 0 to 65535"
    ),
  host: is.text,
  keys: (module, field, value) =>
    Check.check(
      Array.isArray(value) && value.every((key) => Redacted.isRedacted(key)),
      module,
      field,
      undefined,
      "a list of Redacted keys"
    ),
  origins: is.list(is.text, "a list of origins"),
  names: is.list(is.text, "a list of host names"),
  onAnswered: is.fn("(entry) => void"),
  drain: is.duration()
}

/** Milliseconds in which the end of an answer must be written. */
const writtenWithin = 1_000

const ending: Access.Refusal = {
  status: 503,
  code: "shutting_down",
  message: "The gateway is shutting down. Ask again."
}

/** Milliseconds for the headers of a request, and for all of it. */
const headersWithin = 10_000
const requestWithin = 60_000

/** Milliseconds that an idle connection is kept: longer than load balancers keep theirs, which otherwise use a closed one. */
const idleFor = 75_000

/** Milliseconds that a caller may read nothing of what waits for it. */
const readsWithin = 60_000

/** Why a server does not start with these keys of callers; `undefined`: it does. */
export const refusedKeys = (host: string, keys: ReadonlyArray<Redacted.Redacted>): string | undefined => {
  if (keys.length === 0 && !Access.isLoopback(host)) {
    return `The address ${host} can be reached from other machines: set a key for callers.`
  }
  return keys.some((key) => Redacted.value(key).length < Access.shortestKey)
    ? `A key for callers has fewer than ${Access.shortestKey} characters: openssl rand -hex 32 makes one.`
    : undefined
}

/** Serves until the scope ends. Throws an `InvalidOption` for wrong options, as a defect. */
export const listen = (
  gateway: Gateway,
  options: Options = {}
): Effect.Effect<Listening, NotStarted, Scope.Scope> =>
  Effect.gen(function* () {
    Check.fields("Server.listen", options, checks)
    const { host = defaults.host, port = defaults.port } = options
    const wrong = refusedKeys(host, options.keys ?? [])
    if (wrong !== undefined) return yield* new NotStarted({ message: wrong })
    const keys = (options.keys ?? []).map((key) => Redacted.value(key))
    const access = { keys, origins: options.origins ?? [], names: options.names ?? [] }
    const { onAnswered } = options
    const clock = yield* Clock.Clock
    const now = () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
    const idle = Latch.makeUnsafe(true)
    let running = 0
    let isRefusing = false
    const refusalOf = ({ header }: Incoming) => (isRefusing ? ending : Access.refusal(access, header))
    const server = createServer(
      {
        maxHeaderSize: 32_768,
        headersTimeout: headersWithin,
        requestTimeout: requestWithin,
        keepAliveTimeout: idleFor,
        connectionsCheckingInterval: 1_000
      },
      (request, response) => {
        if (++running === 1) idle.closeUnsafe()
        const begun = now()
        void served(gateway, access, refusalOf, request, response).then((reply) => {
          if (--running === 0) idle.openUnsafe()
          onAnswered?.(entryOf(request, response, reply, now() - begun))
        })
      }
    )
    const refuse = Effect.sync(() => {
      isRefusing = true
    })
    const endedWithin = (limit: Duration.Input) =>
      Effect.map(Effect.timeoutOption(idle.await, limit), Option.isSome)
    const interrupted = Effect.asVoid(Effect.andThen(gateway.interrupt, endedWithin(writtenWithin)))
    const within = Duration.fromInputUnsafe(options.drain ?? defaults.drain)
    const drained = Effect.gen(function* () {
      yield* refuse
      if (!(yield* endedWithin(within))) yield* interrupted
    })
    const end = Effect.andThen(
      drained,
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
    )
    const url = yield* Effect.acquireRelease(listening(server, host, port), () => end)
    return { url, refuse, drained, interrupted }
  })

const listening = (server: Server, host: string, port: number): Effect.Effect<string, NotStarted> =>
  Effect.callback<string, NotStarted>((resume) => {
    server.once("error", ({ code, message }: NodeJS.ErrnoException) =>
      resume(
        Effect.fail(
          new NotStarted({
            message:
              code === "EADDRINUSE"
                ? `Port ${port} of ${host} is in use. Choose another one.`
                : `${host}: ${message}`
          })
        )
      )
    )
    server.listen(port, host, () => {
      // A server that listens on a port has an address of this kind.
      const { address, port } = server.address() as AddressInfo
      resume(Effect.succeed(`http://${address.includes(":") ? `[${address}]` : address}:${port}`))
    })
  })

/** Answers a request. Returns its reply, if it had one. */
const served = async (
  gateway: Gateway,
  access: Access.Access,
  refusalOf: (incoming: Incoming) => Access.Refusal | undefined,
  request: IncomingMessage,
  response: ServerResponse
): Promise<Reply | undefined> => {
  const left = new AbortController()
  response.once("close", () => {
    if (!response.writableFinished) left.abort(new DOMException("The caller has left.", "AbortError"))
  })
  const incoming = incomingOf(request, left.signal)
  const refusal = refusalOf(incoming)
  let reply: Reply | undefined
  try {
    if (request.method === "OPTIONS" && Access.isAllowedPage(access, incoming.header)) {
      preflight(response)
      return undefined
    }
    reply = refusal === undefined ? await gateway.handle(incoming) : refused(incoming, refusal)
    const origin = incoming.header("origin")
    // Only a listed origin comes this far.
    if (origin !== undefined && refusal === undefined) {
      response.setHeader("access-control-allow-origin", origin)
      response.setHeader("vary", "origin")
    }
    await write(reply, request, response)
  } catch {
    // The caller has left, or its answer broke: there is nobody to tell.
    response.destroy()
  }
  return reply
}

const entryOf = (
  { method = "", url = "" }: IncomingMessage,
  response: ServerResponse,
  { headers }: Pick<Reply, "headers"> = { headers: {} },
  duration: number
): Entry => {
  const path = url.split("?", 1)[0] ?? ""
  return {
    method,
    path: isServed(path) ? path : "",
    status: response.statusCode,
    duration,
    target: headers["x-outlast-target"],
    attempts: Number(headers["x-outlast-attempts"] ?? 0),
    hasLeft: !response.writableEnded
  }
}

/** The browser of an allowed page asks whether it may send its request. */
const preflight = (response: ServerResponse): void => {
  response.writeHead(204, {
    "access-control-allow-origin": response.req.headers.origin,
    "access-control-allow-methods": "POST, GET",
    "access-control-allow-headers": "*, authorization",
    "access-control-max-age": "600",
    vary: "origin"
  })
  response.end()
}

const refused = ({ path }: Incoming, { code, message, status }: Access.Refusal): Reply => {
  const wire = wireAt(path)
  // Another instance may answer: clients may repeat this one.
  const headers = status === 503 ? { ...Replies.repeatable, connection: "close" } : {}
  return Replies.problem(wire, Problems.own(wire, status, message, code), headers)
}

const incomingOf = (request: IncomingMessage, signal: AbortSignal): Incoming => {
  const header = (name: string): string | undefined => {
    const value = request.headers[name]
    return Array.isArray(value) ? value.join(", ") : value
  }
  const { method = "", url = "/" } = request
  const query = url.indexOf("?")
  return {
    method,
    path: query === -1 ? url : url.slice(0, query),
    header,
    names: () => Object.keys(request.headers),
    signal,
    read: (maxBytes) =>
      Number(header("content-length") ?? 0) > maxBytes
        ? Promise.resolve(undefined)
        : bodyOf(request, maxBytes)
  }
}

/** The text of a body; `undefined` above so many bytes, of which the rest is not read. Rejects when the caller leaves. */
const bodyOf = (request: IncomingMessage, maxBytes: number): Promise<string | undefined> =>
  new Promise((resolve, reject) => {
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBytes) return void chunks.push(chunk)
      request.pause()
      resolve(undefined)
    })
    request.on("end", () => resolve(Buffer.concat(chunks).toString()))
    request.on("error", reject)
  })

/** Writes the answer, up to its end. A body that is not read to its end would be taken for the next request. */
const write = (
  { body, headers, status }: Reply,
  request: IncomingMessage,
  response: ServerResponse
): Promise<void> | undefined => {
  if (!request.complete) response.setHeader("connection", "close")
  if (typeof body !== "object") {
    const length = body === undefined ? undefined : { "content-length": Buffer.byteLength(body) }
    response.writeHead(status, { ...headers, ...length }).end(body)
    return undefined
  }
  response.writeHead(status, headers)
  return new Promise<void>((resolve, reject) => {
    response.on("drain", () => {
      response.setTimeout(0)
      body.resume()
    })
    // The signal of the request has ended the call.
    response.once("close", resolve)
    body.to({
      write: (text) => {
        const hasRoom = response.write(text)
        // Without a listener, Node closes a connection on which nothing has moved for this time.
        if (!hasRoom) response.setTimeout(readsWithin)
        return hasRoom
      },
      end: () => {
        response.end()
        resolve()
      },
      fail: reject
    })
  })
}
