/** Streams whose servers do not close the connection, and events that no client knows. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { ServerResponse } from "node:http"
import * as Calls from "./Calls.ts"
import * as RawServer from "./RawServer.ts"
import { chat, claude } from "./RawServer.ts"

type Events = ReadonlyArray<object | string>

const chatText: Events = [
  chat.delta({ role: "assistant", content: "" }),
  chat.text("Hello "),
  chat.text("there.")
]
const claudeText: Events = [
  claude.start,
  claude.block(0),
  claude.text(0, "Hello "),
  claude.text(0, "there."),
  claude.stop(0)
]
const item = { type: "message", id: "msg_1", role: "assistant", status: "completed" }
const responsesText: Events = [
  { type: "response.created", response: { id: "resp_1", created_at: 1, model: "gpt-4o" } },
  { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } },
  {
    type: "response.output_text.delta",
    item_id: "msg_1",
    output_index: 0,
    content_index: 0,
    delta: "Hello "
  },
  {
    type: "response.output_text.delta",
    item_id: "msg_1",
    output_index: 0,
    content_index: 0,
    delta: "there."
  },
  {
    type: "response.output_item.done",
    output_index: 0,
    item: { ...item, content: [{ type: "output_text", text: "Hello there.", annotations: [] }] }
  }
]
const usage = { input_tokens: 5, output_tokens: 2, total_tokens: 7 }
const gemini = (text: string, more: object = {}) => ({
  candidates: [{ content: { role: "model", parts: [{ text }] }, index: 0, ...more }],
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, totalTokenCount: 7 }
})

/** A complete answer of each vendor. */
const whole: { readonly [V in keyof typeof Calls.vendors]: Events } = {
  anthropic: [...claudeText, claude.delta("end_turn"), claude.end],
  chat: [...chatText, chat.finish("stop"), chat.usage(5, 2), chat.done],
  compatible: [...chatText, chat.finish("stop"), chat.usage(5, 2), chat.done],
  responses: [
    ...responsesText,
    { type: "response.completed", response: { id: "resp_1", status: "completed", usage } }
  ],
  google: [gemini("Hello "), gemini("there.", { finishReason: "STOP" })]
}

const vendors = Object.keys(whole) as ReadonlyArray<keyof typeof whole>
const text = "Hello there."

/** Ends only with the connection, which the server keeps open. */
const kept = (events: Events) => (response: ServerResponse) => RawServer.events(response, events, true)

const seen = (vendor: keyof typeof whole, answer: (response: ServerResponse, n: number) => void) =>
  Effect.gen(function* () {
    const server = yield* RawServer.start((response, _, n) => answer(response, n))
    const result = yield* Calls.stream([Calls.vendors[vendor](server.url)])
    return { ...result, server }
  })

describe("a complete answer whose connection stays open", () => {
  for (const vendor of vendors) {
    it.live(
      `ends with its last event, and we close the connection: ${vendor} (waybarrios/vllm-mlx#101)`,
      () =>
        Effect.gen(function* () {
          const { server, ...result } = yield* seen(vendor, kept(whole[vendor]))
          assert.deepInclude(result, { text, finish: "stop", failure: undefined })
          assert.strictEqual(server.hits.length, 1)
          assert.isBelow(result.millis, Calls.prompt)
          yield* Effect.promise(() => server.hits[0]?.closed ?? Promise.reject(new Error("nothing came")))
        })
    )

    it.live(`is one request for a program of the AI SDK, too: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start(kept(whole[vendor]))
        const result = yield* Calls.aiSdkStream([Calls.vendors[vendor](server.url)])
        assert.deepInclude(result, { text, finish: "stop", blocks: 1 })
        assert.strictEqual(server.hits.length, 1)
        assert.isBelow(result.millis, Calls.prompt)
      })
    )
  }

  for (const [name, beat] of [
    ["comments", ": heartbeat\n\n"],
    ["events", "event: heartbeat\ndata: {}\n\n"]
  ] as const) {
    it.live(`ends without [DONE], although ${name} keep coming (maximhq/bifrost#6784)`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen("compatible", (response) => {
          RawServer.events(response, [...chatText, chat.finish("stop"), chat.usage(5, 2)], true)
          const timer = setInterval(() => response.write(beat), 100)
          response.once("close", () => clearInterval(timer))
        })
        assert.deepInclude(result, { text, finish: "stop", failure: undefined })
        assert.strictEqual(server.hits.length, 1)
        assert.isBelow(result.millis, Calls.prompt)
      })
    )
  }

  for (const type of [undefined, "application/octet-stream"]) {
    it.live(`ends at [DONE] although the type is ${type}`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start((response) => {
          response.writeHead(200, type === undefined ? {} : { "content-type": type })
          response.write(whole.chat.map((each) => RawServer.event(each)).join(""))
        })
        const read = yield* Calls.stream([Calls.vendors.chat(server.url)])
        assert.deepInclude(read, { text, finish: "stop", failure: undefined })
        assert.lengthOf(server.hits, 1)
      })
    )
  }

  for (const data of ["keep-alive", '"keepalive"', "0"]) {
    it.live(`skips data that is not an object: ${data}`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start((response) => RawServer.events(response, [data, ...whole.chat]))
        const read = yield* Calls.stream([Calls.vendors.chat(server.url)])
        assert.deepInclude(read, { text, finish: "stop", failure: undefined })
        assert.lengthOf(server.hits, 1)
      })
    )
  }

  it.live("keeps the usage that follows the finish (musistudio/claude-code-router#1271)", () =>
    Effect.gen(function* () {
      const server = yield* RawServer.start((response) => {
        RawServer.events(response, [...chatText, chat.finish("stop")], true)
        setTimeout(() => response.write(RawServer.event(chat.usage(1_234, 2))), 300)
      })
      let usage: unknown
      yield* Calls.stream([Calls.vendors.chat(server.url)], {
        onPart: (part) => Effect.sync(() => void (part.type === "finish" && (usage = part)))
      })
      assert.include(JSON.stringify(usage), `"total":1234`)
    })
  )

  it.live("reuses a connection whose body the server ends", () =>
    Effect.gen(function* () {
      const server = yield* RawServer.start((response) => {
        RawServer.events(response, whole.chat, true)
        // The end of the body follows the last event in a separate packet.
        setTimeout(() => response.end(), 50)
      })
      const chain = [Calls.vendors.chat(server.url)] as const
      yield* Calls.stream(chain)
      yield* Effect.sleep(200)
      yield* Calls.stream(chain)
      assert.deepStrictEqual(
        server.hits.map(({ connection }) => connection),
        [0, 0]
      )
    })
  )
})

