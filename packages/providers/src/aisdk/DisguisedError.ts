/**
 * Errors that a server sends with a status of success in place of a stream, as a JSON body. Most clients read them as a
 * truncated stream.
 *
 * An error is thrown with its original body, so that the classifier decides by the code in it. Any other response
 * passes unchanged. `StreamEnd` does the same for a stream whose first event is an error.
 *
 * **Limits.** Only responses to requests for a stream are read. A body of more than {@link maxStart} bytes passes.
 */
import { AnswerFacts } from "@outlast/agent/failure"

/** Bytes of a body that are read. */
const maxStart = 65_536

/** True for a response that is read by {@link revealed}: JSON in place of a stream. */
export const mayBe = (
  { body, headers, status }: Response,
  url: string,
  request: RequestInit | undefined
): boolean => {
  if (status !== 200 || typeof body?.getReader !== "function") return false
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase()
  return type === "application/json" && asksForStream(url, request)
}

/** Returns the response. Throws if it is an error. */
export const revealed = async (response: Response): Promise<Response> => {
  const { body, headers, status, statusText } = response
  if (body === null) return response
  const reader = body.getReader()
  const chunks: Array<Uint8Array> = []
  let size = 0
  let isDone = false
  while (!isDone && size <= maxStart) {
    const { done, value } = await reader.read()
    isDone = done
    if (value === undefined) continue
    chunks.push(value)
    size += value.length
  }
  const text = Buffer.concat(chunks).toString()
  if (isDone && isErrorBody(text)) throw make(text, response)
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

/** The error that is thrown for a response, in the form that the classifier reads. */
export const make = (responseBody: string, { status: statusCode, headers }: Response): Error =>
  Object.assign(new Error(""), { statusCode, responseBody, responseHeaders: Object.fromEntries(headers) })

/** True for the text of a body that is an error object. */
export const isErrorBody = (text: string): boolean => {
  try {
    return AnswerFacts.isErrorPart(JSON.parse(text))
  } catch {
    return false
  }
}

/** True for a request that asks for a stream. */
export const asksForStream = (url: string, request: RequestInit | undefined): boolean =>
  url.includes("alt=sse") ||
  // The search for a plain text skips over a long prompt much faster than the pattern.
  (typeof request?.body === "string" &&
    request.body.includes('"stream"') &&
    /"stream" ?: ?true/.test(request.body))
