/** Requests respect the catalogue's capabilities of a model, whatever its client would send. */
import { assert, describe, it } from "@effect/vitest"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { Dialect } from "@outlast/agent/conversation"
import { AiSdk, Anthropic, Catalogue, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"
import { Effect, Schema } from "effect"
import type { Prompt } from "effect/ai"
import { Tool } from "effect/ai"
import { finish, stop, usage } from "./client.ts"
import type * as Spec from "../src/aisdk/Spec.ts"
import * as Support from "./support.ts"

const capabilitiesOf = (model: string) => Catalogue.find(model)?.capabilities ?? {}
const dialectOf = (spec: ProviderModel.TargetSpec) =>
  Effect.map(Effect.scoped(spec.build), ({ info }) => info.dialect ?? Dialect.defaults)

describe("the catalogue", () => {
  it("lists the models that bind their thinking, and to what", () => {
    const bound = Catalogue.entries.filter(({ capabilities }) => capabilities.bindsThinking === true)
    assert.deepStrictEqual(
      bound.map(({ model }) => model),
      ["claude-fable-5-2", "claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"]
    )
    const accounts = bound.filter(({ capabilities }) => capabilities.bindsAccount === true)
    assert.deepStrictEqual(
      accounts.map(({ model }) => model),
      ["claude-sonnet-5-5", "claude-haiku-5-5"]
    )
  })

  it("lists Anthropic's models that take prefills, system messages, forced tools and temperatures", () => {
    const known = (model: string) => {
      const { prefill, systemMessages, forcedTools, sampling } = capabilitiesOf(model)
      return [prefill, systemMessages, forcedTools, sampling]
    }
    assert.deepStrictEqual(known("claude-sonnet-4-5"), [true, false, true, true])
    assert.deepStrictEqual(known("claude-opus-4-6"), [false, false, true, true])
    assert.deepStrictEqual(known("claude-opus-4-7"), [false, false, true, false])
    assert.deepStrictEqual(known("claude-opus-4-8"), [false, true, true, false])
    assert.deepStrictEqual(known("claude-opus-5-5"), [false, true, false, false])
  })
})

describe("the dialect of a target", () => {
  it.effect("combines its wire format with the capabilities of the model", () =>
    Effect.gen(function* () {
      assert.deepInclude(yield* dialectOf(Anthropic.model("claude-sonnet-4-5")), {
        ending: "prefill",
        system: "leading",
        bound: "model"
      })
      assert.deepInclude(yield* dialectOf(Anthropic.model("claude-sonnet-5-5")), {
        ending: "user",
        system: "between",
        bound: "target"
      })
      assert.isDefined((yield* dialectOf(Google.model("gemini-3-flash"))).unsignedCall)
      assert.isUndefined((yield* dialectOf(Google.model("gemini-2.5-flash"))).unsignedCall)
      const blind = yield* dialectOf(OpenAi.chatModel("gpt-4"))
      assert.notInclude(blind.files ?? [], "image/png")
      assert.include((yield* dialectOf(OpenAi.chatModel("gpt-4o"))).files ?? [], "image/png")
    })
  )

  it.effect("is the plainest of its wire format for an unknown model, unless info describes the model", () =>
    Effect.gen(function* () {
      const unknown = yield* dialectOf(Anthropic.model("claude-next"))
      assert.deepInclude(unknown, { ending: "user", system: "leading" })
      assert.deepInclude(
        yield* dialectOf(AiSdk.model({ provider: "acme-cloud", model: "m", create: never })),
        {
          ...Dialect.defaults,
          namespaces: ["acme-cloud", "acmeCloud"],
          thinking: "plain",
          providerCalls: /^/
        }
      )
      const dialect = { ...Dialect.defaults, system: "anywhere" } as const
      const baseUrl = "http://localhost:1"
      const told = OpenAiCompatible.model({ name: "local", model: "m", baseUrl, info: { dialect } })
      assert.strictEqual(yield* dialectOf(told), dialect)
      const seeing = OpenAiCompatible.model({
        name: "local",
        model: "m",
        baseUrl,
        info: { capabilities: { images: false } }
      })
      assert.notInclude((yield* dialectOf(seeing)).files ?? [], "image/png")
    })
  )
})

const never = (): Spec.SpecModel => {
  throw new Error("no client is needed")
}

describe("a call", () => {
  const look = Tool.make("look", { parameters: Schema.Struct({}) })
  const settings = { temperature: 0.1, topP: 0.2, topK: 3, seed: 4 }

  const sent = (capabilities: ModelInfo.Capabilities) =>
    Effect.gen(function* () {
      const calls: Array<Spec.CallOptions> = []
      const spec = AiSdk.model({
        provider: "acme",
        model: "m",
        settings,
        info: { capabilities },
        create: () => ({
          specificationVersion: "v4",
          provider: "acme",
          modelId: "m",
          doGenerate: async (options) => {
            calls.push(options)
            return { content: [], finishReason: stop, usage }
          },
          doStream: async () => ({ stream: ReadableStream.from<Spec.StreamPart>([finish]) })
        })
      })
      yield* Support.generate(spec, "hello", { tools: [look], toolChoice: "required" })
      return calls[0]
    })

  it.effect("has no sampling settings for a model that refuses them", () =>
    Effect.gen(function* () {
      assert.deepInclude(yield* sent({}), settings)
      const plain = yield* sent({ sampling: false })
      assert.deepStrictEqual(
        [plain?.temperature, plain?.topP, plain?.topK, plain?.seed],
        [undefined, undefined, undefined, 4]
      )
    })
  )

  it.effect("leaves the choice to a model that cannot be forced to call a tool", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual((yield* sent({}))?.toolChoice, { type: "required" })
      assert.deepStrictEqual((yield* sent({ forcedTools: false }))?.toolChoice, { type: "auto" })
    })
  )
})

