/**
 * The package `ai` over a chain, against providers over HTTP.
 */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource, Outlast } from "@outlast/agent"
import type { Chain, ProviderModel } from "@outlast/agent"
import { Anthropic, OpenAi, toAiSdk } from "@outlast/providers"
import type { ServedModel } from "#providers/aisdk/ToAiSdk"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider } from "@outlast/testing"
import { APICallError, LoadAPIKeyError } from "@ai-sdk/provider"
import {
  generateObject,
  generateText,
  isStepCount,
  jsonSchema,
  NoObjectGeneratedError,
  Output,
  streamObject,
  streamText,
  tool
} from "ai"
import type { Scope } from "effect"
import { Effect, Layer, ManagedRuntime, Option, Redacted, Stream, Tracer } from "effect"
import { AiError, IdGenerator, LanguageModel, Telemetry } from "effect/ai"
import type { Response } from "effect/ai"
import { getEventListeners } from "node:events"
import { inspect } from "node:util"
import { beforeAll } from "vitest"
import type * as Spec from "../src/aisdk/Spec.ts"
import * as Client from "./client.ts"
import { policy as hasty } from "../../../test/services/Hasty.ts"

beforeAll(() => {
  // They are asserted, not printed.
  Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })
})

const key = (name: string) => KeySource.value(name, Redacted.make(`sk-0123456789abcdef-key${name}`))

const anthropic = (server: FakeProvider.FakeProvider, ...names: ReadonlyArray<string>) =>
  Anthropic.model("claude-sonnet-4-5", {
    baseUrl: server.baseUrl("anthropic"),
    keys: (names.length === 0 ? ["A"] : names).map(key)
  })

const openai = (server: FakeProvider.FakeProvider) =>
  OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: [key("O")] })

const acquire = <E>(source: Layer.Layer<LanguageModel.LanguageModel, E>) =>
  Effect.acquireRelease(
    Effect.sync(() => toAiSdk(source)),
    (model) => Effect.promise(() => model.dispose())
  )

/** A model over a server with one key of Anthropic's, or over what is given. */
const served = (
  plan: FaultPlan.FaultPlan,
  targets: (server: FakeProvider.FakeProvider) => Parameters<typeof Failover.layer>[0] = (server) => [
    anthropic(server)
  ]
): Effect.Effect<
  { readonly server: FakeProvider.FakeProvider; readonly model: ServedModel },
  never,
  Scope.Scope
> =>
  Effect.gen(function* () {
    const server = yield* FakeProvider.make({ plan })
    // Targets of this package need no services.
    const layer = Failover.layer(targets(server), { policy: hasty }) as Layer.Layer<
      LanguageModel.LanguageModel,
      Chain.ChainError
    >
    return { server, model: yield* acquire(layer) }
  })

const weather = (ran: Array<string> = []) =>
  tool({
    description: "The weather in a city",
    inputSchema: jsonSchema<{ city: string }>({
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false
    }),
    execute: async ({ city }) => {
      ran.push(city)
      return `Rain in ${city}.`
    }
  })

const rejected = <A>(promise: () => PromiseLike<A>): Effect.Effect<unknown, A> =>
  Effect.flip(Effect.tryPromise({ try: async () => promise(), catch: (error) => error }))

const answers = [{ text: "The meeting is on Tuesday at ten." }]
const said = "The meeting is on Tuesday at ten."