describe("a complete answer whose connection breaks", () => {
  const finished = {
    anthropic: [...claudeText, claude.delta("end_turn")],
    chat: [...chatText, chat.finish("stop")],
    compatible: [...chatText, chat.finish("stop")],
    google: whole.google
  } as const
  const broken = (events: Events) => (response: ServerResponse) => {
    RawServer.events(response, events, true)
    setTimeout(() => response.socket?.resetAndDestroy(), 50)
  }

  for (const vendor of ["anthropic", "chat", "compatible", "google"] as const) {
    it.live(`is delivered once, without another request: ${vendor}`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen(vendor, broken(finished[vendor]))
        assert.deepInclude(result, { text, finish: "stop", failure: undefined, blocks: 1 })
        assert.strictEqual(server.hits.length, 1)
      })
    )

    it.live(`is one request for a program of the AI SDK: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start(broken(finished[vendor]))
        const result = yield* Calls.aiSdkStream([Calls.vendors[vendor](server.url)])
        assert.deepInclude(result, { text, finish: "stop", blocks: 1 })
        assert.strictEqual(server.hits.length, 1)
      })
    )
  }

  it.live("is complete when the body ends without message_stop", () =>
    Effect.gen(function* () {
      for (const end of [[], ["[DONE]"]]) {
        const { server, ...result } = yield* seen("anthropic", (response) =>
          RawServer.events(response, [...finished.anthropic, ...end])
        )
        assert.deepInclude(result, { text, finish: "stop", failure: undefined })
        assert.strictEqual(server.hits.length, 1)
      }
    })
  )

  it.live("is a cut without a stop reason", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen("anthropic", (response, n) =>
        n === 0
          ? RawServer.events(response, [claude.start, claude.block(0), claude.text(0, "Hello ")])
          : RawServer.events(response, [
              claude.start,
              claude.block(0),
              claude.text(0, "there."),
              claude.stop(0),
              claude.delta("end_turn"),
              claude.end
            ])
      )
      assert.deepInclude(result, { text, finish: "stop", failure: undefined })
      assert.strictEqual(server.hits.length, 2)
    })
  )
})

describe("a finish reason that is an error", () => {
  for (const reason of [
    "error",
    "abort",
    "cancelled",
    "timeout",
    "insufficient_system_resource",
    "network_error"
  ]) {
    it.live(`does not deliver a partial answer: ${reason}`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen("compatible", (response, n) =>
          RawServer.events(
            response,
            n === 0
              ? [chat.text("Hello "), chat.finish(reason), chat.done]
              : [chat.text("there."), chat.finish("stop"), chat.done]
          )
        )
        assert.deepInclude(result, { text, finish: "stop", failure: undefined, blocks: 1 })
        assert.strictEqual(server.hits.length, 2)
      })
    )
  }
})

describe("an event that no client knows", () => {
  const noisy = (events: Events, noise: string) => (response: ServerResponse) => {
    RawServer.head(response)
    response.end(noise + events.map((event) => RawServer.event(event) + noise).join(""))
  }
  for (const [vendor, noise, issue] of [
    [
      "anthropic",
      RawServer.event({ type: "vertex_event", usage: { input_tokens: 9 } }),
      "vercel/ai#11309, anomalyco/opencode#13914"
    ],
    ["chat", 'event: queue\ndata: {"position":3}\n\n', "vercel/ai#11309"],
    [
      "compatible",
      "event: keepalive\ndata: still here\n\n: OPENROUTER PROCESSING\n\ndata:\n\n",
      "vercel/ai#11309"
    ],
    ["responses", "event: keepalive\ndata: {}\n\n", "vercel/ai#11309"],
    ["google", 'event: heartbeat\ndata: {"time":1}\n\n', "vercel/ai#11309"],
    ["anthropic", 'data: {"error":null}\n\n', "an error that is null"],
    ["chat", 'data: {"type":"progress","job":{"error":null}}\n\n', "an error that is null"],
    ["compatible", 'data: {"error":null}\n\n', "an error that is null"],
    ["responses", 'data: {"error":null}\n\n', "an error that is null"]
  ] as const) {
    it.live(`is skipped, first and between others: ${vendor} (${issue})`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen(vendor, noisy(whole[vendor], noise))
        assert.deepInclude(result, { text, finish: "stop", failure: undefined, blocks: 1 })
        assert.strictEqual(server.hits.length, 1)
      })
    )
  }

  for (const [vendor, error] of [
    [
      "anthropic",
      'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n'
    ],
    ["chat", 'event: failure\ndata: {"error":{"message":"no","type":"server_error"}}\n\n'],
    ["compatible", 'data: {"error":{"message":"no","code":503}}\n\n'],
    ["google", 'event: x\ndata: {"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}\n\n']
  ] as const) {
    it.live(`is not skipped when it has an error object: ${vendor} (EricLBuehler/mistral.rs#1874)`, () =>
      Effect.gen(function* () {
        const { server, ...result } = yield* seen(vendor, (response, n) => {
          if (n > 0) return RawServer.events(response, whole[vendor])
          RawServer.head(response)
          response.write(error)
        })
        assert.deepInclude(result, { text, finish: "stop", failure: undefined })
        assert.strictEqual(server.hits.length, 2)
        assert.include(result.events, "AttemptFailed")
        assert.isBelow(result.millis, Calls.prompt)
      })
    )
  }
})

