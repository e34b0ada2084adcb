/**
 * A `fetch` over a dispatcher of `undici`, an optional peer: install it beside this package. Use it where Node's `fetch`
 * limits the throughput, for example in a gateway: a call then takes about 0.6 times as long (`npm run bench -- http`).
 *
 * The time limit for connecting applies. Responses, cut bodies, failed connections and aborts look like those of Node's
 * `fetch`. The dispatcher may be any of undici's: an `Agent` with other limits, a `ProxyAgent`, a `MockAgent`.
 *
 * **Limits.**
 * - Sends text and bytes only. A `Request`, a form, a blob or a stream is rejected, also a URL with credentials.
 * - No compression is requested. A response that is compressed nevertheless is rejected, unless the dispatcher
 *   decompresses it: `new Agent().compose(interceptors.decompress())`.
 * - Redirects are returned, not followed. The providers of this package follow them by their own rules.
 * - Adds no headers of its own, such as `user-agent`. A response has no `url`.
 * - A status above 599 is rejected. A reason phrase beyond Latin-1 is left out.
 * - An abort after the last byte has no effect.
 * - Read or cancel every body: one of more than 64 KB that is never read keeps its connection.
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
  return (input, init) =>
    new Promise((resolve, reject) => {
      const { body, headers = {}, method = "GET", signal } = init ?? {}
      if (input instanceof Request || !isPlain(body)) {
        throw new TypeError("UndiciFetch sends text and bytes only: use the global fetch for this request")
      }
      signal?.throwIfAborted()
      const { origin, password, pathname, search, username } = new URL(input)
      if (username !== "" || password !== "")
        throw new TypeError("UndiciFetch: a URL may not have credentials")
      const exchange = new Exchange(signal ?? undefined, resolve, reject)
      const sent = {
        origin,
        path: pathname + search,
        method: method.toUpperCase(),
        // undici reads an array as names and values in turn.
        headers: Array.isArray(headers) ? new Headers(headers) : headers,
        body: copied(body)
      }
      try {
        // Checked above; undici's types list fewer kinds of bytes than it takes, and the usual methods only.
        dispatcher.dispatch(sent as Dispatcher.DispatchOptions, exchange)
      } catch (error) {
        exchange.fail(error)
      }
    })
}

const checks: Check.Checks<Options> = {
  dispatcher: Check.is.having("a dispatcher of undici", "dispatch")
}

/** A program may use its bytes again before they are sent. */
const copied = (body: RequestInit["body"]): unknown =>
  ArrayBuffer.isView(body)
    ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice()
    : body instanceof ArrayBuffer
      ? new Uint8Array(body).slice()
      : (body ?? null)

const isPlain = (body: RequestInit["body"]): boolean =>
  body === undefined ||
  body === null ||
  typeof body === "string" ||
  body instanceof ArrayBuffer ||
  ArrayBuffer.isView(body)

/** Bytes of a body that wait for its reader before its connection is paused. */
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
  #hasResponse = false
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
    // undici passes an error that is thrown here to `onResponseError`.
    if (isCompressed(headers)) throw new TypeError(compressed)
    const body = isBodiless.has(status) ? null : this.#stream(request)
    // Throws for a status above 599.
    const init = { status, statusText: isLatin1(statusText) ? statusText : "", headers }
    this.#resolve(new Response(body, init))
    this.#hasResponse = true
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
    // The messages of Node's `fetch`, which clients and classifiers know.
    this.fail(new TypeError(this.#hasResponse ? "terminated" : "fetch failed", { cause }))
  }

  fail(error: unknown): void {
    if (!this.#end()) return
    if (this.#hasResponse) this.#body?.error(error)
    else this.#reject(error)
  }

  #stream(request: Controller): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
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
  }

  readonly #abort = (): void => {
    this.fail(this.#signal?.reason)
    this.#close()
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

/** A `Response` takes no other reason phrase. */
const isLatin1 = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(text)

const isCompressed = (headers: Headers): boolean =>
  (headers.get("content-encoding") ?? "identity") !== "identity" && headers.get("content-length") !== "0"

const compressed =
  "UndiciFetch: the server compressed its response, and no compression was requested. Compose the dispatcher with undici's decompress interceptor, or use Node's fetch."
