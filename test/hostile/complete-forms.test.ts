/** Answers that come complete where a stream belongs, and the reverse, over raw servers. */
import { assert, describe, it } from "@effect/vitest"
import { Agent, Failover } from "@outlast/agent"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import type { Vendor, Way } from "./Asked.ts"
import { asked, policy, reasonOf, vendors } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"

const { chat, claude } = RawServer

const Read = Toolkit.make(
  Tool.make("read", { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
)

const whole = "It is the Nile. \u{1f30a}"
const usage = { input_tokens: 5, output_tokens: 7, total_tokens: 12 }
const item = {
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: whole, annotations: [] }]
}
const base = { id: "resp_1", object: "response", created_at: 1, model: "m", output: [] }
const created = { type: "response.created", response: { ...base, status: "in_progress" } }
const added = {
  type: "response.output_item.added",
  output_index: 0,
  item: { ...item, status: "in_progress", content: [] }
}
const delta = {
  type: "response.output_text.delta",
  item_id: "msg_1",
  output_index: 0,
  content_index: 0,
  delta: whole
}
const text = {
  type: "response.output_text.done",
  item_id: "msg_1",
  output_index: 0,
  content_index: 0,
  text: whole
}
const short = { ...delta, delta: whole.slice(0, 6) }
const parts = [whole.slice(0, 6), whole.slice(6)].map((text) => ({
  type: "output_text",
  text,
  annotations: []
}))
const done = { type: "response.output_item.done", output_index: 0, item }
const completed = (output: ReadonlyArray<object>) => ({
  type: "response.completed",
  response: { ...base, status: "completed", output, usage }
})

const completion = {
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: whole }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }
}
const chunks = [
  chat.delta({ role: "assistant", content: "It is " }),
  chat.delta({ content: whole.slice(6) }),
  chat.finish("stop"),
  chat.usage(5, 7)
]

const streams: Record<string, readonly [Vendor, ReadonlyArray<object>]> = {
  "text once, at its end (pipecat-ai/pipecat#5309)": [
    "responses",
    [created, added, text, done, completed([item])]
  ],
  "text without a beginning of its item": ["responses", [created, text, completed([item])]],
  "text only with the end of its item": ["responses", [created, added, done, completed([item])]],
  "items only with the last event (TanStack/ai#937)": ["responses", [created, completed([item])]],
  "deltas that are repeated at each end": [
    "responses",
    [created, added, delta, text, done, completed([item])]
  ],
  "deltas alone, repeated with the last event": ["responses", [delta, completed([item])]],
  "a complete completion in an event (liustack/modlens#94)": ["compatible", [completion]],
  "chunks that end with a complete message": [
    "compatible",
    [
      ...chunks.slice(0, 2),
      {
        ...chat.finish("stop"),
        choices: [{ index: 0, delta: {}, message: completion.choices[0]?.message, finish_reason: "stop" }]
      }
    ]
  ]
}

const message = {
  ...claude.start.message,
  content: [{ type: "text", text: whole }],
  stop_reason: "end_turn",
  usage: { input_tokens: 5, output_tokens: 7 }
}
const said = [claude.start, claude.block(0), claude.text(0, whole), claude.stop(0)]
const ended = [claude.delta("end_turn"), claude.end]
const candidate = (text: string, finishReason?: string) => ({
  candidates: [{ content: { role: "model", parts: [{ text }] }, index: 0, finishReason }],
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 7, totalTokenCount: 12 }
})
const choice = (choice: object) => ({ ...chat.delta({}), choices: [{ index: 0, ...choice }] })

/** An answer of OpenAI's old completions. */
const old = (choice: object) => ({
  id: "c",
  created: 1,
  model: "m",
  choices: [{ index: 0, logprobs: null, ...choice }],
  object: "text_completion"
})

