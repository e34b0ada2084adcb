import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import type { Api } from "./http.ts"
import { events, hello, open, readAll } from "./http.ts"

/** Returns every event of the stream with which a provider sends this answer. */
const eventsOf = (
  provider: Api,
  answer: FaultPlan.Answer,
  request: Record<string, unknown> = {},
  fault?: FaultPlan.Fault
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const faults = fault === undefined ? [] : [{ fault }]
      const server = yield* FakeProvider.make({ plan: { answers: [answer], faults } })
      const body = { ...hello[provider], stream: true, ...request }
      const { text } = yield* Effect.promise(async () => readAll(await open(server, provider, body)))
      return events(text)
    })
  )

describe("an Anthropic stream", () => {
  /** Types of events, deltas and blocks. */
  const outline = (all: ReadonlyArray<any>) =>
    all.map(({ type, index, delta, content_block }) =>
      [type, index, content_block?.type ?? delta?.type].filter((word) => word !== undefined).join(" ")
    )

  it.live("sends blocks one after another, and signs thinking before its end", () =>
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
  it.live("signs thinking in an answer without text, and thinking that is not shown", () =>
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

  it.live("names a tool call once, and sends its arguments in pieces", () =>
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
  it.live("sends the usage only on request, in a separate chunk", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("openai", answer, { stream_options: { include_usage: true } })
      assert.deepStrictEqual(all.at(-1).choices, [])
      assert.deepInclude(all.at(-1).usage, { prompt_tokens: 10, completion_tokens: 6, total_tokens: 16 })
      assert.strictEqual(all.at(-1).usage.completion_tokens_details.reasoning_tokens, 2)
      assert.isTrue(all.slice(0, -1).every(({ usage }) => usage === null))
    })
  )
})

describe("a Responses stream", () => {
  const answer: FaultPlan.Answer = {
    reasoning: "I think",
    text: "Hello",
    toolCalls: [{ id: "a", name: "add", params: { first: "argument" } }],
    usage: { input: 10, output: 6, cacheRead: 3 }
  }
  const outline = (all: ReadonlyArray<any>) => all.map(({ type }) => type.replace("response.", ""))
  const encrypted = { include: ["reasoning.encrypted_content"] }

  it.live("sends numbered items one after another, with the encrypted reasoning in the finished item", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("responses", answer, encrypted)
      assert.deepStrictEqual(outline(all), [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed"
      ])
      assert.deepStrictEqual(
        all.map(({ sequence_number }) => sequence_number),
        all.map((_, i) => i)
      )
      const done = all.flatMap(({ type, item }) => (type === "response.output_item.done" ? [item] : []))
      const { response } = all.at(-1)
      assert.deepStrictEqual(response.output, done)
      assert.notStrictEqual(all[2].item.encrypted_content, done[0].encrypted_content)
      assert.deepStrictEqual([done[2].call_id, done[2].arguments], ["a", `{"first":"argument"}`])
      assert.strictEqual(response.status, "completed")
      assert.deepInclude(response.usage, { input_tokens: 10, output_tokens: 6, total_tokens: 16 })
      assert.strictEqual(response.usage.output_tokens_details.reasoning_tokens, 2)
      assert.strictEqual(response.usage.input_tokens_details.cached_tokens, 3)
    })
  )
  it.live("is incomplete when cut by a limit, and its last call is never done", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("responses", answer, {}, { type: "finish", reason: "length", after: 4 })
      assert.deepStrictEqual(outline(all).slice(-3), [
        "output_item.added",
        "function_call_arguments.delta",
        "incomplete"
      ])
      const { response } = all.at(-1)
      assert.deepStrictEqual(response.incomplete_details, { reason: "max_output_tokens" })
      assert.deepInclude(response.output.at(-1), { status: "incomplete", arguments: `{"first":"ar` })
    })
  )
  it.live("reports a partial call as done when the plan lies about the end", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("responses", answer, {}, { type: "finish", reason: "tool-calls", after: 4 })
      assert.deepStrictEqual(outline(all).slice(-2), ["output_item.done", "completed"])
      assert.deepInclude(all.at(-2).item, { status: "completed", arguments: `{"first":"ar` })
    })
  )
  it.live("has the error in the form that the plan asks for", () =>
    Effect.gen(function* () {
      const error = { type: "rate_limit_error", message: "Slower." }
      const said = Effect.fnUntraced(function* (form?: "failed" | "flat" | "nested") {
        const fault = {
          type: "stream-error",
          after: 1,
          error,
          ...(form === undefined ? {} : { form })
        } as const
        const all = yield* eventsOf("responses", answer, {}, fault)
        assert.strictEqual(all.at(-1).sequence_number, all.length - 1)
        return all.at(-1)
      })
      const failed = yield* said()
      assert.strictEqual(failed.type, "response.failed")
      assert.deepStrictEqual(failed.response.error, { code: "rate_limit_exceeded", message: "Slower." })
      assert.deepStrictEqual((yield* said("failed")).type, "response.failed")
      assert.deepInclude(yield* said("flat"), {
        type: "error",
        code: "rate_limit_exceeded",
        message: "Slower."
      })
      assert.deepInclude((yield* said("nested")).error, { code: "rate_limit_exceeded", type: "tokens" })
    })
  )
})