describe("generateText", () => {
  it.live("answers, and reports target, attempt and cost", () =>
    Effect.gen(function* () {
      const { model } = yield* served({ answers: [{ text: said, usage: { input: 1_000, cacheRead: 600 } }] })
      const result = yield* Effect.promise(() =>
        generateText({ model, instructions: "Be brief.", prompt: "When?", maxOutputTokens: 100 })
      )
      assert.strictEqual(result.text, said)
      assert.strictEqual(result.finishReason, "stop")
      assert.deepInclude(result.usage, {
        inputTokens: 1_000,
        totalTokens: 1_000 + result.usage.outputTokens!
      })
      assert.deepInclude(result.usage.inputTokenDetails, { cacheReadTokens: 600, noCacheTokens: 400 })
      assert.strictEqual(result.response.modelId, "claude-sonnet-4-5")
      const outlast = result.providerMetadata?.["outlast"]
      assert.deepInclude(outlast, {
        target: "anthropic/claude-sonnet-4-5#A",
        provider: "anthropic",
        model: "claude-sonnet-4-5",
        attempts: 1
      })
      assert.isAbove(Number(outlast?.["costUsd"]), 0)
      assert.deepStrictEqual(result.warnings, [])
    })
  )

  it.live("goes to another key on a 429, and the AI SDK repeats nothing", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served(
        { answers, faults: [{ fault: { type: "status", status: 429, headers: { "retry-after": "30" } } }] },
        (server) => [anthropic(server, "A", "B")]
      )
      const result = yield* Effect.promise(() => generateText({ model, prompt: "When?" }))
      assert.strictEqual(result.text, said)
      assert.deepInclude(result.providerMetadata?.["outlast"], {
        target: "anthropic/claude-sonnet-4-5#B",
        attempts: 2,
        switched: "RateLimit"
      })
      assert.lengthOf(yield* server.requests, 2)
      // The cooldown holds for the next call.
      yield* Effect.promise(() => generateText({ model, prompt: "When?" }))
      assert.deepStrictEqual(
        (yield* server.requests).map(({ key }) => key),
        ["…keyA", "…keyB", "…keyB"]
      )
    })
  )

  it.live(
    "goes to another provider, with the whole conversation: files, thinking, tools and their results (vercel/ai#2636)",
    () =>
      Effect.gen(function* () {
        const { server, model } = yield* served(
          {
            answers: [...answers, ...answers],
            faults: [
              { fault: { type: "status", status: 529 }, times: "always", when: { provider: "anthropic" } }
            ]
          },
          (server) => [anthropic(server), openai(server)]
        )
        const result = yield* Effect.promise(() =>
          generateText({
            model,
            instructions: "Be brief.",
            messages: [
              {
                role: "user",
                content: [
                  { type: "text", text: "What is this?" },
                  { type: "file", mediaType: "image/png", data: png }
                ]
              },
              {
                role: "assistant",
                content: [
                  { type: "reasoning", text: "A cat, I think." },
                  { type: "text", text: "I look." },
                  { type: "tool-call", toolCallId: "call_1", toolName: "weather", input: { city: "Bonn" } }
                ]
              },
              {
                role: "tool",
                content: [
                  {
                    type: "tool-result",
                    toolCallId: "call_1",
                    toolName: "weather",
                    output: { type: "json", value: { rain: true } }
                  }
                ]
              },
              { role: "user", content: "And?" }
            ],
            tools: { weather: weather() }
          })
        )
        assert.deepInclude(result.providerMetadata?.["outlast"], {
          provider: "openai",
          switched: "Overloaded"
        })
        const sent = JSON.stringify((yield* server.requests).at(-1)?.body)
        for (const part of [
          "Be brief.",
          "What is this?",
          "data:image/png;base64,",
          "call_1",
          "Bonn",
          '\\"rain\\":true',
          "And?"
        ]) {
          assert.include(sent, part)
        }
      })
  )

  it.live("sends the settings of a call, and warns about a key in its headers", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers })
      const result = yield* Effect.promise(() =>
        generateText({
          model,
          prompt: "When?",
          temperature: 0.5,
          topK: 5,
          stopSequences: ["x"],
          headers: { "x-team": "a", authorization: "Bearer of-another-vendor" },
          providerOptions: { anthropic: { metadata: { userId: "u" } } }
        })
      )
      const [request] = yield* server.requests
      assert.deepInclude(request?.body, {
        temperature: 0.5,
        top_k: 5,
        stop_sequences: ["x"],
        metadata: { user_id: "u" }
      })
      assert.propertyVal(request?.headers, "x-team", "a")
      assert.notProperty(request?.headers, "authorization")
      assert.deepStrictEqual(
        result.warnings?.map((warning) => (warning.type === "unsupported" ? warning.feature : warning.type)),
        ["header authorization"]
      )
    })
  )

  it.live("sends an image and the thinking option, also after a failed attempt", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({
        answers: [{ reasoning: "A cat.", text: said }],
        faults: [{ fault: { type: "status", status: 503 } }]
      })
      const image = new Uint8Array([137, 80, 78, 71])
      const result = yield* Effect.promise(() =>
        generateText({
          model,
          reasoning: "high",
          messages: [
            {
              role: "user",
              content: [
                { type: "text", text: "What is it?" },
                { type: "file", mediaType: "image/png", data: image }
              ]
            }
          ]
        })
      )
      assert.strictEqual(result.reasoningText, "A cat.")
      assert.strictEqual(result.text, said)
      const requests = yield* server.requests
      assert.lengthOf(requests, 2)
      assert.nestedPropertyVal(requests[1]?.body, "thinking.type", "enabled")
      assert.nestedPropertyVal(requests[1]?.body, "messages[0].content[1].type", "image")
    })
  )

  it.live("sends the output limit, and reports that it was reached", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers })
      const result = yield* Effect.promise(() => generateText({ model, prompt: "When?", maxOutputTokens: 2 }))
      assert.strictEqual(result.finishReason, "length")
      assert.strictEqual(result.text, "The meeting")
      assert.propertyVal((yield* server.requests)[0]?.body, "max_tokens", 2)
    })
  )
})

// One white pixel.
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

