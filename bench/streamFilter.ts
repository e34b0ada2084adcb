/**
 * The cost of ending a stream at its last event: the same body, raw and through the filter, with one event
 * per chunk and with many.
 */
import { EventFilter } from "../packages/providers/src/aisdk/EventFilter.ts"
import { filtered } from "../packages/providers/src/aisdk/StreamEnd.ts"
import * as StreamProtocol from "../packages/providers/src/aisdk/StreamProtocol.ts"
import type { Report } from "./measure.ts"
import { measure, median } from "./measure.ts"

/** Limit for the filter, in microseconds per event. */
const target = 1

const rounds = 15
const events = 500

interface Vendor {
  readonly url: string
  readonly event: (n: number) => string
  readonly last: string
}

const named = (data: { readonly type: string; readonly [field: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

const vendors: Readonly<Record<string, Vendor>> = {
  "Chat Completions": {
    url: "https://vendor.example/v1/chat/completions",
    event: (n) =>
      `data: {"id":"chatcmpl-BX9kT2","object":"chat.completion.chunk","created":1716400000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_44132a4de3","choices":[{"index":0,"delta":{"content":" word${n}"},"logprobs":null,"finish_reason":null}],"usage":null}\n\n`,
    last: "data: [DONE]\n\n"
  },
  Anthropic: {
    url: "https://vendor.example/v1/messages",
    event: (n) =>
      named({
        type: "content_block_delta",
        index: 0,
        delta: { type: "text_delta", text: ` word${n}` }
      }),
    last: named({ type: "message_stop" })
  },
  Responses: {
    url: "https://vendor.example/v1/responses",
    event: (n) =>
      named({
        type: "response.output_text.delta",
        sequence_number: n,
        item_id: "msg_1",
        output_index: 0,
        content_index: 0,
        delta: ` word${n}`
      }),
    last: named({ type: "response.completed" })
  },
  Gemini: {
    url: "https://vendor.example/v1beta/models/m:streamGenerateContent",
    event: (n) =>
      `data: {"candidates": [{"content": {"parts": [{"text": " word${n}"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 5,"totalTokenCount": 7},"modelVersion": "gemini-2.5-flash"}\n\n`,
    last: ""
  }
}

const body = (chunks: ReadonlyArray<Uint8Array<ArrayBuffer>>) => {
  let next = 0
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      pull: (controller) => {
        const chunk = chunks[next++]
        if (chunk === undefined) controller.close()
        else controller.enqueue(chunk)
      }
    },
    { highWaterMark: 0 }
  )
}

let read = 0

const drain = async (stream: ReadableStream<Uint8Array>): Promise<void> => {
  const reader = stream.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    read += value.length
  }
}

export const streamFilter = async (report: Report): Promise<void> => {
  report.say(`The filter of event streams, ${events} events, ${rounds} rounds, Node ${process.version}`)
  for (const [name, { url, event, last }] of Object.entries(vendors)) {
    for (const perChunk of [1, 16]) {
      const texts = [...Array.from({ length: events }, (_, n) => event(n)), last]
      const chunks = Array.from({ length: Math.ceil(texts.length / perChunk) }, (_, i) =>
        Uint8Array.from(Buffer.from(texts.slice(i * perChunk, (i + 1) * perChunk).join("")))
      )
      const many = (once: () => Promise<void>) => async (calls: number) => {
        for (let i = 0; i < calls; i++) await once()
      }
      const figures = await measure(
        [
          { name: "as it is", run: many(() => drain(body(chunks))) },
          {
            name: "behind the filter",
            run: many(() => drain(filtered(body(chunks), new EventFilter(StreamProtocol.of(url)))))
          },
          {
            name: "the filter alone",
            run: many(async () => {
              const filter = new EventFilter(StreamProtocol.of(url))
              for (const chunk of chunks) for (const bytes of filter.push(chunk)) read += bytes.length
            })
          }
        ],
        { rounds, calls: 200, unitsPerCall: events }
      )
      report.table(`${name}, ${perChunk} in a chunk, µs per event`, figures)
      const [raw, behind] = figures
      const added = median((behind?.rounds ?? []).map((each, i) => each - (raw?.rounds?.[i] ?? NaN)))
      report.say(`  adds ${added.toFixed(2)} µs per event; the limit is ${target} µs`)
    }
  }
  if (read === 0) throw new Error("Nothing was read.")
}