describe("a Gemini stream", () => {
  const answer: FaultPlan.Answer = {
    reasoning: "I think",
    text: "Hello there",
    toolCalls: [
      { id: "a", name: "add", params: { first: "argument" } },
      { id: "b", name: "sub", params: {} }
    ],
    usage: { input: 10, output: 8, cacheRead: 3 }
  }
  const partsOf = (all: ReadonlyArray<any>) => all.map(({ candidates }) => candidates[0].content.parts ?? [])

  it.live("sends calls whole, signs the first, and has the usage in every chunk", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("google", answer)
      const calls = partsOf(all).slice(4, 6)
      assert.deepStrictEqual(partsOf(all).slice(0, 4), [
        [{ text: "I", thought: true }],
        [{ text: " think", thought: true }],
        [{ text: "Hello" }],
        [{ text: " there" }]
      ])
      assert.deepStrictEqual(
        calls.map(([{ functionCall }]) => functionCall),
        [
          { name: "add", args: { first: "argument" }, id: "a" },
          { name: "sub", args: {}, id: "b" }
        ]
      )
      assert.deepStrictEqual(
        calls.map(([{ thoughtSignature }]) => typeof thoughtSignature),
        ["string", "undefined"]
      )
      assert.strictEqual(all.at(-1).candidates[0].finishReason, "STOP")
      assert.isTrue(all.slice(0, -1).every(({ candidates }) => !("finishReason" in candidates[0])))
      assert.isTrue(all.every(({ usageMetadata }) => usageMetadata.promptTokenCount === 10))
      assert.deepStrictEqual(all.at(-1).usageMetadata, {
        promptTokenCount: 10,
        cachedContentTokenCount: 3,
        candidatesTokenCount: 6,
        thoughtsTokenCount: 2,
        totalTokenCount: 18
      })
    })
  )
  it.live("signs a text in a last part without text", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("google", { text: "Hello" })
      const [last] = partsOf(all).at(-1) ?? []
      assert.strictEqual(last.text, "")
      assert.isString(last.thoughtSignature)
    })
  )
  it.live("hides thoughts unless requested, but counts them", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("google", answer, {
        generationConfig: { thinkingConfig: { includeThoughts: false } }
      })
      assert.deepStrictEqual(partsOf(all)[0], [{ text: "Hello" }])
      assert.strictEqual(all.at(-1).usageMetadata.thoughtsTokenCount, 2)
    })
  )
  it.live("leaves out a call that was cut", () =>
    Effect.gen(function* () {
      const all = yield* eventsOf("google", answer, {}, { type: "finish", reason: "length", after: 5 })
      assert.isUndefined(
        partsOf(all)
          .flat()
          .find(({ functionCall }) => functionCall !== undefined)
      )
      assert.strictEqual(all.at(-1).candidates[0].finishReason, "MAX_TOKENS")
    })
  )
})
