/**
 * Bodies that a server sends with a status of success in place of a stream of events. Most clients read them as a
 * truncated stream, or not at all. The first character of the body decides, because servers give any of them any type:
 *
 * - a JSON error is thrown with its original body, so that the classifier decides by the code in it
 * - a complete answer in JSON becomes the event of a stream, and a list of answers one event each
 * - events pass as a stream
 *
 * Any other body passes unchanged.
 */
import * as DisguisedError from "./DisguisedError.ts"
import type { AnswerForm } from "./form/AnswerForm.ts"
import { isFields, parsed } from "./form/Fields.ts"
import * as StreamEnd from "./StreamEnd.ts"

/** True for a response that {@link read} reads: a text in place of the stream that was asked for. */
export const mayBe = ({ body, headers, status }: Response, asksForStream: () => boolean): boolean => {
  if (status !== 200 || typeof body?.getReader !== "function") return false
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase()
  return (type === "application/json" || type === "text/plain") && asksForStream()
}

/** Returns the response as the client reads it. Throws if it is an error. */
export const read = async (
  response: Response,
  url: string,
  form: AnswerForm | undefined
): Promise<Response> => {
  const { body, headers, status, statusText } = response
  if (body === null) return response
  const reader = body.getReader()
  const chunks: Array<Uint8Array> = []
  const isEnd = async (): Promise<boolean> => {
    const { done, value } = await reader.read()
    if (value !== undefined) chunks.push(value)
    return done
  }
  const answer = (body: string | ReadableStream<Uint8Array>) =>
    new Response(body, { headers, status, statusText })
  const text = () => Buffer.concat(chunks).toString()
  let isDone = await isEnd()
  while (!isDone && text().trim() === "") isDone = await isEnd()
  const first = text().trimStart()[0]
  if (first === "{" || first === "[") {
    while (!isDone) isDone = await isEnd()
    const whole = text()
    if (DisguisedError.isErrorBody(whole)) throw DisguisedError.make(whole, response)
    const events = eventsOf(whole)
    return events === undefined || form === undefined
      ? answer(whole)
      : StreamEnd.ended(new Response(events, { headers: streamed, status, statusText }), url, form)
  }
  const rest = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        const held = chunks.shift()
        if (held !== undefined) return controller.enqueue(Uint8Array.from(held))
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel: (reason) => reader.cancel(reason)
    },
    { highWaterMark: 0 }
  )
  return /^[a-z:]/.test(first ?? "") ? StreamEnd.ended(answer(rest), url, form) : answer(rest)
}

const streamed = { "content-type": "text/event-stream" }

/** The answers in a JSON text as events, if it has any. */
const eventsOf = (text: string): string | undefined => {
  const value = parsed(text)
  const all: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value]
  return all.length > 0 && all.every(isFields)
    ? all.map((each) => `data: ${JSON.stringify(each)}\n\n`).join("")
    : undefined
}
