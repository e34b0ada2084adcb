/** Properties of the filter of event streams, for any bytes in any division into chunks. */
import { assert, describe, it } from "@effect/vitest"
import { ProviderFailure } from "@outlast/agent"
import { EventFilter } from "#providers/aisdk/EventFilter"
import { maxBytes } from "#providers/aisdk/BodyLimit"
import * as StreamProtocol from "#providers/aisdk/StreamProtocol"
import * as fc from "fast-check"
import * as Sweeps from "../../../test/sweeps.ts"

const chat = "https://vendor.example/v1/chat/completions"
const messages = "https://vendor.example/v1/messages"
const responses = "https://vendor.example/v1/responses?api-version=1"
const gemini = "https://vendor.example/v1beta/models/m:streamGenerateContent?alt=sse"

/** The output for these chunks, joined. */
const passed = (
  url: string,
  chunks: ReadonlyArray<Uint8Array>,
  maxEvent: number = maxBytes.event
): Buffer => {
  const filter = new EventFilter(StreamProtocol.of(url), { ...maxBytes, event: maxEvent })
  const out = chunks.flatMap((chunk) => [...filter.push(chunk)])
  return Buffer.concat(filter.isEnded ? out : [...out, ...filter.end()])
}

const passedText = (url: string, text: string): string => passed(url, [Buffer.from(text)]).toString()

