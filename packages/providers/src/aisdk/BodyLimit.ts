/**
 * Limits on the bytes of a response, counted after decompression (600 MB of zeros travel in 600 KB), and on the time that
 * the body of an error takes.
 *
 * A body above its limit ends with an error that names the limit, and its connection is closed. An answer that is too
 * long is a `Format` failure. An error that is too long keeps its status, its headers and the beginning of its body, which
 * the classifier reads.
 *
 * The status and the headers of an error say most, so its body may take {@link maxErrorTime} after them. A body that
 * stalls or breaks ends there, and its beginning is the body.
 *
 * The body of an answer passes unchanged if its `content-length` is within the limit and it is not compressed.
 * `EventFilter` counts the bytes of streams.
 */
import { FailoverReason, ProviderFailure } from "@outlast/agent"

const mebi = 1024 * 1024

/**
 * Bytes of a response after decompression, at most.
 *
 * A long text is small: 128,000 tokens are 1 MB. The limits leave room for images in Base64, of which a PNG of 4K takes
 * 20 MB, and for the frames of streams, up to 2 KB around each token.
 */
export const maxBytes = {
  /** A complete answer. */
  answer: 64 * mebi,
  /** A stream of events. */
  stream: 256 * mebi,
  /** One event of a stream. */
  event: 32 * mebi,
  /** Comments and dropped events of a stream in a row. */
  comments: 32 * mebi,
  /** The body of an error, which may repeat the request. */
  error: mebi
} as const

/** Milliseconds that the body of an error may take. */
const maxErrorTime = 3_000

/** Bytes of an error that is too long which its failure keeps. The classifier reads no more. */
const maxKept = 8_192

/** The response, whose body ends with an error above its limit. */
export const limited = (response: Response): Response => {
  const { body, headers, ok, status, statusText } = response
  if (typeof body?.getReader !== "function") return response
  if (!ok)
    return new Response(counted(inTime(body), maxBytes.error, response), { headers, status, statusText })
  const limit = maxBytes.answer
  if (isWithin(headers, limit)) return response
  return new Response(counted(body, limit, response), { headers, status, statusText })
}

/** The transport holds a body to its length. */
const isWithin = (headers: Headers, limit: number): boolean => {
  const length = headers.get("content-length")
  return length !== null && Number(length) <= limit && !headers.has("content-encoding")
}

/** The body of an error, which ends when its time is over, or its connection breaks. */
const inTime = (body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> => {
  const reader = body.getReader()
  const cancel = () => void reader.cancel().catch(() => {})
  const late = AbortSignal.timeout(maxErrorTime)
  late.addEventListener("abort", cancel)
  const stop = () => late.removeEventListener("abort", cancel)
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }) as const)
        if (!done) return controller.enqueue(value)
        stop()
        controller.close()
      },
      cancel: (reason) => {
        stop()
        return reader.cancel(reason)
      }
    },
    { highWaterMark: 0 }
  )
}

const counted = (
  body: ReadableStream<Uint8Array>,
  limit: number,
  response: Response
): ReadableStream<Uint8Array> => {
  const reader = body.getReader()
  let size = 0
  let start = ""
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const { done, value } = await reader.read()
        if (done) return controller.close()
        size += value.length
        if (!response.ok && start.length < maxKept)
          start += Buffer.from(value.subarray(0, maxKept)).toString()
        if (size <= limit) return controller.enqueue(value)
        reader.cancel().catch(() => {})
        throw response.ok
          ? tooLong(`The answer has more than ${limit} bytes.`)
          : new LongError(response, limit, start)
      },
      cancel: (reason) => reader.cancel(reason)
    },
    { highWaterMark: 0 }
  )
}

/** The failure of an answer that is too long. `detail` names the limit. */
export const tooLong = (detail: string): ProviderFailure.ProviderFailure =>
  ProviderFailure.local("answer/size", new FailoverReason.Format({ side: "response" }), undefined, detail)

/** An error of a provider whose body is too long, in the form that the classifier reads. */
export class LongError extends Error {
  readonly statusCode: number
  readonly responseBody: string
  readonly responseHeaders: Readonly<Record<string, string>>

  constructor({ headers, status }: Response, limit: number, start: string) {
    super(`The body of the error has more than ${limit} bytes.`)
    this.statusCode = status
    this.responseBody = start
    this.responseHeaders = Object.fromEntries(headers)
  }
}
