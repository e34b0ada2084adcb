import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import type * as Spec from "../src/aisdk/Spec.ts"
import { finish, setup, stop, streamOf, usage } from "./client.ts"
import * as Support from "./support.ts"

describe("a call that comes again in a stream", () => {
  const begin: Spec.StreamPart = { type: "tool-input-start", id: "1", toolName: "pay" }
  const delta = (delta: string): Spec.StreamPart => ({ type: "tool-input-delta", id: "1", delta })
  const stopped: Spec.StreamPart = { type: "tool-input-end", id: "1" }
  const made = (input: string): Spec.StreamPart => ({
    type: "tool-call",
    toolCallId: "1",
    toolName: "pay",
    input
  })
  const call = (input: string): ReadonlyArray<Spec.StreamPart> => [
    begin,
    delta(input.slice(0, 3)),
    delta(input.slice(3)),
    stopped,
    made(input)
  ]
  const read = (stream: ReadonlyArray<Spec.StreamPart>) =>
    Effect.map(Support.collect(setup({ stream: streamOf([...stream, finish]) }).spec), ({ parts }) =>
      parts.map((part) =>
        part.type === "tool-params-delta"
          ? part.delta
          : part.type === "tool-call"
            ? JSON.stringify(part.params)
            : part.type
      )
    )
  const start = "tool-params-start"
  const end = "tool-params-end"

  it.effect("drops all of its pieces when its arguments are the same", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* read([...call('{"a":1}'), ...call('{"a":1}')]), [
        start,
        '{"a',
        '":1}',
        end,
        '{"a":1}',
        "finish"
      ])
    })
  )

  it.effect("passes all of its pieces when its arguments are different", () =>
    Effect.gen(function* () {
      const two = [...call('{"a":1}'), ...call('{"a":2}'), ...call('{"a":1}')]
      assert.deepStrictEqual(yield* read(two), [
        start,
        '{"a',
        '":1}',
        end,
        '{"a":1}',
        start,
        '{"a',
        '":2}',
        end,
        '{"a":2}',
        "finish"
      ])
    })
  )

  it.effect("passes the beginning of a call that is cut before its end", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* read([...call('{"a":1}'), begin, delta('{"a')]), [
        start,
        '{"a',
        '":1}',
        end,
        '{"a":1}',
        start,
        '{"a',
        "finish"
      ])
    })
  )

  it.effect("passes its pieces as soon as they differ from the earlier call", () =>
    Effect.gen(function* () {
      const { spec } = setup({ stream: streamOf([...call('{"a":1}'), begin, delta('{"b')]) })
      const { parts, failure } = yield* Support.collect(spec)
      assert.isDefined(failure)
      assert.deepStrictEqual(parts.slice(-2).map(({ type }) => type) as Array<string>, [
        start,
        "tool-params-delta"
      ])
    })
  )
})