describe("streamText", () => {
  it.live("streams text and thinking", () =>
    Effect.gen(function* () {
      const { model } = yield* served({ answers: [{ reasoning: "Let me see.", text: said }] })
      const result = streamText({ model, prompt: "When?" })
      const deltas = yield* Stream.runCollect(Stream.fromAsyncIterable(result.textStream, (error) => error))
      assert.strictEqual(deltas.join(""), said)
      assert.isAbove(deltas.length, 3)
      assert.strictEqual(yield* Effect.promise(async () => result.reasoningText), "Let me see.")
      assert.strictEqual(yield* Effect.promise(async () => result.finishReason), "stop")
      const metadata = yield* Effect.promise(async () => result.providerMetadata)
      assert.deepInclude(metadata?.["outlast"], { attempts: 1, provider: "anthropic" })
      assert.isAbove((yield* Effect.promise(async () => result.usage)).outputTokens ?? 0, 0)
    })
  )

  for (const fault of [
    { type: "cut", after: 3 },
    { type: "reset", after: 3 },
    { type: "stream-error", after: 3, error: { type: "overloaded_error", message: "Overloaded" } }
  ] as const) {
    it.live(`continues a stream that ends with ${fault.type} as one text`, () =>
      Effect.gen(function* () {
        const { server, model } = yield* served({ answers, faults: [{ fault }] }, (server) => [
          anthropic(server),
          openai(server)
        ])
        const errors: Array<unknown> = []
        const result = streamText({ model, prompt: "When?", onError: ({ error }) => void errors.push(error) })
        const parts = yield* Stream.runCollect(Stream.fromAsyncIterable(result.fullStream, (error) => error))
        assert.strictEqual(yield* Effect.promise(async () => result.text), said)
        assert.lengthOf(
          parts.filter(({ type }) => type === "text-start"),
          1
        )
        assert.deepStrictEqual(errors, [])
        assert.isAtLeast((yield* server.requests).length, 2)
      })
    )
  }

  it.live("goes to another key on a 429 before the first part", () =>
    Effect.gen(function* () {
      const { model } = yield* served(
        { answers, faults: [{ fault: { type: "status", status: 429, headers: { "retry-after": "30" } } }] },
        (server) => [anthropic(server, "A", "B")]
      )
      const result = streamText({ model, prompt: "When?" })
      assert.strictEqual(yield* Effect.promise(async () => result.text), said)
    })
  )

  it.live("ends with an error part when the chain gives up in the middle", () =>
    Effect.gen(function* () {
      const { model } = yield* served({
        answers,
        faults: [
          { fault: { type: "cut", after: 3 } },
          { fault: { type: "status", status: 401 }, times: "always" }
        ]
      })
      const errors: Array<unknown> = []
      const result = streamText({ model, prompt: "When?", onError: ({ error }) => void errors.push(error) })
      const parts = yield* Stream.runCollect(Stream.fromAsyncIterable(result.fullStream, (error) => error))
      assert.include(
        parts.map((part) => (part.type === "text-delta" ? part.text : "")).join(""),
        "The meeting is"
      )
      assert.lengthOf(errors, 1)
      assert(APICallError.isInstance(errors[0]))
      assert.isFalse(errors[0].isRetryable)
      assert.strictEqual(parts.find((part) => part.type === "finish")?.finishReason, "error")
    })
  )

  it.live("reads no further than its consumer", () =>
    Effect.gen(function* () {
      let pulled = 0
      const endless = new ReadableStream<Spec.StreamPart>({
        pull(controller) {
          pulled++
          controller.enqueue(
            pulled === 1 ? { type: "text-start", id: "0" } : { type: "text-delta", id: "0", delta: "word " }
          )
        }
      })
      const { spec } = Client.setup({ stream: endless })
      const model = yield* acquire(Failover.layer([spec]))
      const { stream } = yield* Effect.promise(async () =>
        model.doStream({ prompt: [{ role: "user", content: [{ type: "text", text: "?" }] }] })
      )
      const reader = stream.getReader()
      for (let i = 0; i < 5; i++) yield* Effect.promise(() => reader.read())
      for (let i = 0; i < 20; i++)
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      assert.isBelow(pulled, 300)
      yield* Effect.promise(() => reader.cancel())
    })
  )
})