describe("thinking of Claude with a budget", () => {
  const call = { type: "tool-call", id: "1", name: "look", params: {} } as const
  const results: Prompt.MessageEncoded = {
    role: "tool",
    content: [{ type: "tool-result", id: "1", name: "look", isFailure: false, result: "r" }]
  }
  const user: Prompt.MessageEncoded = { role: "user", content: [{ type: "text", text: "x" }] }
  const signed = { type: "reasoning", text: "t", options: { anthropic: { signature: "s" } } } as const
  const hidden = { type: "reasoning", text: "", options: { anthropic: { redactedData: "d" } } } as const
  const look = Tool.make("look", { parameters: Schema.Struct({}) })

  const thinkingFor = (
    prompt: ReadonlyArray<Prompt.MessageEncoded>,
    options: Anthropic.Options,
    model = "claude-sonnet-4-5"
  ) =>
    Effect.gen(function* () {
      // Lenient: the test checks the request itself.
      const server = yield* FakeProvider.make({ plan: { answers: () => ({ text: "a" }) }, strict: false })
      const spec = Anthropic.model(model, { ...options, baseUrl: server.baseUrl("anthropic") })
      yield* Effect.ignore(Support.generate(spec, prompt, { tools: [look], maxOutputTokens: 20_000 }))
      const [request] = yield* server.requests
      const body = request?.body as { readonly thinking?: { readonly type: string } } | undefined
      return body?.thinking?.type
    })
  const budget = { providerOptions: { thinking: { type: "enabled", budgetTokens: 2_000 } } } as const

  it.effect("is off only in a tool loop that another model began", () =>
    Effect.gen(function* () {
      const foreign = [user, { role: "assistant", content: [call] }, results] as const
      assert.strictEqual(yield* thinkingFor(foreign, budget), "disabled")
      assert.strictEqual(yield* thinkingFor([...foreign, user], budget), "disabled")
      assert.strictEqual(yield* thinkingFor(foreign, { settings: { reasoning: "high" } }), "disabled")
      assert.strictEqual(yield* thinkingFor([user], budget), "enabled")
      assert.strictEqual(
        yield* thinkingFor([user, { role: "assistant", content: [hidden, call] }, results], budget),
        "enabled"
      )
      const over: Prompt.MessageEncoded = { role: "assistant", content: [{ type: "text", text: "done" }] }
      assert.strictEqual(yield* thinkingFor([...foreign, over, user], budget), "enabled")
    })
  )

  it.effect("stays on in a tool loop of the same model, whose thinking is kept", () =>
    Effect.gen(function* () {
      // A signature made by this server.
      const server = yield* FakeProvider.make({ plan: { answers: [{ reasoning: "t", text: "a" }] } })
      const spec = Anthropic.model("claude-sonnet-4-5", { ...budget, baseUrl: server.baseUrl("anthropic") })
      const parts = yield* Support.generate(spec, "x", { maxOutputTokens: 20_000 })
      const thought = parts.find((part) => part.type === "reasoning")
      const options = (thought?.metadata ?? {}) as Prompt.ProviderOptions
      const own = [user, { role: "assistant", content: [{ ...signed, options }, call] }, results] as const
      assert.strictEqual(yield* thinkingFor(own, budget), "enabled")
    })
  )

  it.effect("stays on for models with adaptive thinking", () =>
    Effect.gen(function* () {
      const foreign = [user, { role: "assistant", content: [call] }, results] as const
      assert.strictEqual(
        yield* thinkingFor(foreign, { settings: { reasoning: "high" } }, "claude-opus-4-6"),
        "adaptive"
      )
      assert.isUndefined(yield* thinkingFor(foreign, {}))
    })
  )
})
