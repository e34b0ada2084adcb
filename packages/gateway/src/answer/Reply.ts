/**
 * An answer of the gateway, before it is a `Response` or the bytes of a server. A body that is a text is written in one piece,
 * with its length.
 */
import type { Flow } from "./Flow.ts"
import { maxQueued } from "./Flow.ts"

export interface Reply {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Flow | undefined
}

export const json = (value: unknown, status = 200, headers: Reply["headers"] = {}): Reply => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(value)
})

export const toResponse = ({ body, headers, status }: Reply): Response =>
  new Response(typeof body === "object" ? streamOf(body) : body, { status, headers })

const streamOf = (flow: Flow): ReadableStream<Uint8Array> => {
  const encoder = new TextEncoder()
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) =>
        flow.to({
          write: (text) => {
            controller.enqueue(encoder.encode(text))
            return (controller.desiredSize ?? 0) > 0
          },
          end: () => controller.close(),
          fail: (reason) => controller.error(reason)
        }),
      pull: () => flow.resume(),
      cancel: () => flow.cancel()
    },
    new ByteLengthQueuingStrategy({ highWaterMark: maxQueued })
  )
}