describe("tools", () => {
  const plan: FaultPlan.FaultPlan = {
    answers: [
      { text: "I look.", toolCalls: [{ name: "weather", params: { city: "Bonn" } }] },
      { text: "It rains." }
    ]
  }

  for (const [name, run] of Object.entries({
    generateText: async (model: ServedModel, ran: Array<string>) => {
      const { text, steps } = await generateText({
        model,
        prompt: "Weather in Bonn?",
        tools: { weather: weather(ran) },
        stopWhen: isStepCount(5)
      })
      return { text, steps: steps.length }
    },
    streamText: async (model: ServedModel, ran: Array<string>) => {
      const result = streamText({
        model,
        prompt: "Weather in Bonn?",
        tools: { weather: weather(ran) },
        stopWhen: isStepCount(5)
      })
      return { text: await result.text, steps: (await result.steps).length }
    }
  })) {
    it.live(`${name} runs each call once, in a loop`, () =>
      Effect.gen(function* () {
        const { server, model } = yield* served(plan)
        const ran: Array<string> = []
        const { text, steps } = yield* Effect.promise(() => run(model, ran))
        assert.strictEqual(text, "It rains.")
        assert.strictEqual(steps, 2)
        assert.deepStrictEqual(ran, ["Bonn"])
        assert.include(JSON.stringify((yield* server.requests)[1]?.body), "Rain in Bonn.")
      })
    )

    it.live(`${name} runs no call of an attempt that was cut`, () =>
      Effect.gen(function* () {
        const { model } = yield* served(
          {
            ...plan,
            faults: [
              { fault: { type: "reset", after: 4 } },
              { skip: 1, fault: { type: "status", status: 529 } }
            ]
          },
          (server) => [anthropic(server), openai(server)]
        )
        const ran: Array<string> = []
        const { text } = yield* Effect.promise(() => run(model, ran))
        assert.strictEqual(text, "It rains.")
        assert.deepStrictEqual(ran, ["Bonn"])
      })
    )
  }

  it.live("passes on the forced tool and the schema of its arguments", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served(plan)
      const call = (toolChoice: "auto" | "none" | "required" | { type: "tool"; toolName: "weather" }) =>
        Effect.promise(() => generateText({ model, prompt: "?", tools: { weather: weather() }, toolChoice }))
      const { toolCalls } = yield* call({ type: "tool", toolName: "weather" })
      assert.deepInclude(toolCalls[0], { toolName: "weather", input: { city: "Bonn" } })
      yield* call("required")
      const bodies = (yield* server.requests).map(({ body }) => body)
      assert.deepInclude(bodies[0], { tool_choice: { type: "tool", name: "weather" } })
      assert.deepInclude(bodies[1], { tool_choice: { type: "any" } })
      assert.include(JSON.stringify(bodies[0]), '"required":["city"]')
    })
  )

  it.live("reports a failed tool to the model", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served(plan)
      const broken = tool({
        inputSchema: jsonSchema<{ city: string }>({
          type: "object",
          properties: { city: { type: "string" } }
        }),
        execute: async (): Promise<string> => {
          throw new Error("no signal")
        }
      })
      yield* Effect.promise(() =>
        generateText({ model, prompt: "?", tools: { weather: broken }, stopWhen: isStepCount(3) })
      )
      const body = JSON.stringify((yield* server.requests)[1]?.body)
      assert.include(body, "no signal")
      assert.include(body, '"is_error":true')
    })
  )
})

describe("objects", () => {
  const schema = jsonSchema<{ day: string }>({
    type: "object",
    properties: { day: { type: "string" } },
    required: ["day"],
    additionalProperties: false
  })
  const plan: FaultPlan.FaultPlan = { answers: [{ text: '{"day":"Tuesday"}' }] }

  it.live("are requested by their schema, also after failures", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served(
        {
          ...plan,
          faults: [
            { fault: { type: "status", status: 529 }, when: { provider: "anthropic" }, times: "always" }
          ]
        },
        (server) => [anthropic(server), openai(server)]
      )
      const { output } = yield* Effect.promise(() =>
        generateText({ model, prompt: "When?", output: Output.object({ schema, name: "meeting" }) })
      )
      assert.deepStrictEqual(output, { day: "Tuesday" })
      const { response_format } = JSON.parse(JSON.stringify((yield* server.requests).at(-1)?.body))
      assert.strictEqual(response_format.json_schema.name, "meeting")
      assert.deepInclude(response_format.json_schema.schema, {
        required: ["day"],
        additionalProperties: false
      })
      assert.isTrue(response_format.json_schema.strict)
    })
  )

  it.live("are the result of generateObject", () =>
    Effect.gen(function* () {
      const { model } = yield* served(plan, (server) => [openai(server)])
      const { object } = yield* Effect.promise(() => generateObject({ model, prompt: "When?", schema }))
      assert.deepStrictEqual(object, { day: "Tuesday" })
    })
  )

  it.live("are streamed as they arrive, without a warning", () =>
    Effect.gen(function* () {
      const { model } = yield* served(plan, (server) => [openai(server)])
      const result = streamObject({ model, prompt: "When?", schema })
      const partial = yield* Stream.runCollect(
        Stream.fromAsyncIterable(result.partialObjectStream, (error) => error)
      )
      assert.deepStrictEqual(partial.at(-1), { day: "Tuesday" })
      assert.deepStrictEqual(yield* Effect.promise(async () => result.object), { day: "Tuesday" })
      assert.deepStrictEqual(yield* Effect.promise(async () => result.warnings), [])
      const metadata = yield* Effect.promise(async () => result.providerMetadata)
      assert.deepInclude(metadata?.["outlast"], { attempts: 1 })
    })
  )

  it.live("may be preceded by tool calls", () =>
    Effect.gen(function* () {
      const { model } = yield* served(
        {
          answers: [{ toolCalls: [{ name: "weather", params: { city: "Bonn" } }] }, ...(plan.answers as [])]
        },
        (server) => [openai(server)]
      )
      const ran: Array<string> = []
      const { output } = yield* Effect.promise(() =>
        generateText({
          model,
          prompt: "When?",
          tools: { weather: weather(ran) },
          stopWhen: isStepCount(3),
          output: Output.object({ schema })
        })
      )
      assert.deepStrictEqual(output, { day: "Tuesday" })
      assert.deepStrictEqual(ran, ["Bonn"])
    })
  )

  it.live("that are invalid are requested again, then left to the AI SDK with their text", () =>
    Effect.gen(function* () {
      const { model, server } = yield* served({ answers: [{ text: "On Tuesday." }] }, (server) => [
        openai(server)
      ])
      const error = yield* rejected(() => generateObject({ model, prompt: "When?", schema }))
      assert(NoObjectGeneratedError.isInstance(error))
      assert.strictEqual(error.text, "On Tuesday.")
      assert.lengthOf(yield* server.requests, 3)
    })
  )

  it.live("without a schema are requested in the prompt", () =>
    Effect.gen(function* () {
      const { model, server } = yield* served(plan)
      const { output } = yield* Effect.promise(() =>
        generateText({ model, prompt: "When?", output: Output.json() })
      )
      assert.deepStrictEqual(output, { day: "Tuesday" })
      assert.include(JSON.stringify((yield* server.requests)[0]?.body), "nothing but JSON")
    })
  )
})

