/** A tool whose name one provider accepts and another refuses, at fake servers as strict as the real ones. */
import { createAnthropic } from "@ai-sdk/anthropic"
import { assert, describe, it } from "@effect/vitest"
import { Dialect, ToolNames } from "@outlast/agent/conversation"
import { Failover, KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { AiSdk, Anthropic, Dialects, Google, OpenAi } from "@outlast/providers"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider } from "@outlast/testing"
import { Effect, Layer, Redacted, Ref, Schema, Stream } from "effect"
import { Chat, LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"

const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789"))]
const claude = (server: FakeProvider.FakeProvider) =>
  Anthropic.model("claude-sonnet-4-5", { keys, baseUrl: server.baseUrl("anthropic") })
const gpt = (server: FakeProvider.FakeProvider) =>
  OpenAi.model("gpt-5", { keys, baseUrl: server.baseUrl("openai") })
const gemini = (server: FakeProvider.FakeProvider) =>
  Google.model("gemini-2.5-flash", { keys, baseUrl: server.baseUrl("google") })

const Kit = Toolkit.make(
  Tool.make("weather.get", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String })
)

/** The name at Anthropic and OpenAI, which refuse dots. */
const theirs = ToolNames.of(Object.values(Kit.tools), Dialect.defaults)?.there.get("weather.get") ?? ""

/** The name of the tool in each request. */
const offered = (server: FakeProvider.FakeProvider) =>
  Effect.map(server.requests, (all) =>
    all.map(({ body }) => /"name":"((?:tool_)?weather[^"]*)"/.exec(JSON.stringify(body))?.[1] ?? "")
  )

describe("a tool whose name only some providers accept", () => {
  for (const streaming of [false, true]) {
    it.effect(`is called at each of them, and runs once per call, streaming ${streaming}`, () =>
      Effect.gen(function* () {
        const call = (as: string): FaultPlan.Answer => ({
          toolCalls: [{ name: as, params: { city: "Rome" } }]
        })
        const plan: FaultPlan.FaultPlan = {
          answers: ({ turn }) => [call("weather.get"), call(theirs), call(theirs)][turn] ?? { text: "Sunny." }
        }
        const server = yield* FakeProvider.make({ plan })
        const ran = yield* Ref.make(0)
        const Handlers = Kit.toLayer({
          "weather.get": () =>
            Effect.as(
              Ref.update(ran, (n) => n + 1),
              "sunny"
            )
        })
        const chat = yield* Chat.empty
        const asked = (prompt: Prompt.RawInput) =>
          Effect.gen(function* () {
            if (streaming) yield* Stream.runDrain(chat.streamText({ prompt, toolkit: Kit }))
            else yield* chat.generateText({ prompt, toolkit: Kit })
          })
        const turn = (target: ProviderModel.TargetSpec, prompt: Prompt.RawInput) =>
          Effect.provide(asked(prompt), Layer.merge(Failover.layer([target]), Handlers))
        yield* turn(gemini(server), "Rome?")
        yield* turn(claude(server), Prompt.empty)
        yield* turn(gpt(server), Prompt.empty)
        yield* turn(gemini(server), Prompt.empty)
        assert.strictEqual(yield* Ref.get(ran), 3)
        assert.deepStrictEqual(
          (yield* server.requests).map(({ outcome }) => outcome.type),
          ["answer", "answer", "answer", "answer"]
        )
        assert.deepStrictEqual(yield* offered(server), ["weather.get", theirs, theirs, "weather.get"])
        const said = (yield* Ref.get(chat.history)).content.flatMap(({ content }) =>
          typeof content === "string" ? [] : content.flatMap((part) => ("name" in part ? [part.name] : []))
        )
        assert.deepStrictEqual(new Set(said), new Set(["weather.get"]))
      })
    )
  }
})

describe("a dialect of this package with a custom client", () => {
  it.effect("adapts the conversation to its wire format", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [{ text: "To be, or not to be." }] } })
      const model = "claude-sonnet-4-5"
      const roles = (info: AiSdk.Options["info"]) =>
        Effect.gen(function* () {
          const target = AiSdk.model({
            provider: "gateway",
            model,
            info,
            create: () => createAnthropic({ apiKey: "any", baseURL: server.baseUrl("anthropic") })(model)
          })
          const prompt = Prompt.make([
            { role: "user", content: [{ type: "text", text: "Hamlet?" }] },
            { role: "assistant", content: [{ type: "text", text: "To be" }] }
          ])
          yield* Effect.provide(LanguageModel.generateText({ prompt }), Failover.layer([target]))
          const sent = JSON.stringify((yield* server.requests).at(-1)?.body)
          return Array.from(sent.matchAll(/"role":"(\w+)"/g), ([, role]) => role)
        })
      assert.deepStrictEqual(yield* roles({ dialect: Dialects.anthropic(model, { prefill: true }) }), [
        "user",
        "assistant"
      ])
      // An unknown provider gets only forms that all accept.
      assert.deepStrictEqual(yield* roles(undefined), ["user", "assistant", "user"])
    })
  )
})
