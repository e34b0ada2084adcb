/**
 * A `fetch` for programs that make thousands of calls a second, such as gateways: Node's own takes about half of the CPU
 * time of a call. This one sends through a dispatcher of `undici`, an optional peer: install it beside this package.
 *
 * Answers, streams, aborts and errors are those of Node's `fetch`, and the time limit for connecting applies. The
 * dispatcher may be any of undici's: an `Agent` with other limits, a `ProxyAgent`, a `MockAgent`.
 *
 * **Limits.**
 * - No compression is requested. Where a server compresses nevertheless, `gzip` and `deflate` are read.
 * - Redirects are returned, not followed. The providers of this package follow them by their own rules.
 * - A `Request`, and a body that is neither text nor bytes, go to the global `fetch`.
 * - Where the dispatcher limits its connections, waiting for one is outside the time limit for connecting.
 *
 * **Example** (One for all targets)
 *
 * ```ts
 * const fetch = UndiciFetch.make()
 * const chain = [Anthropic.model("claude-sonnet-4-5", { fetch }), OpenAi.model("gpt-5.1", { fetch })]
 * ```
 */
import { Options as Check } from "@outlast/resilience"
import type { Dispatcher } from "undici"
import { Agent } from "undici"

type Fetch = typeof globalThis.fetch

export interface Options {
  /** Sends the requests. Default: a new `Agent` that speaks HTTP/1.1, as Node's `fetch` does. */
  readonly dispatcher?: Dispatcher | undefined
}

/** Throws an `InvalidOption` for a dispatcher without a `dispatch` method. */
export const make = (options: Options = {}): Fetch => {
  Check.fields("UndiciFetch", options, checks)
  const dispatcher = options.dispatcher ?? new Agent({ allowH2: false })
  return (input, init = {}) => {
    const { body = null, headers = {}, method = "GET", signal } = init
    if (input instanceof Request || !isPlain(body)) return globalThis.fetch(input, init)
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const { origin, pathname, search } = new URL(input)
      const path = pathname + search
      // undici reads an array as names and values in turn.
      const sent = {
        origin,
        path,
        method,
        headers: Array.isArray(headers) ? new Headers(headers) : headers,
        body
      }
      dispatcher.dispatch(sent, new Exchange(signal ?? undefined, resolve, reject))
    })
  }
}

const checks: Check.Checks<Options> = {
  dispatcher: Check.is.having("a dispatcher of undici", "dispatch")
}

const isPlain = (body: RequestInit["body"]): body is string | Uint8Array<ArrayBuffer> | null =>
  body === null || typeof body === "string" || body instanceof Uint8Array

/** Bytes of a body that wait for its reader. More stay at the server. */
const maxQueued = 65_536

type Controller = Dispatcher.DispatchController
type Received = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2]

/** One request and its response. Ends once: by the end of the body, an error, an abort or a cancelled body. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #signal: AbortSignal | undefined
  readonly #resolve: (response: Response) => void
  readonly #reject: (error: unknown) => void
  #request: Controller | undefined
  #body: ReadableStreamDefaultController<Uint8Array> | undefined
  #isOver = false

  constructor(
    signal: AbortSignal | undefined,
    resolve: (response: Response) => void,
    reject: (error: unknown) => void
  ) {
    this.#signal = signal
    this.#resolve = resolve
    this.#reject = reject
    signal?.addEventListener("abort", this.#abort)
  }

  onRequestStart(request: Controller): void {
    this.#request = request
    if (this.#isOver) this.#close()
  }

  onResponseStart(request: Controller, status: number, received: Received, statusText = ""): void {
    // An interim response, as 103 with early hints.
    if (status < 200 || this.#isOver) return
    const headers = new Headers()
    for (const name in received) {
      const value = received[name]
      if (Array.isArray(value)) for (const item of value) headers.append(name, item)
      else if (value !== undefined) headers.append(name, value)
    }
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#body = controller
        },
        pull: () => request.resume(),
        cancel: () => {
          this.#end()
          this.#close()
        }
      },
      new ByteLengthQueuingStrategy({ highWaterMark: maxQueued })
    )
    this.#resolve(
      new Response(isBodiless.has(status) ? null : decoded(body, headers), { status, statusText, headers })
    )
  }

  onResponseData(request: Controller, chunk: Uint8Array): void {
    const body = this.#body
    if (this.#isOver || body === undefined) return
    body.enqueue(chunk)
    if ((body.desiredSize ?? 0) <= 0) request.pause()
  }

  onResponseEnd(): void {
    if (this.#end()) this.#body?.close()
  }

  onResponseError(_: Controller, cause: Error): void {
    // The message of Node's `fetch`, which clients and classifiers know.
    this.#fail(new TypeError(this.#body === undefined ? "fetch failed" : "terminated", { cause }))
  }

  readonly #abort = (): void => {
    this.#fail(this.#signal?.reason)
    this.#close()
  }

  #fail(error: unknown): void {
    if (!this.#end()) return
    if (this.#body === undefined) this.#reject(error)
    else this.#body.error(error)
  }

  /** False when the exchange was over before. */
  #end(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    this.#signal?.removeEventListener("abort", this.#abort)
    return true
  }

  /** Closes the connection of a request whose answer is not wanted any more. */
  #close(): void {
    this.#request?.abort(new DOMException("The request was aborted.", "AbortError"))
  }
}

/** Statuses for which a `Response` takes no body. */
const isBodiless: ReadonlySet<number> = new Set([204, 205, 304])

/** The body without the compression that its headers name. */
const decoded = (body: ReadableStream<Uint8Array>, headers: Headers): ReadableStream<Uint8Array> => {
  const coding = headers.get("content-encoding")?.trim().toLowerCase()
  return coding === "gzip" || coding === "deflate"
    ? // The types of Node and of the web differ in the bytes that a stream takes.
      body.pipeThrough(new DecompressionStream(coding) as ReadableWritablePair<Uint8Array, Uint8Array>)
    : body
}
