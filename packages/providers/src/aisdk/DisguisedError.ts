/**
 * Errors that a server sends with a status of success in place of a stream: a JSON body, or a stream whose first event
 * is an error. Most clients take them for a stream that was cut, or for an event that they do not know.
 *
 * The start of the response is read up to its first event with data. An error is thrown with the body as it came, so
 * that the classifier decides by the code in it. Everything else passes unchanged, with what was read in front.
 *
 * **Limits.** Only responses to requests for a stream are read. A start of more than {@link maxStart} bytes passes.
 */
import { isErrorPart } from "@outlast/agent/failure/AnswerFacts"
import { partsOf } from "@outlast/agent/failure/EventFacts"

/** Bytes. */
const maxStart = 65_536

/** The response to a request for a stream, unless it is an error. */
export const revealed = async (
  response: Response,
  url: string,
  request: RequestInit | undefined
): Promise<Response> => {
  const { body, headers, status, statusText } = response
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase()
  const isJson = type === "application/json"
  if (status !== 200 || typeof body?.getReader !== "function" || !asksForStream(url, request)) return response
  if (!isJson && type !== "text/event-stream") return response
  const reader = body.getReader()
  const chunks: Array<Uint8Array> = []
  const decoder = new TextDecoder()
  let text = ""
  let size = 0
  let isDone = false
  while (!isDone && size <= maxStart) {
    const { done, value } = await reader.read()
    isDone = done
    if (value === undefined) continue
    chunks.push(value)
    size += value.length
    text += decoder.decode(value, { stream: true })
    isDone ||= !isJson && firstEvent(text) !== undefined
  }
  const start = isJson ? text : (firstEvent(text) ?? text).replaceAll(/\r\n?/g, "\n")
  if (isJson ? isErrorBody(text) : partsOf(start).some(({ isError }) => isError)) {
    reader.cancel().catch(() => {})
    throw Object.assign(new Error(""), asThrown(start, status, headers))
  }
  const rest = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const held = chunks.shift()
        if (held !== undefined) return controller.enqueue(held)
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel: (reason) => reader.cancel(reason)
    },
    { highWaterMark: 0 }
  )
  return new Response(rest, { headers, status, statusText })
}

/** True for the text of a body that is an error object. */
export const isErrorBody = (text: string): boolean => {
  try {
    return isErrorPart(JSON.parse(text))
  } catch {
    return false
  }
}

/** What the classifier reads. */
const asThrown = (responseBody: string, statusCode: number, headers: Headers) => ({
  statusCode,
  responseBody,
  responseHeaders: Object.fromEntries(headers)
})

/** The text up to the end of the first event with data, if that has come. */
const firstEvent = (text: string): string | undefined => eventWithData.exec(text)?.[0]

const lineEnd = String.raw`(?:\r\n|\n|\r(?!\n))`
const eventWithData = new RegExp(
  String.raw`^(?:[^\r\n]*${lineEnd})*?data:[^\r\n]*(?:${lineEnd}[^\r\n]+)*${lineEnd}${lineEnd}`
)

const asksForStream = (url: string, request: RequestInit | undefined): boolean =>
  url.includes("alt=sse") || (typeof request?.body === "string" && /"stream" ?: ?true/.test(request.body))