/** Forms of an answer that servers which imitate a vendor are known to send. */
const others: typeof streams = {
  "text in the beginning of its block (earendil-works/pi#7283)": [
    "anthropic",
    [
      claude.start,
      claude.block(0, { type: "text", text: whole.slice(0, 6) }),
      claude.text(0, whole.slice(6)),
      claude.stop(0),
      ...ended
    ]
  ],
  "a block and a delta of unknown types": [
    "anthropic",
    [
      claude.start,
      claude.block(0, { type: "future", text: "no" }),
      { type: "content_block_delta", index: 0, delta: { type: "future_delta", text: "no" } },
      claude.stop(0),
      claude.block(1),
      { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: null } },
      claude.text(1, whole),
      claude.stop(1),
      ...ended
    ]
  ],
  "a complete message at its beginning": ["anthropic", [{ ...claude.start, message }, claude.end]],
  "a complete message at its beginning, and its reason": [
    "anthropic",
    [{ ...claude.start, message }, ...ended]
  ],
  "a complete message at its beginning, and its blocks": [
    "anthropic",
    [{ ...claude.start, message }, ...said.slice(1), ...ended]
  ],
  "the stop reason at the beginning of a message": [
    "anthropic",
    [{ ...claude.start, message: { ...message, content: [] } }, ...said.slice(1), claude.end]
  ],
  "a complete message in an event": ["anthropic", [message]],
  "a complete response in an event": ["responses", [{ ...base, status: "completed", output: [item], usage }]],
  "a last event of another name (can1357/oh-my-pi#4692)": [
    "responses",
    [created, added, delta, done, { ...completed([item]), type: "response.done" }]
  ],
  "no last event (moeru-ai/airi#2593)": ["responses", [created, added, delta, done]],
  "deltas without an item (Oaklight/llm-rosetta#56)": [
    "responses",
    [created, { type: "response.output_text.delta", delta: whole }, completed([])]
  ],
  "each event twice, with the same number": [
    "responses",
    [
      created,
      added,
      { ...delta, sequence_number: 3 },
      { ...delta, sequence_number: 3 },
      done,
      completed([item])
    ]
  ],
  "deltas without the last one (end of the text)": [
    "responses",
    [created, added, short, text, { ...text, sequence_number: 9 }, done, completed([item])]
  ],
  "deltas without the last one (end of the item)": [
    "responses",
    [created, added, short, done, completed([item])]
  ],
  "deltas without the last one (last event)": ["responses", [created, added, short, completed([item])]],
  "deltas without the last one, and an end without text": [
    "responses",
    [created, added, short, { ...done, item: { ...item, content: [] } }, completed([item])]
  ],
  "items without a text, which comes with the last event": [
    "responses",
    [created, added, { ...done, item: { ...item, content: [] } }, completed([item])]
  ],
  "two parts, of which the second has no delta": [
    "responses",
    [
      created,
      added,
      short,
      { ...text, text: short.delta },
      { ...done, item: { ...item, content: parts } },
      completed([{ ...item, content: parts }])
    ]
  ],
  "a call between its deltas and their end": [
    "responses",
    [
      created,
      added,
      delta,
      {
        type: "response.output_item.added",
        output_index: 1,
        item: { type: "reasoning", id: "rs_1", summary: [] }
      },
      done,
      completed([item])
    ]
  ],
  "deltas that are no beginning of the last text": [
    "responses",
    [
      created,
      added,
      delta,
      { ...text, text: "No." },
      completed([{ ...item, content: [{ ...parts[0], text: "No." }] }])
    ]
  ],
  "messages in place of deltas": [
    "chat",
    [choice({ message: { role: "assistant", content: whole }, finish_reason: "stop" })]
  ],
  "pieces of a text completion": [
    "chat",
    [
      old({ text: "It is ", finish_reason: null }),
      old({ text: whole.slice(6), finish_reason: null }),
      old({ text: "", finish_reason: "stop" })
    ]
  ],
  "parts in place of a text, without indices": [
    "chat",
    [
      { choices: [{ delta: { content: [{ type: "text", text: whole }] } }] },
      { choices: [{ delta: {}, finish_reason: "stop" }] }
    ]
  ],
  "ids that are numbers, and a time in words": [
    "chat",
    chunks.map((chunk) => ({ ...chunk, id: 5, created: "now" }))
  ],
  "a second choice": [
    "chat",
    [...chunks.slice(0, 2), choice({ index: 1, delta: { content: "no" } }), ...chunks.slice(2)]
  ],
  "annotations of other types (vercel/ai#10199)": [
    "chat",
    [
      chat.delta({ annotations: [{ type: "file", file: {} }, "no"] }),
      chat.delta({ annotations: [{ type: "url_citation", url_citation: { url: "https://example.com" } }] }),
      ...chunks
    ]
  ]
}

