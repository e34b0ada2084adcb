/**
 * Reads a complete JSON body, and hands it on in the form that the client reads (`AnswerForm`). Errors of the connection
 * reach the client as they come, and so does its cancellation. `BodyLimit` bounds the body.
 */
import type { AnswerForm } from "./form/AnswerForm.ts"

export const formed = (response: Response, form: AnswerForm): Response => {
  const { body, headers, ok, status, statusText } = response
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() ?? ""
  if (!ok || !texts.has(type) || typeof body?.getReader !== "function") return response
  return new Response(changed(body, form), { headers, status, statusText })
}

/** Media types that servers give a JSON body. */
const texts: ReadonlySet<string> = new Set(["", "application/json", "text/event-stream", "text/plain"])

const changed = (
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  form: AnswerForm
): ReadableStream<Uint8Array> => {
  const reader = body.getReader()
  const chunks: Array<Uint8Array> = []
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        let read = await reader.read()
        for (; !read.done; read = await reader.read()) chunks.push(read.value)
        const bytes = Buffer.concat(chunks)
        const text = bytes.toString()
        const out = form.whole(text)
        controller.enqueue(out === text ? bytes : Buffer.from(out))
        controller.close()
      },
      cancel: (reason) => reader.cancel(reason)
    },
    { highWaterMark: 0 }
  )
}