describe("an answer of a client", () => {
  const content: ReadonlyArray<Spec.Content> = [
    { type: "reasoning", text: "hm", providerMetadata: { acme: { signature: "s", none: undefined } } },
    { type: "text", text: "hi" },
    { type: "source", sourceType: "url", id: "s1", url: "https://example.com/" },
    { type: "source", sourceType: "url", id: "s2", url: "not a url" },
    { type: "source", sourceType: "document", id: "s3", mediaType: "text/plain", title: "t", filename: "f" },
    { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array([1]) } },
    { type: "file", mediaType: "image/png", data: "AQ==" },
    { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://example.com/") } },
    { type: "tool-call", toolCallId: "1", toolName: "search", input: '{"q":1}', providerExecuted: true },
    { type: "tool-result", toolCallId: "1", toolName: "search", result: ["found"], isError: true },
    { type: "tool-approval-request", approvalId: "a", toolCallId: "1" },
    { type: "custom" }
  ]
  const metadata = { acme: { signature: "s" } }
  const common = [
    {
      type: "source",
      sourceType: "url",
      id: "s1",
      url: "https://example.com/",
      title: "https://example.com/"
    },
    { type: "source", sourceType: "document", id: "s3", mediaType: "text/plain", title: "t", fileName: "f" },
    { type: "file", mediaType: "image/png", data: "AQ==" },
    { type: "file", mediaType: "image/png", data: "AQ==" },
    { type: "tool-call", id: "1", name: "search", params: { q: 1 }, providerExecuted: true },
    {
      type: "tool-result",
      id: "1",
      name: "search",
      result: ["found"],
      isFailure: true,
      providerExecuted: true
    },
    { type: "tool-approval-request", approvalId: "a", toolCallId: "1" }
  ]

  it.effect("keeps every part that effect/ai supports", () =>
    Effect.gen(function* () {
      const response = { id: "r", modelId: "m-1", timestamp: new Date(Number.NaN) }
      const { spec } = setup({ content, result: { response, providerMetadata: { acme: { tier: "a" } } } })
      const parts = yield* Support.generate(spec)
      assert.deepStrictEqual(
        parts.slice(0, -1) as never,
        [
          { type: "response-metadata", id: "r", modelId: "m-1" },
          { type: "reasoning", text: "hm", metadata },
          { type: "text", text: "hi" },
          ...common
        ] as never
      )
      const last = parts.at(-1)
      assert(last?.type === "finish")
      assert.deepStrictEqual(last.metadata, { acme: { tier: "a" } })
      assert.deepInclude(last.usage.inputTokens, { total: 5, uncached: 3, cacheRead: 2 })
    })
  )

  it.effect("keeps the same parts in a stream", () =>
    Effect.gen(function* () {
      const parts = content.filter((part) => part.type !== "text" && part.type !== "reasoning")
      // Filtered above to the parts that streams share.
      const { spec } = setup({ stream: streamOf([...(parts as ReadonlyArray<Spec.CommonPart>), finish]) })
      const read = yield* Support.collect(spec)
      assert.isUndefined(read.failure)
      assert.deepStrictEqual(read.parts.slice(0, -1) as never, common as never)
    })
  )

  it.effect("ends with the reason pause when the provider paused it", () =>
    Effect.gen(function* () {
      const { spec } = setup({ result: { finishReason: { unified: "stop", raw: "pause_turn" } } })
      const last = (yield* Support.generate(spec)).at(-1)
      assert(last?.type === "finish")
      assert.strictEqual(last.reason, "pause")
    })
  )

  it.effect("has the text that the client names and drops drafts", () =>
    Effect.gen(function* () {
      const { spec } = setup({
        content: [
          { type: "text", text: "draft" },
          { type: "text", text: '{"a":1}' }
        ],
        result: { structuredOutputText: '{"a":1}' }
      })
      const model = yield* Support.languageModel(spec)
      const schema = Schema.Struct({ a: Schema.Finite })
      assert.deepStrictEqual((yield* model.generateObject({ prompt: "?", schema })).value, { a: 1 })
      assert.strictEqual((yield* model.generateText({ prompt: "?" })).text, 'draft{"a":1}')
    })
  )

  for (const [unified, reason, rule] of [
    ["interrupted", "Network", "stream/cut"],
    ["error", "Format", "stream/finish-error"]
  ] as const) {
    it.effect(`is a failure when it finishes as ${unified}`, () =>
      Effect.gen(function* () {
        const finishReason = { unified, raw: "RAW" }
        const { spec } = setup({
          result: { finishReason },
          stream: streamOf([
            { type: "text-start", id: "1" },
            { type: "finish", finishReason, usage }
          ])
        })
        const failure = yield* Effect.flip(Support.generate(spec))
        assert.strictEqual(failure.reason._tag, reason)
        const stream = yield* Support.collect(spec)
        assert.strictEqual(stream.failure?.evidence.rule, rule)
        assert.deepStrictEqual(
          stream.parts.map(({ type }) => type),
          ["text-start"]
        )
      })
    )
  }

  for (const [raw, rule] of [
    [undefined, "client/nothing"],
    ["OTHER", "client/nothing"],
    ["UNEXPECTED_TOOL_CALL", "answer/bad-call"]
  ] as const) {
    it.effect(`is a failure when it finishes as other and is empty: ${raw}`, () =>
      Effect.gen(function* () {
        const finishReason = { unified: "other", raw } as const
        const nothing = [
          { type: "text-start", id: "1" },
          { type: "text-delta", id: "1", delta: "" },
          { type: "finish", finishReason, usage }
        ] as const
        const { spec } = setup({
          content: [{ type: "text", text: "" }],
          result: { finishReason },
          stream: streamOf(nothing)
        })
        const failure = yield* Effect.flip(Support.generate(spec))
        assert.strictEqual(failure.evidence.rule, rule)
        assert.strictEqual(failure.reason._tag, "Format")
        assert.strictEqual((yield* Support.collect(spec)).failure?.evidence.rule, rule)
      })
    )
  }

  it.effect("is complete when it finishes as other and has content", () =>
    Effect.gen(function* () {
      const finishReason = { unified: "other", raw: undefined } as const
      const { spec } = setup({ content: [{ type: "text", text: "hi" }], result: { finishReason } })
      const last = (yield* Support.generate(spec)).at(-1)
      assert(last?.type === "finish")
      assert.strictEqual(last.reason, "other")
    })
  )

  it.effect("ends even if its stream cannot be cancelled", () =>
    Effect.gen(function* () {
      const part: Spec.StreamPart = { type: "error", error: { type: "overloaded_error", message: "busy" } }
      const failing = new ReadableStream<Spec.StreamPart>({
        pull: (controller) => controller.enqueue(part),
        cancel: () => Promise.reject(new Error("no"))
      })
      const read = yield* Support.collect(setup({ stream: failing }).spec)
      assert.strictEqual(read.failure?.reason._tag, "Overloaded")
      const hanging = new ReadableStream<Spec.StreamPart>({
        pull: (controller) => controller.enqueue(part),
        cancel: () => new Promise(() => {})
      })
      const again = yield* Support.collect(setup({ stream: hanging }).spec)
      assert.strictEqual(again.failure?.reason._tag, "Overloaded")
    })
  )

  it.effect("is cancelled when it arrives after its call was interrupted", () =>
    Effect.gen(function* () {
      const opened = Promise.withResolvers<void>()
      const answer = Promise.withResolvers<Spec.StreamResult>()
      const cancelled = Promise.withResolvers<boolean>()
      const { spec } = setup({
        // A client that ignores the signal.
        open: () => {
          opened.resolve()
          return answer.promise
        }
      })
      const fiber = yield* Effect.forkChild(Support.collect(spec))
      yield* Effect.promise(() => opened.promise)
      yield* Fiber.interrupt(fiber)
      answer.resolve({ stream: new ReadableStream({ cancel: () => cancelled.resolve(true) }) })
      assert.isTrue(yield* Effect.promise(() => cancelled.promise))
    })
  )

  it.effect("is a failure, not a defect, when it breaks the interface", () =>
    Effect.gen(function* () {
      // An answer as a client of another version might give it.
      const { spec } = setup({
        result: { usage: undefined } as never,
        stream: streamOf([{ type: "finish", finishReason: stop } as never])
      })
      assert.strictEqual((yield* Effect.flip(Support.generate(spec))).evidence.rule, "client/unreadable")
      const { failure } = yield* Support.collect(spec)
      assert.strictEqual(failure?.evidence.rule, "client/unreadable")
    })
  )

  it.effect("ends at an error among its parts, and cancels its stream", () =>
    Effect.gen(function* () {
      let cancelled = false
      const parts: Array<Spec.StreamPart> = [
        { type: "text-start", id: "1" },
        { type: "error", error: { type: "overloaded_error", message: "busy" } },
        finish
      ]
      const stream = new ReadableStream<Spec.StreamPart>(
        {
          pull: (controller) => controller.enqueue(parts.shift() ?? finish),
          cancel: () => {
            cancelled = true
          }
        },
        { highWaterMark: 0 }
      )
      const { spec, calls } = setup({ stream })
      const read = yield* Support.collect(spec)
      assert.strictEqual(read.failure?.reason._tag, "Overloaded")
      assert.lengthOf(read.parts, 1)
      assert.isTrue(cancelled)
      assert.isTrue(calls[0]?.abortSignal?.aborted)
    })
  )

  it.effect("is cancelled and aborted when its reader is interrupted", () =>
    Effect.gen(function* () {
      let cancelled = false
      const pulled = Promise.withResolvers<void>()
      const stream = new ReadableStream<Spec.StreamPart>(
        {
          pull: () => {
            pulled.resolve()
            return new Promise(() => {})
          },
          cancel: () => {
            cancelled = true
          }
        },
        { highWaterMark: 0 }
      )
      const { spec, calls } = setup({ stream })
      const fiber = yield* Effect.forkChild(Support.collect(spec))
      yield* Effect.promise(() => pulled.promise)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(cancelled)
      assert.isTrue(calls[0]?.abortSignal?.aborted)
    })
  )
})