describe("[DONE] without a finish reason", () => {
  for (const vendor of ["chat", "compatible"] as const) {
    it.live(
      `delivers the text once, with the finish reason unknown: ${vendor} (databricks/unity-gateway#215, earendil-works/pi#8473)`,
      () =>
        Effect.gen(function* () {
          for (const open of [true, false]) {
            const server = yield* RawServer.start((response) =>
              RawServer.events(response, [...chatText, chat.done], open)
            )
            const chain = [Calls.vendors[vendor](server.url)] as const
            for (const result of [
              yield* Calls.stream(chain),
              yield* Calls.stream(chain, { surface: "effect" }),
              yield* Calls.aiSdkStream(chain)
            ]) {
              assert.deepInclude(result, { text, finish: "unknown", blocks: 1 })
              assert.isBelow(result.millis, Calls.prompt)
            }
            assert.strictEqual(server.hits.length, 3)
          }
        })
    )

    it.live(`is a cut with a tool call, whole or not: ${vendor} (NousResearch/hermes-agent#69442)`, () =>
      Effect.gen(function* () {
        for (const args of [`{"city":"Ber`, `{"city":"Berlin"}`]) {
          const { server, ...result } = yield* seen(vendor, (response, n) =>
            RawServer.events(
              response,
              n === 0 ? [chat.call(0, "c1", "weather", args), chat.done] : whole[vendor],
              true
            )
          )
          assert.deepInclude(result, { text, finish: "stop", failure: undefined })
          assert.notInclude(result.types.join(), "tool")
          assert.strictEqual(server.hits.length, 2)
        }
      })
    )
  }

  it.live("is not a cut when the earlier finish reasons were empty texts (ollama/ollama#4357)", () =>
    Effect.gen(function* () {
      const events = [chat.delta({ content: "Hello " }, ""), chat.delta({ content: "there." }, ""), chat.done]
      const { server, ...result } = yield* seen("compatible", (response) =>
        RawServer.events(response, events)
      )
      assert.deepInclude(result, { text, finish: "unknown", failure: undefined })
      assert.strictEqual(server.hits.length, 1)
    })
  )

  it.live("fails after its attempts when no event precedes it", () =>
    Effect.gen(function* () {
      const { server, ...result } = yield* seen("chat", (response) => RawServer.events(response, [chat.done]))
      assert.strictEqual(Calls.reasonOf(result), "Network")
      assert.isAbove(server.hits.length, 1)
    })
  )
})
