import { assert, describe, it } from "@effect/vitest"
import { Anthropic } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"
import { Effect, Schema, Stream } from "effect"
import { Chat, LanguageModel, Tool, Toolkit } from "effect/ai"
import * as Support from "./support.ts"

// The server signs thinking over the conversation before it, and refuses what was lost or changed.

const Weather = Toolkit.make(
  Tool.make("weather", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String })
)
const WeatherLive = Weather.toLayer({ weather: () => Effect.succeed("sunny") })

const plan = {
  answers: [
    { reasoning: "I need the weather.", toolCalls: [{ name: "weather", params: { city: "Rome" } }] },
    { reasoning: "It is sunny.", text: "Sunny." },
    { text: "Bye." }
  ]
}

const models = {
  "claude-sonnet-4-5": { thinking: { type: "enabled", budgetTokens: 1_024 } },
  "claude-opus-5-5": { thinking: { type: "adaptive", display: "summarized" } },
  // The thinking is not shown, its signature comes all the same.
  "claude-haiku-5-5": { thinking: { type: "adaptive", display: "omitted" } }
} as const

describe.each(Object.entries(models))("thinking of %s", (id, providerOptions) => {
  for (const streaming of [false, true]) {
    it.effect(`survives three turns, streaming ${streaming}`, () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan })
        const spec = Anthropic.model(id, { baseUrl: server.baseUrl("anthropic"), providerOptions })
        const model = yield* Support.languageModel(spec, { maxOutputTokens: 4_000 })
        const chat = yield* Chat.empty
        const say = (prompt: string | []) => {
          const options = { prompt, toolkit: Weather }
          const turn: Effect.Effect<unknown, unknown, any> = streaming
            ? Stream.runDrain(chat.streamText(options))
            : chat.generateText(options)
          return Effect.provideService(turn, LanguageModel.LanguageModel, model)
        }
        yield* say("weather in Rome?")
        yield* say([])
        yield* say("bye")
        const outcomes = (yield* server.requests).map(({ outcome }) => outcome.type)
        assert.deepStrictEqual(outcomes, ["answer", "answer", "answer"])
        const last = JSON.stringify((yield* server.requests)[2]?.body)
        assert.strictEqual(last.match(/"signature":"./g)?.length, 2)
      }).pipe(Effect.provide(WeatherLive))
    )
  }
})
