import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import { events, hello, open, readAll } from "./http.ts"

/** Every event of the stream with which a provider gives this answer. */
const eventsOf = (
  provider: FakeProvider.Provider,
  answer: FaultPlan.Answer,
  request: Record<string, unknown> = {}
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [answer] } })
      const body = { ...hello[provider], stream: true, ...request }
      const { text } = yield* Effect.promise(async () => readAll(await open(server, provider, body)))
      return events(text)
    })
  )

describe("an Anthropic stream", () => {
  /** Types of events, and of deltas and blocks. */
  const outline = (all: ReadonlyArray<any>) =>
    all.map(({ type, index, delta, content_block }) =>
      [type, index, content_block?.type ?? delta?.type].filter((word) => word !== undefined).join(" ")
    )

  it.live("gives blocks one after another, and signs thinking before it ends", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("anthropic", {
        reasoning: "I think",
        text: "Hello",
        toolCalls: [
          { id: "a", name: "add", params: { a: 1 } },
          { id: "b", name: "add", params: {} }
        ],
        usage: { input: 10, output: 6, cacheRead: 3, cacheWrite: 2 }
      })
      assert.deepStrictEqual(outline(all), [
        "message_start",
        "ping",
        "content_block_start 0 thinking",
        "content_block_delta 0 thinking_delta",
        "content_block_delta 0 thinking_delta",
        "content_block_delta 0 signature_delta",
        "content_block_stop 0",
        "content_block_start 1 text",
        "content_block_delta 1 text_delta",
        "content_block_stop 1",
        "content_block_start 2 tool_use",
        "content_block_delta 2 input_json_delta",
        "content_block_delta 2 input_json_delta",
        "content_block_stop 2",
        "content_block_start 3 tool_use",
        "content_block_delta 3 input_json_delta",
        "content_block_delta 3 input_json_delta",
        "content_block_stop 3",
        "message_delta",
        "message_stop"
      ])
      const end = all.find(({ type }) => type === "message_delta")
      assert.strictEqual(end.delta.stop_reason, "tool_use")
      assert.deepInclude(end.usage, {
        input_tokens: 5,
        cache_creation_input_tokens: 2,
        cache_read_input_tokens: 3,
        output_tokens: 6
      })
    })
  )
  it.live("signs thinking that is all there is, and thinking that is not shown", () =>
    Effect.gen(function* () {
      const alone = outline(yield* eventsOf("anthropic", { reasoning: "hm" }))
      assert.deepStrictEqual(alone.slice(-4), [
        "content_block_delta 0 signature_delta",
        "content_block_stop 0",
        "message_delta",
        "message_stop"
      ])
      const hidden = { model: "claude-opus-5", thinking: { type: "adaptive", display: "omitted" } }
      assert.deepStrictEqual(outline(yield* eventsOf("anthropic", { reasoning: "hm" }, hidden)), [
        "message_start",
        "ping",
        "content_block_start 0 thinking",
        "content_block_delta 0 signature_delta",
        "content_block_stop 0",
        "message_delta",
        "message_stop"
      ])
    })
  )
})

describe("an OpenAI stream", () => {
  const answer: FaultPlan.Answer = {
    reasoning: "never said",
    text: "Hello",
    toolCalls: [
      { id: "a", name: "add", params: { first: "argument" } },
      { id: "b", name: "sub", params: {} }
    ],
    usage: { input: 10, output: 6, cacheRead: 3 }
  }

  it.live("names a tool call once, and gives its arguments in pieces", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("openai", answer)
      assert.deepStrictEqual(
        all.map(({ choices }) => choices[0].delta),
        [
          { role: "assistant", content: "", refusal: null },
          { content: "Hello" },
          { tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "add", arguments: "" } }] },
          { tool_calls: [{ index: 0, function: { arguments: `{"first":"ar` } }] },
          { tool_calls: [{ index: 0, function: { arguments: `gument"}` } }] },
          { tool_calls: [{ index: 1, id: "b", type: "function", function: { name: "sub", arguments: "" } }] },
          { tool_calls: [{ index: 1, function: { arguments: "{}" } }] },
          {}
        ]
      )
      assert.deepStrictEqual(
        all.map(({ choices }) => choices[0].finish_reason),
        [...Array.from({ length: 7 }, () => null), "tool_calls"]
      )
      assert.isTrue(all.every((chunk) => !("usage" in chunk)))
    })
  )
  it.live("tells the usage only when asked, in a chunk of its own", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("openai", answer, { stream_options: { include_usage: true } })
      assert.deepStrictEqual(all.at(-1).choices, [])
      assert.deepInclude(all.at(-1).usage, { prompt_tokens: 10, completion_tokens: 6, total_tokens: 16 })
      assert.strictEqual(all.at(-1).usage.completion_tokens_details.reasoning_tokens, 2)
      assert.isTrue(all.slice(0, -1).every(({ usage }) => usage === null))
    })
  )
})
