/**
 * Ends a stream of events at its last event, even if the server keeps the connection open.
 *
 * Some servers and gateways keep the connection open after `[DONE]`. A client that waits for the end of the
 * body would run into a time limit with a complete answer. Here the body ends with the last event of its protocol
 * (`StreamProtocol`), or {@link restWithin} milliseconds after a finish reason if no event follows.
 *
 * - An error in place of the first event fails the body, in the form that the classifier reads (`DisguisedError`). A later
 *   one does, too, after the events before it (`EventFilter`).
 * - A connection that breaks after a finish reason ends the body, too: the answer is complete.
 * - A connection that the server ends in that time serves the next request. Otherwise it is closed.
 * - Only a successful `text/event-stream` is read, and a response without a type (or `application/octet-stream`) to a
 *   request for a stream. Every other response is returned unchanged.
 * - Backpressure and cancellation still reach the server.
 */
import * as DisguisedError from "./DisguisedError.ts"
import { EventFilter } from "./EventFilter.ts"
import type { AnswerForm } from "./form/AnswerForm.ts"
import * as StreamProtocol from "./StreamProtocol.ts"

/** Milliseconds that the server has to end the body after a complete answer. */
const restWithin = 1_000

/** True for a response that is a stream of events. `asksForStream`: the request asks for one. */
export const isStream = ({ body, headers, ok }: Response, asksForStream: () => boolean): boolean =>
  ok && typeof body?.getReader === "function" && isEvents(headers, asksForStream)

/** A response that {@link isStream}, with a body that ends at its last event. Each event takes the `form`. */
export const ended = (response: Response, url: string, form?: AnswerForm): Response => {
  const { body, headers, status, statusText } = response
  if (body === null) return response
  const refused = (event: string) => DisguisedError.make(event, response)
  const filter = new EventFilter(StreamProtocol.of(url), undefined, refused, form)
  return new Response(filtered(body, filter), { headers, status, statusText })
}

const isEvents = (headers: Headers, asksForStream: () => boolean): boolean => {
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() ?? ""
  if (type === "text/event-stream") return true
  return (type === "" || type === "application/octet-stream") && asksForStream()
}

type Reader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>
type Read = Awaited<ReturnType<Reader["read"]>>
type Controller = ReadableStreamDefaultController<Uint8Array>

/** The body through a filter. */
export const filtered = (
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  filter: EventFilter
): ReadableStream<Uint8Array> => {
  const reader = body.getReader()
  let controller: Controller
  /** Enqueues the bytes that pass, or reads on if there are none. Not `async`, which costs more per event. */
  const take = ({ done, value }: Read): Promise<void> | undefined => {
    const out = done ? filter.end() : pushed(filter, value, reader)
    for (const bytes of out) controller.enqueue(bytes)
    if (done || filter.isEnded) {
      controller.close()
      if (!done) void rest(reader)
    } else if (out.length === 0) return reader.read().then(take)
    return undefined
  }
  const pull = (): Promise<void> => {
    if (filter.failure !== undefined) return Promise.reject(filter.failure)
    if (!filter.isComplete) return reader.read().then(take)
    // Keep-alives after a complete answer do not extend its time.
    return reader
      .read()
      .catch((): Read => ({ done: true, value: undefined }))
      .then(take)
      .finally(cancelLate(reader))
  }
  return new ReadableStream<Uint8Array>(
    {
      start: (own) => {
        controller = own
      },
      pull,
      cancel: (reason) => reader.cancel(reason)
    },
    { highWaterMark: 0 }
  )
}

const pushed = (filter: EventFilter, bytes: Uint8Array, reader: Reader): ReadonlyArray<Uint8Array> => {
  try {
    const out = filter.push(bytes)
    if (filter.failure !== undefined) cancel(reader)
    return out
  } catch (error) {
    cancel(reader)
    throw error
  }
}

/** Closes the connection, without waiting for it. */
const cancel = (reader: Reader): void => {
  reader.cancel().catch(() => {})
}

/** Cancels the reader after {@link restWithin}, which ends a pending read. Returns a function that stops the timer. */
const cancelLate = (reader: Reader): (() => void) => {
  const late = AbortSignal.timeout(restWithin)
  const onLate = () => cancel(reader)
  late.addEventListener("abort", onLate)
  return () => late.removeEventListener("abort", onLate)
}

/** Reads to the end of the body, and discards the bytes. */
const rest = async (reader: Reader): Promise<void> => {
  const stop = cancelLate(reader)
  try {
    while (!(await reader.read()).done);
  } catch {
    // The answer is complete, so a broken connection does not matter.
  } finally {
    stop()
  }
}
