/** Conversations that are compacted repeatedly, at fake servers as strict as the real ones. */
import { assert, describe, it } from "@effect/vitest"
import { Compaction, CompactionPolicy, Failover, KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider } from "@outlast/testing"
import { Effect, Layer, Redacted, Result, Ref } from "effect"
import { Chat, LanguageModel, Tool, Toolkit } from "effect/ai"
import * as fc from "fast-check"
// oxlint-disable-next-line no-restricted-imports -- Support of tests is in no package.
import { conversation } from "../../agent/test/compaction/generated.ts"
// oxlint-disable-next-line no-restricted-imports -- As above.
import { terse, tokensOf } from "../../agent/test/compaction/support.ts"
import { Weather } from "./cases.ts"
import * as Sweeps from "../../../test/sweeps.ts"

const keys = [KeySource.value("KEY", Redacted.make("sk-0123456789abcdef"))]

interface Target {
  readonly at: (server: FakeProvider.FakeProvider) => ProviderModel.TargetSpec
  readonly bindsThinking?: boolean
}

const claude = (id: string, thinking: object, bindsThinking: boolean): Target => ({
  bindsThinking,
  at: (server) =>
    // The type of this option depends on the model.
    Anthropic.model(id, {
      keys,
      baseUrl: server.baseUrl("anthropic"),
      providerOptions: { thinking } as object
    })
})

const targets: Readonly<Record<string, Target>> = {
  "claude-sonnet-4-5, thinking": claude("claude-sonnet-4-5", { type: "enabled", budgetTokens: 1_024 }, false),
  "claude-opus-4-6": claude("claude-opus-4-6", { type: "adaptive", display: "summarized" }, false),
  "claude-opus-5-5, which binds its thinking": claude(
    "claude-opus-5-5",
    { type: "adaptive", display: "summarized" },
    true
  ),
  "claude-sonnet-5-5, which binds its thinking": claude(
    "claude-sonnet-5-5",
    { type: "adaptive", display: "omitted" },
    true
  ),
  "gpt-4o in chat": {
    at: (server) => OpenAi.chatModel("gpt-4o", { keys, baseUrl: server.baseUrl("openai") })
  },
  "gpt-5": { at: (server) => OpenAi.model("gpt-5", { keys, baseUrl: server.baseUrl("openai") }) },
  "gpt-5 that stores": {
    at: (server) =>
      OpenAi.model("gpt-5", { keys, baseUrl: server.baseUrl("openai"), providerOptions: { store: true } })
  },
  "gemini-2.5-flash": {
    at: (server) => Google.model("gemini-2.5-flash", { keys, baseUrl: server.baseUrl("google") })
  },
  "gemini-3-flash": {
    at: (server) =>
      Google.model("gemini-3-flash", {
        keys,
        baseUrl: server.baseUrl("google"),
        providerOptions: { thinkingConfig: { includeThoughts: true } }
      })
  },
  compatible: {
    at: (server) =>
      OpenAiCompatible.model({ keys, name: "local", model: "qwen3", baseUrl: server.baseUrl("openai") })
  }
}

const policies: Readonly<Record<string, CompactionPolicy.CompactionPolicy>> = {
  defaults: CompactionPolicy.defaults,
  "strip first": { ...CompactionPolicy.defaults, tiers: ["strip", "plain"] },
  half: { ...CompactionPolicy.defaults, tiers: ["half", "chunks"] },
  "plain, and a tail of tokens": { ...CompactionPolicy.tokenTail(200), tiers: ["plain"] }
}

const long = (word: string) => `${word} `.repeat(60).trim()

/** Every question begins a loop of three turns, with two calls each and long results. */
const plan: FaultPlan.FaultPlan = {
  answers: ({ messages }) => {
    const asked = messages.findLastIndex(({ role }) => role === "user")
    const turns = messages.slice(asked).filter(({ role }) => role === "assistant").length
    const calls = [`Rome ${turns}`, long(`Oslo ${messages.length}`)]
    return turns < 3
      ? {
          reasoning: `I look for the ${messages.length}th time.`,
          text: "Let me look.",
          toolCalls: calls.map((city) => ({ name: "weather", params: { city } }))
        }
      : { reasoning: "Enough.", text: `Sunny, ${messages.length}.` }
  }
}

const WeatherLive = Weather.toLayer({
  weather: ({ city }) => Effect.succeed(long(`sunny in ${city.slice(0, 12)}`))
})
/** Every policy with every target. The part of them has each target and each policy. */
const pairs = Sweeps.everyNth(
  3,
  Object.entries(targets).flatMap(([target, { at, bindsThinking = false }]) =>
    Object.entries(policies).map(([name, policy]) => ({ target, at, bindsThinking, name, policy }))
  )
)

describe("a conversation", () => {
  it.effect.each(pairs)(
    "with $target is accepted after every compaction, policy: $name",
    ({ at, bindsThinking, policy }) =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan })
        const { options: summariser } = yield* terse()
        const chat = yield* Chat.empty
        let compactions = 0
        yield* Effect.gen(function* () {
          for (let turn = 0; turn < 24; turn++) {
            const { report } = yield* Compaction.chat(chat, { window: 3_000, bindsThinking })
            if (report.tier !== "none") compactions++
            const last = (yield* Ref.get(chat.history)).content.at(-1)
            yield* chat.generateText({
              prompt: last?.role === "tool" ? [] : `Question ${turn}?`,
              toolkit: Weather
            })
          }
        }).pipe(
          Effect.provide(Layer.fresh(Failover.layer([at(server)]))),
          Effect.provide(
            Compaction.layer({
              summariser,
              // A small window fills up again soon.
              policy: { ...policy, thrash: { ...CompactionPolicy.defaults.thrash } }
            })
          )
        )
        for (const { outcome } of yield* server.requests) assert.strictEqual(outcome.type, "answer")
        assert.isAtLeast(compactions, 3)
      }).pipe(Effect.provide(WeatherLive), Effect.scoped)
  )
})

describe.each(Object.entries(targets))("a conversation with %s", (_, { at, bindsThinking = false }) => {
  it.effect("of any model is accepted (openclaw/openclaw#8525, earendil-works/pi#4570)", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: () => ({ text: "yes" }) } })
      // Requests with calls in their history must offer tools.
      const Search = Toolkit.make(Tool.make("search"), Tool.make("read_file"))
      let sent = 0
      let compacted = 0
      for (const [i, prompt] of fc.sample(conversation, { numRuns: Sweeps.runs(30), seed: 7 }).entries()) {
        const { options: summariser } = yield* terse()
        const window = Math.max(600, Math.floor(tokensOf(prompt) * 0.9))
        const compaction = yield* Compaction.make({ summariser: i % 2 === 0 ? summariser : undefined })
        const fitted = yield* Effect.result(compaction.fit(prompt, { window, bindsThinking }))
        if (Result.isFailure(fitted)) continue
        sent++
        if (fitted.success.report.tier !== "none") compacted++
        yield* Effect.ignore(
          LanguageModel.generateText({
            prompt: fitted.success.prompt,
            toolkit: Search,
            disableToolCallResolution: true
          })
        ).pipe(Effect.provide(Failover.layer([at(server)])))
        const last = (yield* server.requests).at(-1)
        assert.strictEqual(last?.outcome.type, "answer", JSON.stringify(last))
      }
      assert.lengthOf(yield* server.requests, sent)
      assert.isAtLeast(compacted, Sweeps.runs(10))
    }).pipe(Effect.scoped)
  )
})