const text = (content: string) => `data: {"choices":[{"index":0,"delta":{"content":"${content}"}}]}\n\n`
const finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n`
const done = "data: [DONE]\n\n"

/** Divides the bytes at these places. */
const divided = (bytes: Buffer, places: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const cuts = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted(
    (a, b) => a - b
  )
  return cuts.flatMap((from, i) => [Uint8Array.from(bytes.subarray(from, cuts[i + 1] ?? bytes.length))])
}

const line = fc.constantFrom(
  text("a").trim(),
  text("é😀\\ud83d").trim(),
  `data: {"choices":[{"index":0,"delta":{"content":"two"},`,
  `data: "finish_reason":null}]}`,
  "data:",
  "data",
  "data: [DONE]",
  ": comment",
  ":",
  "event: queue",
  "event: error",
  "id: 1",
  "retry: 5",
  `data: {"position":1}`,
  `data: {"error":{"message":"no"}}`,
  "data: {broken",
  "unknown: field",
  ""
)
const stream = fc
  .tuple(fc.constantFrom("", "\ufeff"), fc.array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\r"))))
  .map(([mark, lines]) => Buffer.from(mark + lines.map((pair) => pair.join("")).join("")))
const uniform = fc
  .tuple(fc.array(line), fc.constantFrom("\n", "\r\n", "\r"))
  .map(([lines, end]) => [lines.map((each) => `${each}\n`).join(""), end] as const)

describe("a filtered stream of events", () => {
  it("is the same for every division into chunks", () => {
    fc.assert(
      fc.property(
        stream,
        fc.array(fc.nat()),
        fc.constantFrom(chat, messages, responses, gemini),
        (bytes, places, url) => {
          assert.deepStrictEqual(
            passed(url, divided(bytes, places)).toString(),
            passed(url, [bytes]).toString()
          )
        }
      ),
      { numRuns: Sweeps.runs(2_000) }
    )
  })

  it("does not depend on the kind of its line ends", () => {
    fc.assert(
      fc.property(uniform, ([lf, end]) => {
        assert.strictEqual(passedText(chat, lf.replaceAll("\n", end)), passedText(chat, lf))
      }),
      { numRuns: Sweeps.runs(1_000) }
    )
  })

  it("keeps every byte of events that the client knows", () => {
    const all = text("é😀") + text("\\ud83d") + text("") + finish + done
    for (let size = 1; size < 40; size++) {
      const bytes = Buffer.from(all)
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
        Uint8Array.from(bytes.subarray(i * size, (i + 1) * size))
      )
      assert.strictEqual(passed(chat, chunks).toString(), all)
    }
  })

  it("passes a chunk of known events as a view, without a copy", () => {
    const chunk = Buffer.from(text("b") + text("c"))
    const filter = new EventFilter(StreamProtocol.of(chat))
    filter.push(Buffer.from(text("a")))
    const [view, ...more] = filter.push(chunk)
    assert.strictEqual(view?.buffer, chunk.buffer)
    assert.strictEqual(view?.length, chunk.length)
    assert.deepStrictEqual(more, [])
  })

  it("leaves out comments, a byte order mark, and blocks without data", () => {
    const noisy = `\ufeff: hello\n\n\n${text("a")}: OPENROUTER PROCESSING\n\nid: 3\n\nretry: 10\n\ndata:\n\n${text("b")}`
    assert.strictEqual(passedText(chat, noisy), text("a") + text("b"))
    assert.strictEqual(passedText(chat, `\ufeff${text("a")}`), text("a"))
  })

  it("keeps an event whose blank line is missing, if its data is whole", () => {
    assert.strictEqual(passedText(chat, text("a") + finish.trim()), text("a") + finish)
    assert.strictEqual(passedText(chat, `${text("a") + finish}data: [DONE]`), text("a") + finish + done)
    assert.strictEqual(passedText(chat, text("a") + text("b").slice(0, -6)), text("a"))
  })
})

describe("a stream without an end", () => {
  /** What the filter throws within so many chunks. */
  const thrownOf = (chunk: string, times: number): unknown => {
    const filter = new EventFilter(StreamProtocol.of(chat), { event: 100, comments: 1_000, stream: 10_000 })
    try {
      for (let n = 0; n < times; n++) filter.push(Buffer.from(chunk))
      return undefined
    } catch (error) {
      return error
    }
  }
  const quiet = ": 34567\n\n\n"

  it("fails at the limit of a stream, although each event is within its own", () => {
    const event = text("a".repeat(20)) + quiet
    const most = Math.floor(10_000 / event.length)
    assert.isUndefined(thrownOf(event, most))
    assert.deepInclude(thrownOf(event, most + 1), { detail: "The stream has more than 10000 bytes." })
  })

  for (const chunk of [quiet, "\n".repeat(10), "id: 4567\n\n", "data: \n\n\n\n", "event: x\ndata: y\n\n"]) {
    it(`fails when nothing else comes: ${JSON.stringify(chunk)}`, () => {
      assert.isUndefined(thrownOf(chunk, 1_000 / chunk.length))
      assert.deepInclude(thrownOf(chunk, 1_000 / chunk.length + 2), {
        detail: "The stream has more than 1000 bytes without an event."
      })
    })
  }
})

describe("the last event", () => {
  const ends: ReadonlyArray<readonly [url: string, event: string]> = [
    [chat, done],
    [messages, `event: message_stop\ndata: {"type":"message_stop"}\n\n`],
    [messages, `data: { "type" : "message_stop" }\n\n`],
    [responses, `event: response.completed\ndata: {"type":"response.completed","response":{}}\n\n`],
    [responses, `data: {"type":"response.incomplete","response":{}}\n\n`],
    [responses, `data: {"type":"response.failed","response":{}}\n\n`],
    ["https://vendor.example/other", done]
  ]
  for (const [url, event] of ends) {
    it(`ends the stream: ${event.trim()} of ${new URL(url).pathname}`, () => {
      const filter = new EventFilter(StreamProtocol.of(url))
      const out = filter.push(Buffer.from(`${event}data: {"more":1}\n\n`))
      assert.isTrue(filter.isEnded)
      assert.strictEqual(Buffer.concat([...out]).toString(), event)
      assert.deepStrictEqual(filter.push(Buffer.from(text("late"))), [])
    })
  }

  it("may be missing after a finish reason", () => {
    const complete = (url: string, data: string) => {
      const filter = new EventFilter(StreamProtocol.of(url))
      filter.push(Buffer.from(data))
      return [filter.isComplete, filter.isEnded]
    }
    const candidate = (fields: string) => `data: {"candidates":[{"content":{"parts":[]}${fields}}]}\n\n`
    assert.deepStrictEqual(complete(chat, finish), [true, false])
    assert.deepStrictEqual(complete(chat, finish.replace(`"stop"`, "null")), [false, false])
    assert.deepStrictEqual(complete(chat, finish.replace(`"stop"`, `""`)), [false, false])
    assert.deepStrictEqual(complete(chat, text(String.raw`\"finish_reason\":\"stop\"`)), [false, false])
    assert.deepStrictEqual(complete(gemini, candidate(`, "finishReason": "STOP"`)), [true, false])
    assert.deepStrictEqual(complete(gemini, candidate("")), [false, false])
    assert.deepStrictEqual(complete(gemini, candidate(`,"finishReason":"CONTINUATION"`)), [false, false])
  })
})