describe("abortSignal", () => {
  const closed = (server: FakeProvider.FakeProvider) =>
    Effect.repeat(server.requests, {
      until: (requests) => requests.every(({ closedByClient }) => closedByClient)
    })

  it.live("ends a call: the connection is closed, no attempt follows", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served(
        { answers, faults: [{ fault: { type: "stall" }, times: "always" }] },
        (server) => [anthropic(server, "A", "B")]
      )
      const controller = new AbortController()
      const call = rejected(() => generateText({ model, prompt: "?", abortSignal: controller.signal }))
      const [error] = yield* Effect.all(
        [
          call,
          Effect.andThen(
            Stream.runHead(server.arrivals),
            Effect.sync(() => controller.abort())
          )
        ],
        { concurrency: "unbounded" }
      )
      assert.propertyVal(error, "name", "AbortError")
      assert.lengthOf(yield* closed(server), 1)
    })
  )

  it.live("ends a stream in the middle, as an abort", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served(
        { answers, faults: [{ fault: { type: "stall", after: 3 }, times: "always" }] },
        (server) => [anthropic(server, "A", "B")]
      )
      const controller = new AbortController()
      const errors: Array<unknown> = []
      let aborted = 0
      const result = streamText({
        model,
        prompt: "?",
        abortSignal: controller.signal,
        onError: ({ error }) => void errors.push(error),
        onAbort: () => void aborted++
      })
      yield* Stream.runForEach(
        Stream.fromAsyncIterable(result.fullStream, (error) => error),
        (part) => Effect.sync(() => part.type === "text-delta" && controller.abort())
      )
      assert.strictEqual(aborted, 1)
      assert.deepStrictEqual(errors, [])
      assert.lengthOf(yield* closed(server), 1)
    })
  )

  it.live("ends a stream before its first part", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served(
        { answers, faults: [{ fault: { type: "stall" }, times: "always" }] },
        (server) => [anthropic(server, "A", "B")]
      )
      const controller = new AbortController()
      const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "?" }] }]
      const [error] = yield* Effect.all(
        [
          rejected(async () => {
            const { stream } = await model.doStream({ prompt, abortSignal: controller.signal })
            await stream.getReader().read()
          }),
          Effect.andThen(
            Stream.runHead(server.arrivals),
            Effect.sync(() => controller.abort(new Error("enough")))
          )
        ],
        { concurrency: "unbounded" }
      )
      assert.propertyVal(error, "message", "enough")
      assert.lengthOf(yield* closed(server), 1)
    })
  )

  it.live("has no listener left after a call, a stream, or a stream that is cancelled", () =>
    Effect.gen(function* () {
      const { model } = yield* served({ answers })
      const { signal } = new AbortController()
      const options = {
        prompt: [{ role: "user" as const, content: [{ type: "text" as const, text: "?" }] }],
        abortSignal: signal
      }
      const left = () => getEventListeners(signal, "abort").length
      yield* Effect.promise(async () => model.doGenerate(options))
      assert.strictEqual(left(), 0)
      const whole = yield* Effect.promise(async () => model.doStream(options))
      const parts = yield* Stream.runCollect(
        Stream.fromReadableStream({ evaluate: () => whole.stream, onError: String })
      )
      assert.strictEqual([...parts].at(-1)?.type, "finish")
      assert.strictEqual(left(), 0)
      const given = yield* Effect.promise(async () => model.doStream(options))
      yield* Effect.promise(() => given.stream.cancel())
      assert.strictEqual(left(), 0)
    })
  )

  it.live("does not affect a stream that fails at once", () =>
    Effect.gen(function* () {
      const { model } = yield* served({ answers }, (server) => [
        OpenAi.chatModel("gpt-4.1", {
          baseUrl: server.baseUrl("openai"),
          keys: [KeySource.value("O", Redacted.make("sk-0123456789\nabcdef"))]
        })
      ])
      const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "?" }] }]
      const { signal } = new AbortController()
      // The second call does not wait, because the layer is built.
      for (const _ of [1, 2]) {
        const error = yield* rejected(() => model.doStream({ prompt, abortSignal: signal }))
        assert.isTrue(APICallError.isInstance(error))
      }
    })
  )

  it.live("that is aborted already sends nothing", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers })
      const options = { prompt: [], abortSignal: AbortSignal.abort() }
      assert.propertyVal(yield* rejected(() => model.doGenerate(options)), "name", "AbortError")
      assert.propertyVal(yield* rejected(() => model.doStream(options)), "name", "AbortError")
      assert.lengthOf(yield* server.requests, 0)
    })
  )

  it.live("is not needed: a consumer that stops reading closes the connection", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers, faults: [{ fault: { type: "stall", after: 3 } }] })
      const { stream } = yield* Effect.promise(async () =>
        model.doStream({ prompt: [{ role: "user", content: [{ type: "text", text: "?" }] }] })
      )
      yield* Effect.promise(() => stream.cancel())
      assert.lengthOf(yield* closed(server), 1)
    })
  )
})

