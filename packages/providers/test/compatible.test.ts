import { assert, describe, it } from "@effect/vitest"
import { Dialects, OpenAiCompatible } from "@outlast/providers"
import { Effect, Schema } from "effect"
import type { Prompt } from "effect/ai"
import { Tool } from "effect/ai"
import * as Support from "./support.ts"

const target = (server: Support.Server, options: Partial<OpenAiCompatible.Options> = {}) =>
  OpenAiCompatible.model({ name: "local", baseUrl: `${server.url}/v1`, model: "m", ...options })

const chunk = (delta: object, finish_reason: string | null = null) => ({
  id: "c1",
  object: "chat.completion.chunk",
  created: 1_790_000_000,
  model: "m",
  choices: [{ index: 0, delta, finish_reason }]
})
const completion = (message: object, finish_reason = "stop") => ({
  id: "c1",
  object: "chat.completion",
  created: 1_790_000_000,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
})
const toolCall = (args: string) => ({
  tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: args } }]
})
const tools = [Tool.make("weather", { parameters: Schema.Struct({ city: Schema.String }) })]

describe("OpenAI-compatible servers", () => {
  it.effect("need no key, and are asked for the usage of a stream", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) =>
        Support.sse(response, [
          chunk({ content: "hi" }),
          chunk({}, "stop"),
          { ...chunk({}), choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } },
          "[DONE]"
        ])
      )
      const spec = target(server)
      assert.deepStrictEqual(spec.keys, [])
      const { parts, failure } = yield* Support.collect(spec, "hello", { key: undefined })
      assert.isUndefined(failure)
      const finish = parts.at(-1)
      assert(finish?.type === "finish")
      assert.strictEqual(finish.usage.inputTokens.total, 3)
      assert.isUndefined(server.hits[0]?.headers.authorization)
      assert.deepStrictEqual(server.hits[0]?.body.stream_options, { include_usage: true })
    })
  )

  it.effect("get tools without `$schema` (QwenLM/qwen-code#1186)", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) =>
        Support.sse(response, [chunk({ content: "hi" }, "stop")])
      )
      const schema = {
        $schema: "http://json-schema.org/draft-07/schema#",
        type: "object",
        properties: { city: { type: "string" } }
      }
      const tool = Tool.dynamic("weather", { parameters: schema as never })
      yield* Support.collect(target(server), "hello", { tools: [tool] })
      assert.deepStrictEqual(server.hits[0]?.body.tools[0].function.parameters, {
        type: "object",
        properties: { city: { type: "string" } }
      })
    })
  )

  it("refuse, accept or require thinking, by server and model", () => {
    const { compatible } = Dialects
    const thinking = (model: string, endpoint: string) => compatible(model, {}, endpoint).thinking
    assert.strictEqual(thinking("gpt-oss-120b", "https://api.cerebras.ai/v1"), "none")
    assert.strictEqual(thinking("qwen/qwen3-32b", "https://api.groq.com/openai/v1"), "none")
    assert.strictEqual(thinking("deepseek-v4-pro", "https://api.deepseek.com"), "required")
    assert.strictEqual(thinking("moonshotai/kimi-k2.5", "https://openrouter.ai/api/v1"), "required")
    assert.strictEqual(thinking("llama3", "http://localhost:11434/v1"), "plain")
  })

  it.effect("are not asked for usage when streamUsage is false", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) =>
        Support.sse(response, [chunk({ content: "hi" }, "stop")])
      )
      const { failure } = yield* Support.collect(target(server, { streamUsage: false }))
      assert.isUndefined(failure)
      assert.isUndefined(server.hits[0]?.body.stream_options)
    })
  )

  it.effect("fail with Network when the stream ends without a finish", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.sse(response, [chunk({ content: "hi" })]))
      const { parts, failure } = yield* Support.collect(target(server))
      assert.strictEqual(failure?.reason._tag, "Network")
      assert.strictEqual(failure?.evidence.rule, "stream/cut")
      assert.strictEqual(Support.text(parts), "hi")
    })
  )

  for (const finish of ["tool_calls", "stop", "length", "content_filter"] as const) {
    it.effect(`keep the text of arguments that are not JSON when the finish is ${finish}`, () =>
      Effect.gen(function* () {
        const server = yield* Support.serve((response, hit) =>
          hit.body.stream === true
            ? Support.sse(response, [chunk(toolCall('{"city":"Ro')), chunk({}, finish)])
            : Support.json(response, completion({ content: null, ...toolCall('{"city":"Ro') }, finish))
        )
        const { parts, failure } = yield* Support.collect(target(server), "hello", { tools })
        assert.isUndefined(failure)
        const whole = yield* Support.generate(target(server), "hello", { tools })
        for (const all of [parts, whole]) {
          const call = all.find((part) => part.type === "tool-call")
          assert.strictEqual(call?.params, '{"city":"Ro')
        }
      })
    )
  }

  it.effect("read empty arguments as no arguments", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) =>
        Support.json(response, completion({ content: null, ...toolCall("") }, "tool_calls"))
      )
      const parts = yield* Support.generate(target(server), "hello", { tools })
      const call = parts.find((part) => part.type === "tool-call")
      assert.deepStrictEqual(call?.params, {})
    })
  )

  it.effect("get a schema in the request, or in the prompt if structuredOutputs is false", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) =>
        Support.json(response, completion({ content: '{"city":"Rome"}' }))
      )
      const schema = Schema.Struct({ city: Schema.String })
      const ask = (structuredOutputs: boolean) =>
        Effect.flatMap(Support.languageModel(target(server, { structuredOutputs })), (model) =>
          model.generateObject({ prompt: "which?", schema })
        )
      assert.deepStrictEqual((yield* ask(true)).value, { city: "Rome" })
      assert.deepStrictEqual((yield* ask(false)).value, { city: "Rome" })
      const [native, prompted] = server.hits.map(({ body }) => body)
      assert.strictEqual(native.response_format.type, "json_schema")
      assert.strictEqual(native.response_format.json_schema.strict, true)
      assert.lengthOf(native.messages, 1)
      const optional = Schema.Struct({ city: Schema.String, people: Schema.optionalKey(Schema.Finite) })
      const model = yield* Support.languageModel(target(server))
      yield* model.generateObject({ prompt: "which?", schema: optional })
      assert.strictEqual(server.hits[2]?.body.response_format.json_schema.strict, false)
      assert.strictEqual(prompted.response_format.type, "json_object")
      assert.match(prompted.messages[0].content, /JSON Schema:\n\{.*"city"/)
    })
  )

  it.effect("get the files of a tool result in a user message after the results", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, completion({ content: "ok" })))
      const prompt: Prompt.RawInput = [
        { role: "user", content: "look" },
        { role: "assistant", content: [{ type: "tool-call", id: "a", name: "look", params: {} }] },
        {
          role: "tool",
          content: [
            {
              type: "tool-result",
              id: "a",
              name: "look",
              isFailure: false,
              result: {},
              modelOutput: [
                { type: "text", text: "a picture" },
                { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2, 3]) }
              ]
            }
          ]
        }
      ]
      yield* Support.generate(target(server), prompt)
      const messages: ReadonlyArray<any> = server.hits[0]?.body.messages
      assert.deepStrictEqual(
        messages.map(({ role }) => role),
        ["user", "assistant", "tool", "user"]
      )
      assert.strictEqual(messages[2].content, "a picture\n[image/png omitted]")
      assert.strictEqual(messages[3].content[1].image_url.url, "data:image/png;base64,AQID")
    })
  )

  it.effect("get provider options in the body, and sampling settings", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, completion({ content: "ok" })))
      const spec = target(server, { providerOptions: { top_k: 3 }, settings: { temperature: 0.5, seed: 7 } })
      yield* Support.generate(spec)
      assert.deepInclude(server.hits[0]?.body, { top_k: 3, temperature: 0.5, seed: 7 })
    })
  )
})