describe("an event that the client does not know", () => {
  const start = `event: message_start\ndata: {"type":"message_start","message":{}}\n\n`
  const skipped: ReadonlyArray<readonly [url: string, event: string]> = [
    [messages, `event: vertex_event\ndata: {"type":"vertex_event","usage":{"input_tokens":9}}\n\n`],
    [messages, `data: {"usage":{},"type":"vertex_event"}\n\n`],
    [chat, `event: queue\ndata: {"position":3}\n\n`],
    [chat, `event: keepalive\ndata: still here\n\n`],
    [chat, `data: {"position":3}\n\n`],
    [responses, `event: keepalive\ndata: {}\n\n`],
    [gemini, `event: heartbeat\ndata: {}\n\n`]
  ]
  for (const [url, event] of skipped) {
    it(`is skipped: ${JSON.stringify(event.trim())}`, () => {
      assert.strictEqual(passedText(url, event + start + event), passedText(url, start))
    })
  }

  const kept: ReadonlyArray<readonly [url: string, event: string]> = [
    [messages, `event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n`],
    [messages, `event: error\ndata: overloaded\n\n`],
    [messages, `event: gateway\ndata: {"error":{"message":"no"}}\n\n`],
    [messages, `data: {"type":"content_block_delta","index":0,"del\n\n`],
    [chat, `event: chunk\n${text("named")}`],
    [chat, `event: error\ndata: {"message":"no"}\n\n`],
    [chat, `event: x\ndata: {"error":"no"}\n\n`],
    [chat, `data: {"choi\n\n`],
    [responses, `data: {"type":"response.new_thing"}\n\n`],
    [chat, `data: {"code":"InternalError","message":"The server failed"}\n\n`],
    [chat, `data: {"base_resp":{"status_code":1002,"status_msg":"no"}}\n\n`],
    [responses, `data: {"type":"error","message":"no"}\n\n`],
    [gemini, `data: {"error":{"code":503}}\n\n`],
    [gemini, `data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n`],
    ["https://vendor.example/v2/chat", `event: content-delta\ndata: {"anything":1}\n\n`]
  ]
  for (const [url, event] of kept) {
    it(`is kept, because it may be an error or a part of the answer: ${JSON.stringify(event.trim())}`, () => {
      assert.strictEqual(passedText(url, event), event)
    })
  }
})

describe("an answer of Chat Completions without a finish reason", () => {
  const unknown = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"unknown"}]}\n\n`
  const call = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c"}]}}]}\n\n`

  it("gets the finish reason unknown before [DONE], if it is text", () => {
    assert.strictEqual(passedText(chat, text("a") + done), text("a") + unknown + done)
    const list = text("a").replace(`"a"`, `[{"type":"text","text":"a"}]`)
    assert.strictEqual(passedText(chat, list + done), list + unknown + done)
    const empty = text("a").replace("}]}", `,"finish_reason":""}]}`)
    assert.strictEqual(passedText(chat, empty + done), empty + unknown + done)
    const without = text("a").replace("}]}", `}],"error":null}`)
    assert.strictEqual(passedText(chat, without + done), without + unknown + done)
  })

  it("stays unfinished with a tool call, without text, and without [DONE]", () => {
    for (const events of [text("a") + call + done, call + done, text("") + done, done, text("a")]) {
      assert.strictEqual(passedText(chat, events), events)
    }
    assert.strictEqual(passedText(chat, text("a") + finish + done), text("a") + finish + done)
  })
})

describe("an event that is too large", () => {
  const limit = 1_000
  const failureOf = (chunks: ReadonlyArray<Uint8Array>): unknown => {
    try {
      passed(chat, chunks, limit)
      return undefined
    } catch (error) {
      return error
    }
  }

  it("fails with a typed failure, in one chunk, in many, and without a line end", () => {
    const whole = Buffer.from(text("x".repeat(limit)))
    const pieces = divided(
      whole,
      Array.from({ length: 50 }, (_, i) => i * 21)
    )
    // Each half is within the limit.
    const halves = [whole.subarray(0, limit - 5), whole.subarray(limit - 5)]
    const endless = Array.from({ length: 60 }, () => Buffer.from(": no line end"))
    for (const chunks of [[whole], pieces, halves, [...endless, ...endless]]) {
      const failure = failureOf(chunks)
      assert.instanceOf(failure, ProviderFailure.ProviderFailure)
      assert.strictEqual(failure.evidence.rule, "stream/event-size")
    }
  })

  it("is judged alone: neither other events nor comments count", () => {
    const many = Array.from({ length: 100 }, () => Buffer.from(text("some words of an answer")))
    const comments = Array.from({ length: 500 }, () => Buffer.from(": keep-alive\n"))
    assert.isUndefined(failureOf([...many, ...comments, ...many]))
  })
})