describe("failures", () => {
  it.live("become one APICallError that is not retried, with message and status and without secrets", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served(
        {
          answers,
          faults: [
            {
              fault: {
                type: "status",
                status: 429,
                headers: { "retry-after": "400" },
                body: {
                  type: "error",
                  error: {
                    type: "rate_limit_error",
                    message: "Slow down, sk-0123456789abcdef-keyA: my secret prompt words"
                  }
                }
              },
              times: "always"
            }
          ]
        },
        (server) => [anthropic(server, "A", "B")]
      )
      const error = yield* rejected(() => generateText({ model, prompt: "my secret prompt words" }))
      assert(APICallError.isInstance(error))
      assert.isFalse(error.isRetryable)
      assert.strictEqual(error.statusCode, 429)
      assert.include(error.message, "No target is left after 2 attempts")
      assert.isAtMost(Number(error.responseHeaders?.["retry-after"]), 400)
      assert.strictEqual(error.url, server.baseUrl("anthropic"))
      assert.strictEqual(Option.getOrThrow(Outlast.failureOf(error.cause))._tag, "AllTargetsOut")
      const all = JSON.stringify(error) + String(error) + String(error.cause) + JSON.stringify(error.cause)
      assert.notInclude(all, "0123456789abcdef")
      assert.notInclude(all, "secret prompt")
      for (const customInspect of [true, false]) {
        const printed = inspect(error, { customInspect })
        assert.isAtMost(printed.split("\n").length, 18, printed)
        assert.notInclude(printed, "requestBodyValues")
      }
      // The AI SDK's own `maxRetries` is 2.
      assert.lengthOf(yield* server.requests, 2)
    })
  )

  it.live("of a stream reject before the first part", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({
        answers,
        faults: [{ fault: { type: "status", status: 401 }, times: "always" }]
      })
      const errors: Array<unknown> = []
      const result = streamText({ model, prompt: "?", onError: ({ error }) => void errors.push(error) })
      yield* Effect.promise(async () => result.consumeStream())
      assert(APICallError.isInstance(errors[0]))
      assert.strictEqual(errors[0].statusCode, 401)
      assert.lengthOf(yield* server.requests, 1)
    })
  )

  it.live("of a chain without a key name the variable", () =>
    Effect.gen(function* () {
      const model = yield* acquire(
        Failover.layer([Anthropic.model("claude-sonnet-4-5", { keys: ["NO_SUCH_KEY"] })])
      )
      const error = yield* rejected(() => generateText({ model, prompt: "?" }))
      assert(LoadAPIKeyError.isInstance(error))
      assert.include(error.message, "NO_SUCH_KEY")
    })
  )

  it.live("that cannot be built is built again with the next call", () =>
    Effect.gen(function* () {
      const value = Redacted.make("sk-0123456789abcdef")
      const loads = [Effect.fail(new Error("no server of tokens")), Effect.succeed({ value })]
      const load = Effect.suspend(() => loads.shift() ?? Effect.succeed({ value }))
      const { server, model } = yield* served({ answers }, (server) => [
        OpenAi.chatModel("gpt-4.1", {
          baseUrl: server.baseUrl("openai"),
          keys: [KeySource.refreshing("OAUTH", { load })]
        })
      ])
      const error = yield* rejected(() => generateText({ model, prompt: "?" }))
      assert(LoadAPIKeyError.isInstance(error))
      assert.include(error.message, "could not be loaded")
      assert.strictEqual((yield* Effect.promise(() => generateText({ model, prompt: "?" }))).text, said)
      assert.lengthOf(yield* server.requests, 1)
    })
  )

  it.live("of a foreign model are classified, and do not quote the prompt", () =>
    Effect.gen(function* () {
      const reason = new AiError.InvalidRequestError({ description: "Cannot read: my secret prompt words" })
      const failing = Effect.fail(AiError.make({ module: "Acme", method: "generateText", reason }))
      const model = yield* acquire(
        Layer.effect(
          LanguageModel.LanguageModel,
          LanguageModel.make({ generateText: () => failing, streamText: () => Stream.fromEffect(failing) })
        )
      )
      const error = yield* rejected(() => generateText({ model, prompt: "my secret prompt words" }))
      assert(APICallError.isInstance(error))
      assert.isFalse(error.isRetryable)
      assert.notInclude(JSON.stringify(error) + error.message + String(error.cause), "secret")
    })
  )

  it.live("after dispose say that the model was disposed of", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers })
      yield* Effect.promise(() => model.dispose())
      const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "?" }] }]
      for (const call of [() => model.doGenerate({ prompt }), () => model.doStream({ prompt })]) {
        const message = "The model was disposed of. Make a new one to make calls."
        assert.propertyVal(yield* rejected<unknown>(call), "message", message)
      }
      assert.lengthOf(yield* server.requests, 0)
    })
  )

  it.live("of a file stored at a provider are reported before any request", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers })
      const error = yield* rejected(() =>
        model.doGenerate({
          prompt: [
            {
              role: "user",
              content: [
                {
                  type: "file",
                  mediaType: "image/png",
                  data: { type: "reference", reference: { openai: "file_1" } }
                }
              ]
            }
          ]
        })
      )
      assert.instanceOf(error, APICallError)
      assert.include(error.message, "malformed")
      assert.lengthOf(yield* server.requests, 0)
    })
  )
})

