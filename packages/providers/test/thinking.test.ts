import { assert, describe, it } from "@effect/vitest"
import type { ProviderModel } from "@outlast/agent"
import { AiSdk, Anthropic, Google, OpenAi } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"
import { Effect, Redacted, Ref, Stream } from "effect"
import { Chat, LanguageModel } from "effect/ai"
import { Weather } from "./cases.ts"
import * as Support from "./support.ts"

// The servers sign and encrypt what the models think, and refuse what was lost or changed.

const WeatherLive = Weather.toLayer({ weather: () => Effect.succeed("sunny") })

const plan = {
  answers: [
    {
      reasoning: "I need the weather.",
      toolCalls: [
        { name: "weather", params: { city: "Rome" } },
        { name: "weather", params: { city: "Oslo" } }
      ]
    },
    { reasoning: "And once more.", toolCalls: [{ name: "weather", params: { city: "Bonn" } }] },
    { reasoning: "It is sunny.", text: "Sunny." },
    { text: "Bye." }
  ]
}

interface Case {
  readonly target: (server: FakeProvider.FakeProvider) => ProviderModel.TargetSpec
  /** Matches the reasoning of each earlier answer in the last request. */
  readonly carried: RegExp
  /** Number of matches. */
  readonly times: number
}

const claude = (id: string, thinking: object): Case => ({
  target: (server) =>
    Anthropic.model(id, { baseUrl: server.baseUrl("anthropic"), providerOptions: { thinking } as object }),
  carried: /"signature":"./g,
  times: 3
})

const gemini = (id: string, times: number): Case => ({
  target: (server) =>
    Google.model(id, {
      baseUrl: server.baseUrl("google"),
      providerOptions: { thinkingConfig: { includeThoughts: true } }
    }),
  carried: /"thoughtSignature":"(?!skip)/g,
  times
})

const gpt = (id: string, times: number, providerOptions: object = {}): Case => ({
  target: (server) => OpenAi.model(id, { baseUrl: server.baseUrl("openai"), providerOptions }),
  carried: times === 0 ? /"type":"item_reference","id":"rs_/g : /"encrypted_content":"./g,
  times: times === 0 ? 3 : times
})

const models: Record<string, Case> = {
  "claude-sonnet-4-5": claude("claude-sonnet-4-5", { type: "enabled", budgetTokens: 1_024 }),
  "claude-opus-5-5": claude("claude-opus-5-5", { type: "adaptive", display: "summarized" }),
  // The thinking is not shown, its signature comes all the same.
  "claude-haiku-5-5": claude("claude-haiku-5-5", { type: "adaptive", display: "omitted" }),
  "gemini-3-flash": gemini("gemini-3-flash", 3),
  // Signs nothing, and demands nothing.
  "gemini-2.5-flash": gemini("gemini-2.5-flash", 0),
  "gpt-5": gpt("gpt-5", 3),
  "gpt-5 that stores": gpt("gpt-5", 0, { store: true })
}

describe.each(Object.entries(models))("thinking of %s", (_, { target, carried, times }) => {
  for (const streaming of [false, true]) {
    it.effect(`survives four turns, streaming ${streaming}`, () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan })
        const model = yield* Support.languageModel(target(server), { maxOutputTokens: 4_000 })
        const chat = yield* Chat.empty
        const say = (prompt: string | []) => {
          const options = { prompt, toolkit: Weather }
          const turn: Effect.Effect<unknown, unknown, any> = streaming
            ? Stream.runDrain(chat.streamText(options))
            : chat.generateText(options)
          return Effect.provideService(turn, LanguageModel.LanguageModel, model)
        }
        yield* say("weather in Rome and Oslo?")
        yield* say([])
        yield* say([])
        yield* say("bye")
        const requests = yield* server.requests
        assert.deepStrictEqual(
          requests.map(({ outcome }) => outcome.type),
          ["answer", "answer", "answer", "answer"]
        )
        assert.strictEqual(JSON.stringify(requests[3]?.body).match(carried)?.length ?? 0, times)
      }).pipe(Effect.provide(WeatherLive))
    )
  }
})

describe("thinking that another organisation made", () => {
  it.effect("is refused by Responses", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan, organisation: (key) => key })
      const spec = OpenAi.model("gpt-5", { baseUrl: server.baseUrl("openai") })
      const chat = yield* Chat.empty
      const model = yield* Support.languageModel(spec)
      yield* chat
        .generateText({ prompt: "weather?", toolkit: Weather })
        .pipe(Effect.provideService(LanguageModel.LanguageModel, model))
      const prompt = yield* Ref.get(chat.history)
      const other = { key: Redacted.make("sk-other-0123456789abcdef") }
      const failure = yield* Effect.flip(Support.generate(spec, prompt, other))
      assert.deepInclude(failure.reason, { _tag: "Format", side: "request" })
      const [, refused] = yield* server.requests
      assert.deepInclude(refused?.outcome, { type: "refused", rule: "encrypted-content" })
    }).pipe(Effect.provide(WeatherLive))
  )
})

describe("a target", () => {
  const claude = (options: Anthropic.Options, model = "claude-sonnet-4-5") => Anthropic.model(model, options)
  const on = { providerOptions: { thinking: { type: "enabled", budgetTokens: 2_000 } } } as const
  const off = { providerOptions: { thinking: { type: "disabled" } } } as const
  const bedrock = (options: object): ProviderModel.TargetSpec =>
    AiSdk.model({
      provider: "bedrock",
      model: "us.anthropic.claude-sonnet-4-5",
      providerOptions: { bedrock: { ...options } },
      create: () => assert.fail("No request is sent.")
    })

  /** Cases by title: the target, and true if it gets the longer time limits of a reasoning model. */
  const cases: Record<string, readonly [ProviderModel.TargetSpec, boolean | undefined]> = {
    "of Claude 4.5 does not think unasked": [claude({}), false],
    "of Claude 4.6 does not think unasked": [claude({}, "claude-opus-4-6"), false],
    "of Claude 4.5 thinks with a budget": [claude(on), true],
    "of Claude 4.5 thinks with an effort": [claude({ settings: { reasoning: "high" } }), true],
    "of Claude 4.5 does not think with the effort none": [claude({ settings: { reasoning: "none" } }), false],
    "of Claude 4.5 thinks where its info says so": [claude({ info: { reasoning: true } }), true],
    "of Claude 4.5 at another vendor does not think unasked": [bedrock({}), false],
    "of Claude 4.5 at another vendor thinks when asked": [
      bedrock({ reasoningConfig: { type: "enabled" } }),
      true
    ],
    "of a Claude that adapts its thinking thinks": [claude({}, "claude-sonnet-5"), true],
    "of a Claude that adapts its thinking does not think when told so": [
      claude(off, "claude-sonnet-5"),
      false
    ],
    "of GPT-5 thinks": [OpenAi.model("gpt-5"), true],
    "of GPT-5 does not think with the effort none": [
      OpenAi.model("gpt-5", { providerOptions: { reasoningEffort: "none" } }),
      false
    ],
    "of GPT-4.1 never thinks": [
      OpenAi.model("gpt-4.1", { providerOptions: { reasoningEffort: "high" } }),
      false
    ],
    "of an unknown model has nothing said about thinking": [OpenAi.model("house-model"), undefined]
  }
  for (const [name, [target, reasoning]] of Object.entries(cases)) {
    it.effect(name, () =>
      Effect.map(Effect.scoped(target.build), ({ info }) => assert.strictEqual(info.reasoning, reasoning))
    )
  }
})
