import { assert, describe, it } from "@effect/vitest"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider } from "@outlast/testing"
import { Effect, Redacted, Schema, Stream } from "effect"
import { Chat, LanguageModel } from "effect/ai"
import { answers, cases, Weather } from "./cases.ts"
import * as Support from "./support.ts"

const City = Schema.Struct({ city: Schema.String, people: Schema.Finite })

const WeatherLive = Weather.toLayer({ weather: ({ city }) => Effect.succeed(`sunny in ${city}`) })

describe.each(cases)("$name at a strict server", ({ target }) => {
  it.effect("answers with text, finish reason and usage", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers: [{ text: "hi there", usage: { input: 100, output: 7, cacheRead: 60 } }] }
      })
      const model = yield* Support.languageModel(target(server))
      const response = yield* model.generateText({ prompt: "hello" })
      assert.strictEqual(response.text, "hi there")
      assert.strictEqual(response.finishReason, "stop")
      assert.deepInclude(response.usage.inputTokens, { total: 100, cacheRead: 60, uncached: 40 })
      assert.strictEqual(response.usage.outputTokens.total, 7)
    })
  )

  it.effect("streams the same text with the same usage", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers: [{ text: "hi there", usage: { input: 100, output: 7, cacheRead: 60 } }] }
      })
      const { parts, failure } = yield* Support.collect(target(server))
      assert.isUndefined(failure)
      assert.strictEqual(Support.text(parts), "hi there")
      const finish = parts.at(-1)
      assert(finish?.type === "finish")
      assert.strictEqual(finish.reason, "stop")
      assert.strictEqual(finish.usage.inputTokens.total, 100)
      assert.strictEqual(finish.usage.inputTokens.cacheRead, 60)
    })
  )

  it.effect("answers with an object", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers: [{ text: JSON.stringify({ city: "Rome", people: 2.7 }) }] }
      })
      const model = yield* Support.languageModel(target(server))
      const { value } = yield* model.generateObject({ prompt: "which city?", schema: City })
      assert.deepStrictEqual(value, { city: "Rome", people: 2.7 })
    })
  )

  const tools: FaultPlan.FaultPlan = {
    answers: [
      {
        text: "Let me look.",
        toolCalls: [
          { name: "weather", params: { city: "Rome" } },
          { name: "weather", params: { city: "Oslo" } }
        ]
      },
      { text: "Sunny in both." }
    ]
  }

  it.effect("calls tools and takes their results back in a second turn", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: tools })
      const model = yield* Support.languageModel(target(server))
      const chat = yield* Chat.empty
      const turn = (prompt: string | []) =>
        chat
          .generateText({ prompt, toolkit: Weather })
          .pipe(Effect.provideService(LanguageModel.LanguageModel, model))
      const first = yield* turn("weather in Rome and Oslo?")
      assert.deepStrictEqual(
        first.toolResults.map(({ result }) => result),
        ["sunny in Rome", "sunny in Oslo"]
      )
      assert.strictEqual((yield* turn([])).text, "Sunny in both.")
      assert.lengthOf(yield* server.requests, 2)
    }).pipe(Effect.provide(WeatherLive))
  )

  it.effect("streams tool calls and takes their results back in a second turn", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: tools })
      const model = yield* Support.languageModel(target(server))
      const chat = yield* Chat.empty
      const turn = (prompt: string | []) =>
        chat
          .streamText({ prompt, toolkit: Weather })
          .pipe(Stream.runCollect, Effect.provideService(LanguageModel.LanguageModel, model))
      const first = yield* turn("weather in Rome and Oslo?")
      assert.lengthOf(
        first.filter(({ type }) => type === "tool-result"),
        2
      )
      const second = yield* turn([])
      assert.strictEqual(
        second.map((part) => (part.type === "text-delta" ? part.delta : "")).join(""),
        "Sunny in both."
      )
    }).pipe(Effect.provide(WeatherLive))
  )

  it.effect("calls a tool when toolChoice forces it", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: tools })
      const model = yield* Support.languageModel(target(server))
      const options = { prompt: "weather?", toolkit: Weather, disableToolCallResolution: true } as const
      yield* model.generateText({ ...options, toolChoice: { tool: "weather" } })
      yield* model.generateText({ ...options, toolChoice: { mode: "required", oneOf: ["weather"] } })
      yield* model.generateText({ ...options, toolChoice: { oneOf: ["weather"] } })
      const [named, required, auto] = (yield* server.requests).map(({ body }) => {
        const { tool_choice, toolConfig } = body as { tool_choice?: unknown; toolConfig?: unknown }
        return JSON.stringify(tool_choice ?? toolConfig)
      })
      assert.match(named ?? "", /"name":"weather"|"allowedFunctionNames":\["weather"\]/)
      assert.match(required ?? "", /any|required/i)
      assert.match(auto ?? "", /auto/i)
    }).pipe(Effect.provide(WeatherLive))
  )

  it.effect("sends the output limit, and reports an answer that the limit cut", () =>
    Effect.gen(function* () {
      const plan = { answers: [{ text: "one two three four ".repeat(5) }] }
      const server = yield* FakeProvider.make({ plan })
      const { parts, failure } = yield* Support.collect(target(server), "hello", { maxOutputTokens: 16 })
      assert.isUndefined(failure)
      const finish = parts.at(-1)
      assert(finish?.type === "finish")
      assert.strictEqual(finish.reason, "length")
      assert.strictEqual(Support.text(parts), "one two three four ".repeat(4).trimEnd())
    })
  )

  it.effect("sends each request with its own key and no other", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers } })
      const spec = target(server)
      for (const key of ["key-aaaa", "key-bbbb", "key-aaaa"]) {
        yield* Support.generate(spec, "hello", { key: Redacted.make(key) })
      }
      const keys = (yield* server.requests).map((request) => request.key)
      assert.deepStrictEqual(keys, ["…aaaa", "…bbbb", "…aaaa"])
    })
  )
})
