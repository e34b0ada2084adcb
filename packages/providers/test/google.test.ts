import { assert, describe, it } from "@effect/vitest"
import { Google } from "@outlast/providers"
import { Effect, Schema, Stream } from "effect"
import { Chat, LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import * as Support from "./support.ts"

const Weather = Toolkit.make(
  Tool.make("weather", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String })
)
const WeatherLive = Weather.toLayer({ weather: () => Effect.succeed("sunny") })

const chunk = (parts: ReadonlyArray<object>, finishReason?: string) => ({
  candidates: [{ content: { role: "model", parts }, index: 0, ...(finishReason && { finishReason }) }],
  usageMetadata: {
    promptTokenCount: 100,
    cachedContentTokenCount: 60,
    candidatesTokenCount: 8,
    thoughtsTokenCount: 12,
    totalTokenCount: 120
  },
  modelVersion: "gemini-3-flash",
  responseId: "r1"
})
const calls = [
  { functionCall: { name: "weather", args: { city: "Rome" } }, thoughtSignature: "sig-call" },
  { functionCall: { name: "weather", args: { city: "Oslo" } } }
]
const target = (server: Support.Server) => Google.model("gemini-3-flash", { baseUrl: `${server.url}/v1beta` })

describe("Gemini", () => {
  for (const streaming of [false, true]) {
    it.effect(`sends signatures back at their place, streaming ${streaming}`, () =>
      Effect.gen(function* () {
        const server = yield* Support.serve((response, _, n) => {
          const turns = [
            [chunk([{ text: "Let me " }]), chunk([{ text: "look." }, ...calls], "STOP")],
            // The signature follows the text, in a part without text.
            [
              chunk([{ text: "Sunny " }]),
              chunk([{ text: "in both." }]),
              chunk([{ text: "", thoughtSignature: "sig-text" }], "STOP")
            ],
            [chunk([{ text: "Bye." }], "STOP")]
          ]
          const turn = turns[n] ?? []
          if (streaming) return Support.sse(response, turn)
          const parts = turn.flatMap((part) => part.candidates[0]?.content.parts ?? [])
          Support.json(response, chunk(parts, "STOP"))
        })
        const model = yield* Support.languageModel(target(server))
        const chat = yield* Chat.empty
        const say = (prompt: string | []) => {
          const options = { prompt, toolkit: Weather }
          const turn: Effect.Effect<unknown, unknown, any> = streaming
            ? Stream.runDrain(chat.streamText(options))
            : chat.generateText(options)
          return Effect.provideService(turn, LanguageModel.LanguageModel, model)
        }
        yield* say("weather?")
        yield* say([])
        yield* say("bye")
        const contents: ReadonlyArray<any> = server.hits[2]?.body.contents
        assert.deepStrictEqual(
          contents.map(({ role }) => role),
          ["user", "model", "user", "model", "user"]
        )
        const parts: ReadonlyArray<any> = contents[1].parts
        const call = parts.find(({ functionCall }) => functionCall !== undefined)
        assert.strictEqual(call.thoughtSignature, "sig-call")
        assert.lengthOf(contents[2].parts, 2)
        const signed = contents[3].parts.filter((part: any) => part.thoughtSignature === "sig-text")
        assert.lengthOf(signed, 1)
      }).pipe(Effect.provide(WeatherLive))
    )
  }

  it.effect("counts thoughts and cached input", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) =>
        Support.json(response, chunk([{ text: "hi" }], "STOP"))
      )
      const model = yield* Support.languageModel(target(server))
      const { usage } = yield* model.generateText({ prompt: "hello" })
      assert.deepInclude(usage.inputTokens, { total: 100, cacheRead: 60 })
      assert.deepInclude(usage.outputTokens, { total: 20, reasoning: 12 })
    })
  )

  it.effect("puts results from several tool messages into one content", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) =>
        Support.json(response, chunk([{ text: "hi" }], "STOP"))
      )
      const result = (id: string) =>
        Prompt.makeMessage("tool", {
          content: [
            Prompt.makePart("tool-result", {
              id,
              name: "weather",
              isFailure: false,
              result: "sunny",
              providerExecuted: false
            })
          ]
        })
      const call = (id: string) =>
        Prompt.makePart("tool-call", { id, name: "weather", params: {}, providerExecuted: false })
      const prompt = Prompt.fromMessages([
        Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "weather?" })] }),
        Prompt.makeMessage("assistant", { content: [call("a"), call("b")] }),
        result("a"),
        result("b")
      ])
      yield* Support.generate(target(server), prompt)
      const contents: ReadonlyArray<any> = server.hits[0]?.body.contents
      assert.lengthOf(contents, 3)
      assert.lengthOf(contents[2].parts, 2)
    })
  )

  it.effect("classifies an error in the stream, and a stream without its end", () =>
    Effect.gen(function* () {
      const error = { code: 503, message: "The model is overloaded.", status: "UNAVAILABLE" }
      const server = yield* Support.serve((response, _, n) =>
        Support.sse(response, n === 0 ? [chunk([{ text: "Let" }]), { error }] : [chunk([{ text: "Let" }])])
      )
      const failed = yield* Support.collect(target(server))
      assert.strictEqual(failed.failure?.reason._tag, "Overloaded")
      const cut = yield* Support.collect(target(server))
      assert.strictEqual(cut.failure?.evidence.rule, "stream/cut")
      assert.strictEqual(Support.text(cut.parts), "Let")
    })
  )

  it.effect("refuses before sending what the client cannot express", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, {}))
      const failure = yield* Effect.flip(
        Support.generate(target(server), [
          { role: "user", content: "hello" },
          { role: "system", content: "late" },
          { role: "user", content: "hello" }
        ])
      )
      assert.deepInclude(failure.reason, { _tag: "Format", side: "request" })
      assert.lengthOf(server.hits, 0)
    })
  )
})