describe("a stream that has its text", () => {
  for (const [what, [vendor, events]] of Object.entries({ ...streams, ...others })) {
    it.live(`once is read once: ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start((response) =>
          RawServer.events(response, [...events, chat.done])
        )
        const came = yield* asked("stream", [vendors[vendor](server.url)])
        assert.deepStrictEqual([came.text, came.finish, came.failures], [whole, "stop", []])
      })
    )
  }
})

const error = {
  error: { message: "Slow down: 3 requests at once.", type: "rate_limit_error", code: "rate_limit_exceeded" }
}

/** Events before the error. The first event of Responses is an announcement, and text follows. */
const begun: Record<string, readonly [Vendor, ReadonlyArray<object>]> = {
  "first, of Responses": ["responses", []],
  "behind the first event of Responses (router-for-me/CLIProxyAPI#1006)": ["responses", [created]],
  "behind text of Responses": ["responses", [created, added, delta]],
  "first, of a completion": ["compatible", []],
  "behind text of a completion": ["compatible", chunks.slice(0, 1)],
  "behind text of OpenAI's completion": ["chat", chunks.slice(0, 1)],
  "behind text of Anthropic": [
    "anthropic",
    [RawServer.claude.start, RawServer.claude.block(0), RawServer.claude.text(0, "It is ")]
  ]
}

describe("an error that is written into a stream without a field name", () => {
  for (const [where, [vendor, events]] of Object.entries(begun)) {
    for (const end of ["\n\n", "\n", ""]) {
      it.live(`keeps its reason: ${where}, before ${JSON.stringify(end)}`, () =>
        Effect.gen(function* () {
          const server = yield* RawServer.start((response) => {
            RawServer.head(response)
            response.end(events.map((each) => RawServer.event(each)).join("") + JSON.stringify(error) + end)
          })
          const came = yield* asked("stream", [vendors[vendor](server.url)])
          assert.deepStrictEqual([came.failures[0], reasonOf(came)], ["RateLimit", "RateLimit"])
        })
      )
    }
  }
})

const sse = (...events: ReadonlyArray<object | string>): string =>
  events.map((event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`).join("")

const bodies: Record<string, readonly [Vendor, string]> = {
  "a text completion": ["chat", JSON.stringify(old({ text: whole, finish_reason: "stop" }))],
  "a stream of a text completion": [
    "chat",
    sse(old({ text: "It is ", finish_reason: null }), old({ text: whole.slice(6), finish_reason: "stop" }))
  ],
  "a stream (QuantumNous/new-api#5230)": ["compatible", sse(...chunks, "[DONE]")],
  "a stream with comments": [
    "compatible",
    `: hold on\n\n${sse(...chunks, "[DONE]").replaceAll("\n\n", "\r\n\r\n: hold on\r\n\r\n")}`
  ],
  "an object with an event behind it (decolua/9router#3492)": [
    "compatible",
    `${JSON.stringify(completion)}\n\ndata: [DONE]\n\n`
  ],
  "an object in an event": ["compatible", sse(completion)],
  "a stream of Responses (BYK/loreai#1195)": ["responses", sse(created, added, delta, done, completed([]))],
  "a stream of messages": ["anthropic", sse(...said, ...ended)],
  "a stream of a message that begins complete": ["anthropic", sse({ ...claude.start, message }, claude.end)],
  "a stream of candidates": ["google", sse(candidate("It is "), candidate(whole.slice(6), "STOP"))],
  "a stream of Responses with its output": ["responses", sse(created, added, delta, done, completed([item]))]
}

/** Complete answers in place of a stream, by their media types. */
const wholes: Record<string, readonly [Vendor, unknown]> = {
  "a text completion": ["compatible", old({ text: whole, finish_reason: "stop" })],
  "a completion": ["chat", completion],
  "a message": ["anthropic", message],
  "a response": ["responses", { ...base, status: "completed", output: [item], usage }],
  "a candidate": ["google", candidate(whole, "STOP")],
  "a list of candidates": ["google", [candidate("It is "), candidate(whole.slice(6), "STOP")]]
}

describe("a request for a stream that is answered with", () => {
  for (const [what, [vendor, body]] of Object.entries(wholes)) {
    for (const type of ["text/event-stream", "application/json", "text/plain"]) {
      // A list is no event.
      if (Array.isArray(body) && type === "text/event-stream") continue
      it.live(`${what} has that answer: ${type}`, () =>
        Effect.gen(function* () {
          const server = yield* RawServer.start((response) => {
            response.writeHead(200, { "content-type": type })
            response.end(`\n${JSON.stringify(body)}`)
          })
          for (const way of ["stream", "folded"] as const) {
            const came = yield* asked(way, [vendors[vendor](server.url)])
            assert.deepStrictEqual([came.text, came.finish, came.failures], [whole, "stop", []])
          }
          assert.strictEqual(server.hits.length, 2)
        })
      )
    }
  }

  it.live("events has those events, whatever its type says", () =>
    Effect.gen(function* () {
      for (const type of ["application/json", "text/plain"]) {
        const server = yield* RawServer.start((response) => {
          response.writeHead(200, { "content-type": type })
          response.end(sse(...chunks, "[DONE]"))
        })
        const came = yield* asked("stream", [vendors.chat(server.url)])
        assert.deepStrictEqual([came.text, came.finish, came.failures], [whole, "stop", []])
      }
    })
  )
})

const plainly = (vendor: Vendor, body: string, type: string) =>
  Effect.gen(function* () {
    const server = yield* RawServer.start((response) => {
      response.writeHead(200, { "content-type": type })
      response.end(body)
    })
    const way: Way = "request"
    return yield* asked(way, [vendors[vendor](server.url)])
  })

describe("a plain request that is answered with", () => {
  for (const [what, [vendor, body]] of Object.entries(bodies)) {
    for (const type of ["text/event-stream", "application/json"]) {
      it.live(`${what} has that answer: ${type}`, () =>
        Effect.gen(function* () {
          const came = yield* plainly(vendor, body, type)
          assert.deepStrictEqual([came.text, came.finish, came.failures], [whole, "stop", []])
        })
      )
    }
  }

  it.live("a stream of calls runs each call once, whatever their indices", () =>
    Effect.gen(function* () {
      const piece = (index: number, id: string | undefined, text: string) =>
        chat.delta({
          tool_calls: [
            { index, ...(id === undefined ? {} : { id }), function: { name: "read", arguments: text } }
          ]
        })
      const calls = [
        piece(0, "c1", ""),
        piece(0, undefined, '{"path":'),
        piece(0, "c1", '"a"}'),
        piece(0, "c2", '{"path":"b"}'),
        piece(1, "c3", '{"path":"c"}'),
        chat.finish("tool_calls")
      ]
      const server = yield* RawServer.start((response, _hit, n) => {
        RawServer.head(response)
        response.end(sse(...(n === 0 ? calls : chunks), "[DONE]"))
      })
      const paths: Array<string> = []
      const tools = Read.toLayer({ read: ({ path }) => Effect.sync(() => (paths.push(path), "text")) })
      const { text: said } = yield* Agent.run({ prompt: "Read.", toolkit: Read }).pipe(
        Effect.provide([tools, Failover.layer([vendors.compatible(server.url)({})], { policy })])
      )
      assert.deepStrictEqual([said, paths.toSorted()], [whole, ["a", "b", "c"]])
    })
  )

  it.live("a stream that is cut has no answer", () =>
    Effect.gen(function* () {
      const came = yield* plainly("compatible", sse(...chunks.slice(0, 2)), "text/event-stream")
      assert.deepStrictEqual([came.text, reasonOf(came)], ["", "Format"])
    })
  )

  it.live("an error in a stream fails with the reason of the error", () =>
    Effect.gen(function* () {
      const error = {
        error: { code: "insufficient_quota", type: "insufficient_quota", message: "No quota." }
      }
      const came = yield* plainly("compatible", sse(error), "text/event-stream")
      assert.deepStrictEqual([came.text, reasonOf(came)], ["", "Billing"])
    })
  )
})
