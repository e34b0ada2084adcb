import { assert, describe, it } from "@effect/vitest"
import { OpenAi } from "@outlast/providers"
import { Effect, Schema, Stream } from "effect"
import { Chat, LanguageModel, Tool, Toolkit } from "effect/ai"
import * as Support from "./support.ts"

const Weather = Toolkit.make(
  Tool.make("weather", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String })
)
const WeatherLive = Weather.toLayer({ weather: () => Effect.succeed("sunny") })

const base = { id: "resp_1", object: "response", created_at: 1_790_000_000, model: "gpt-5" }
const usage = {
  input_tokens: 100,
  input_tokens_details: { cached_tokens: 60, cache_write_tokens: 0 },
  output_tokens: 20,
  output_tokens_details: { reasoning_tokens: 12 },
  total_tokens: 120
}
const reasoning = (encrypted_content: string) => ({
  type: "reasoning",
  id: "rs_1",
  summary: [{ type: "summary_text", text: "thinking" }],
  encrypted_content
})
const call = {
  type: "function_call",
  id: "fc_1",
  call_id: "call_1",
  name: "weather",
  arguments: '{"city":"Rome"}',
  status: "completed"
}
const message = {
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "Sunny.", annotations: [] }]
}
const completed = (output: ReadonlyArray<object>) => ({
  ...base,
  status: "completed",
  error: null,
  incomplete_details: null,
  output,
  usage
})

const toolStream = [
  { type: "response.created", sequence_number: 0, response: { ...base, status: "in_progress", output: [] } },
  {
    type: "response.output_item.added",
    output_index: 0,
    item: { ...reasoning("provisional"), summary: [] }
  },
  { type: "response.reasoning_summary_part.added", item_id: "rs_1", output_index: 0, summary_index: 0 },
  {
    type: "response.reasoning_summary_text.delta",
    item_id: "rs_1",
    output_index: 0,
    summary_index: 0,
    delta: "thinking"
  },
  { type: "response.output_item.done", output_index: 0, item: reasoning("final") },
  { type: "response.output_item.added", output_index: 1, item: { ...call, arguments: "" } },
  {
    type: "response.function_call_arguments.delta",
    item_id: "fc_1",
    output_index: 1,
    delta: call.arguments
  },
  {
    type: "response.function_call_arguments.done",
    item_id: "fc_1",
    output_index: 1,
    arguments: call.arguments
  },
  { type: "response.output_item.done", output_index: 1, item: call },
  { type: "response.completed", response: completed([reasoning("final"), call]) }
]

describe("OpenAI Responses", () => {
  for (const streaming of [false, true]) {
    it.effect(`sends encrypted reasoning back and stores nothing, streaming ${streaming}`, () =>
      Effect.gen(function* () {
        const server = yield* Support.serve((response, _, n) => {
          if (n > 0) return Support.json(response, completed([message]))
          if (streaming) return Support.sse(response, toolStream)
          return Support.json(response, completed([reasoning("final"), call]))
        })
        const model = yield* Support.languageModel(OpenAi.model("gpt-5", { baseUrl: `${server.url}/v1` }))
        const chat = yield* Chat.empty
        const options = { prompt: "weather in Rome?", toolkit: Weather }
        const first: Effect.Effect<unknown, unknown, any> = streaming
          ? Stream.runDrain(chat.streamText(options))
          : chat.generateText(options)
        yield* Effect.provideService(first, LanguageModel.LanguageModel, model)
        const second = yield* chat
          .generateText({ prompt: [], toolkit: Weather })
          .pipe(Effect.provideService(LanguageModel.LanguageModel, model))
        assert.strictEqual(second.text, "Sunny.")
        assert.deepInclude(second.usage.inputTokens, { total: 100, cacheRead: 60 })
        assert.strictEqual(second.usage.outputTokens.reasoning, 12)
        const [, hit] = server.hits
        assert.strictEqual(hit?.body.store, false)
        assert.deepStrictEqual(hit?.body.include, ["reasoning.encrypted_content"])
        const input: ReadonlyArray<any> = hit?.body.input
        const kinds = input.map((item) => item.type ?? item.role)
        assert.deepStrictEqual(kinds, ["user", "reasoning", "function_call", "function_call_output"])
        assert.strictEqual(input[1].encrypted_content, "final")
        assert.strictEqual(input[2].call_id, "call_1")
        assert.lengthOf(server.hits, 2)
      }).pipe(Effect.provide(WeatherLive))
    )
  }

  it.effect("fails on response.failed after some output", () =>
    Effect.gen(function* () {
      const error = { code: "server_error", message: "The server had an error." }
      const server = yield* Support.serve((response) =>
        Support.sse(response, [
          ...toolStream.slice(0, 5),
          {
            type: "response.failed",
            sequence_number: 9,
            response: { ...completed([]), status: "failed", error }
          }
        ])
      )
      const { parts, failure } = yield* Support.collect(
        OpenAi.model("gpt-5", { baseUrl: `${server.url}/v1` })
      )
      assert.strictEqual(failure?.reason._tag, "ServerError")
      assert.isUndefined(parts.find(({ type }) => type === "error" || type === "finish"))
    })
  )

  const errors = {
    "as the API sends it": { code: "server_error", message: "The server had an error." },
    "with a type": { type: "server_error", code: "server_error", message: "The server had an error." }
  }
  for (const [how, error] of Object.entries(errors)) {
    it.effect(`fails on a 200 that failed, ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* Support.serve((response) =>
          Support.json(response, { ...completed([]), status: "failed", error })
        )
        const failure = yield* Effect.flip(
          Support.generate(OpenAi.model("gpt-5", { baseUrl: `${server.url}/v1` }))
        )
        assert.strictEqual(failure.reason._tag, "ServerError")
      })
    )
  }

  it.effect("fails with Network when the stream ends without its terminal event", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.sse(response, toolStream.slice(0, -1)))
      const { failure } = yield* Support.collect(OpenAi.model("gpt-5", { baseUrl: `${server.url}/v1` }))
      assert.strictEqual(failure?.evidence.rule, "stream/cut")
    })
  )

  it.effect("asks for strict schemas only where they can be strict", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) =>
        Support.json(
          response,
          completed([{ ...message, content: [{ type: "output_text", text: '{"a":1}', annotations: [] }] }])
        )
      )
      const model = yield* Support.languageModel(OpenAi.model("gpt-5", { baseUrl: `${server.url}/v1` }))
      const whole = Schema.Struct({ a: Schema.Finite })
      const partly = Schema.Struct({ a: Schema.Finite, b: Schema.optionalKey(Schema.String) })
      assert.deepStrictEqual((yield* model.generateObject({ prompt: "?", schema: whole })).value, { a: 1 })
      assert.deepStrictEqual((yield* model.generateObject({ prompt: "?", schema: partly })).value, { a: 1 })
      const formats = server.hits.map(({ body }) => body.text.format)
      assert.deepStrictEqual(
        formats.map(({ strict }) => strict),
        [true, false]
      )
      assert.strictEqual(formats[0].schema.additionalProperties, false)
    })
  )
})