describe("the runtime", () => {
  it.live("of the program is not disposed of", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers } })
      let released = 0
      const Held = Layer.effectDiscard(Effect.addFinalizer(() => Effect.sync(() => released++)))
      const runtime = ManagedRuntime.make(Layer.merge(Failover.layer([anthropic(server)]), Held))
      const model = toAiSdk(runtime, { provider: "mine", modelId: "writer" })
      assert.deepInclude(model, { provider: "mine", modelId: "writer", specificationVersion: "v4" })
      yield* Effect.promise(() => generateText({ model, prompt: "?" }))
      yield* Effect.promise(() => model.dispose())
      assert.strictEqual(released, 0)
      yield* Effect.promise(() => runtime.dispose())
      assert.strictEqual(released, 1)
    })
  )

  it.live("of a program with a span transformer shows it the answer to a request for an object", () =>
    Effect.gen(function* () {
      const text = '{"day":"Tuesday"}'
      const server = yield* FakeProvider.make({ plan: { answers: [{ text }] } })
      const seen: Array<string> = []
      const transformer = Layer.succeed(Telemetry.CurrentSpanTransformer, ({ response }) => {
        for (const part of response) if (part.type === "text") seen.push(part.text)
      })
      const runtime = ManagedRuntime.make(Layer.merge(Failover.layer([openai(server)]), transformer))
      const schema = jsonSchema<{ day: string }>({
        type: "object",
        properties: { day: { type: "string" } },
        required: ["day"],
        additionalProperties: false
      })
      yield* Effect.promise(() => generateObject({ model: toAiSdk(runtime), prompt: "When?", schema }))
      yield* Effect.promise(() => runtime.dispose())
      assert.deepStrictEqual(seen, [text])
    })
  )

  it.live("of a program with a tracer has the span of a call, as effect/ai makes it", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers } })
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const layer = Layer.merge(Failover.layer([openai(server)]), Layer.succeed(Tracer.Tracer, tracer))
      const runtime = ManagedRuntime.make(layer)
      yield* Effect.promise(() => generateText({ model: toAiSdk(runtime), prompt: "When?" }))
      yield* Effect.promise(() => runtime.dispose())
      const call = spans.find(({ name }) => name === "LanguageModel.generateText")
      assert.strictEqual(call?.kind, "client")
      assert.strictEqual(call?.attributes.get("gen_ai.output.type"), "text")
      assert.strictEqual(call?.attributes.get("effect.ai.tool_choice"), "auto")
      const attempt = spans.find(({ name }) => name.startsWith("chat "))
      assert.strictEqual(Option.getOrUndefined(attempt!.parent)?.spanId, call?.spanId)
    })
  )

  it.live("of a chain with a span transformer shows it the answer", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [{ text: "Hello." }] } })
      const seen: Array<string> = []
      const transformer = Layer.succeed(Telemetry.CurrentSpanTransformer, ({ response }) => {
        for (const part of response) if (part.type === "text") seen.push(part.text)
      })
      const runtime = ManagedRuntime.make(Layer.provide(Failover.layer([openai(server)]), transformer))
      yield* Effect.promise(() => generateText({ model: toAiSdk(runtime), prompt: "?" }))
      yield* Effect.promise(() => runtime.dispose())
      assert.deepStrictEqual(seen, ["Hello."])
    })
  )

  it.live("of a chain with a generator of ids gives it to the targets", () =>
    Effect.gen(function* () {
      const none = { total: undefined, uncached: undefined, cacheRead: undefined, cacheWrite: undefined }
      const finished: Response.FinishPartEncoded = {
        type: "finish",
        reason: "stop",
        usage: {
          inputTokens: none,
          outputTokens: { total: undefined, text: undefined, reasoning: undefined }
        },
        response: undefined
      }
      const id = Effect.flatMap(IdGenerator.IdGenerator, ({ generateId }) => generateId())
      const target: ProviderModel.TargetSpec = {
        provider: "a",
        model: "m",
        endpoint: "",
        keys: [],
        build: Effect.succeed({
          info: {},
          generateText: () =>
            Effect.map(id, (text): Array<Response.PartEncoded> => [{ type: "text", text }, finished]),
          streamText: () => Stream.empty
        })
      }
      const generator = Layer.succeed(IdGenerator.IdGenerator, { generateId: () => Effect.succeed("mine") })
      const runtime = ManagedRuntime.make(Layer.provide(Failover.layer([target]), generator))
      const { text } = yield* Effect.promise(() => generateText({ model: toAiSdk(runtime), prompt: "?" }))
      yield* Effect.promise(() => runtime.dispose())
      assert.strictEqual(text, "mine")
    })
  )

  it.live("that the model made is disposed of with it, and its calls end", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers, faults: [{ fault: { type: "stall" } }] })
      assert.deepInclude(model, { provider: "outlast", modelId: "chain" })
      const [error] = yield* Effect.all(
        [
          rejected(() => generateText({ model, prompt: "?" })),
          Effect.andThen(
            Stream.runHead(server.arrivals),
            Effect.promise(async () => model[Symbol.asyncDispose]())
          )
        ],
        { concurrency: "unbounded" }
      )
      assert.propertyVal(error, "name", "AbortError")
    })
  )
})

