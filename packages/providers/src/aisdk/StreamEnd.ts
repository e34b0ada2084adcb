/**
 * Ends a stream of events at its last event, whatever the server does with the connection.
 *
 * Servers and gateways exist that keep the connection open behind `[DONE]`. A client that waits for the end of the
 * body would wait until a time limit ends a complete answer. Here the body ends with the last event of its protocol
 * (`StreamProtocol`), or {@link restWithin} milliseconds behind a finish reason if nothing more comes.
 *
 * - A connection that the server ends in that time serves the next request. Otherwise it is closed.
 * - Only a successful `text/event-stream` is read. Every other response is returned as it is.
 * - Backpressure and cancellation reach the server as without it.
 */
import { EventFilter } from "./EventFilter.ts"
import * as StreamProtocol from "./StreamProtocol.ts"

/** Milliseconds that the server has to end the body behind a complete answer. */
const restWithin = 1_000

/** The response, whose body ends at its last event. `url` is that of the request. */
export const ended = (response: Response, url: string): Response => {
  const { body, headers, ok, status, statusText } = response
  if (!ok || typeof body?.getReader !== "function" || !isEvents(headers)) return response
  return new Response(filtered(body, new EventFilter(StreamProtocol.of(url))), {
    headers,
    status,
    statusText
  })
}

const isEvents = (headers: Headers): boolean =>
  headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() === "text/event-stream"

type Reader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>
type Controller = ReadableStreamDefaultController<Uint8Array>

/** The body behind a filter. */
export const filtered = (
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  filter: EventFilter
): ReadableStream<Uint8Array> => {
  const reader = body.getReader()
  const pull = async (controller: Controller): Promise<void> => {
    // Keep-alives behind a complete answer give it no more time.
    const stop = filter.isComplete ? cancelLate(reader) : undefined
    try {
      for (;;) {
        const { done, value } = await reader.read()
        const out = done ? filter.end() : filter.push(value)
        for (const bytes of out) controller.enqueue(bytes)
        if (done || filter.isEnded) {
          controller.close()
          if (!done) void rest(reader)
          return
        }
        if (out.length > 0) return
      }
    } catch (error) {
      cancel(reader)
      throw error
    } finally {
      stop?.()
    }
  }
  return new ReadableStream<Uint8Array>(
    { pull, cancel: (reason) => reader.cancel(reason) },
    { highWaterMark: 0 }
  )
}

/** Closes the connection, without waiting for it. */
const cancel = (reader: Reader): void => {
  reader.cancel().catch(() => {})
}

/** Cancels the reader when the time of the server is over: a read that waits then ends. Returns what stops it. */
const cancelLate = (reader: Reader): (() => void) => {
  const late = AbortSignal.timeout(restWithin)
  const onLate = () => cancel(reader)
  late.addEventListener("abort", onLate)
  return () => late.removeEventListener("abort", onLate)
}

/** Reads to the end of the body, and drops what comes. */
const rest = async (reader: Reader): Promise<void> => {
  const stop = cancelLate(reader)
  try {
    while (!(await reader.read()).done);
  } catch {
    // The answer is complete: how the connection ends is not part of it.
  } finally {
    stop()
  }
}