it.live("keeps the metadata of one turn for the next: signatures, sources, files", () =>
  Effect.gen(function* () {
    const { spec, calls } = Client.setup({
      content: [
        { type: "reasoning", text: "Hm.", providerMetadata: { acme: { signature: "s1" } } },
        { type: "text", text: "Look." },
        { type: "file", mediaType: "image/png", data: { type: "data", data: png } },
        { type: "source", sourceType: "url", id: "1", url: "https://example.com/", title: "Example" }
      ]
    })
    const model = yield* acquire(Failover.layer([spec]))
    const first = yield* Effect.promise(() => generateText({ model, prompt: "?" }))
    assert.strictEqual(first.files[0]?.base64, png)
    assert.deepInclude(first.sources[0], { url: "https://example.com/", title: "Example" })
    yield* Effect.promise(() =>
      generateText({
        model,
        messages: [
          { role: "user", content: "?" },
          ...first.response.messages,
          { role: "user", content: "Go on." }
        ]
      })
    )
    const assistant = calls[1]?.prompt.find(({ role }) => role === "assistant")
    assert(assistant?.role === "assistant")
    assert.deepStrictEqual(assistant.content[0], {
      type: "reasoning",
      text: "Hm.",
      providerOptions: { acme: { signature: "s1" } }
    })
    assert.notInclude(JSON.stringify(calls[1]), "outlast")
  })
)

it.live("offers tools that run at the provider, and passes on their results", () =>
  Effect.gen(function* () {
    const { spec, calls } = Client.setup({
      content: [
        {
          type: "tool-call",
          toolCallId: "1",
          toolName: "search",
          input: '{"q":"x"}',
          providerExecuted: true
        },
        { type: "tool-result", toolCallId: "1", toolName: "search", result: { found: 1 } },
        { type: "text", text: "Found." }
      ]
    })
    const model = yield* acquire(Failover.layer([spec]))
    const { content } = yield* Effect.promise(async () =>
      model.doGenerate({
        prompt: [{ role: "user", content: [{ type: "text", text: "?" }] }],
        tools: [{ type: "provider", id: "acme.search", name: "search", args: { max: 3 } }]
      })
    )
    assert.deepInclude(calls[0]?.tools?.[0], {
      type: "provider",
      id: "acme.search",
      name: "search",
      args: { max: 3 }
    })
    assert.deepInclude(content[0], { type: "tool-call", input: '{"q":"x"}', providerExecuted: true })
    assert.deepInclude(content[1], { type: "tool-result", result: { found: 1 } })
  })
)
