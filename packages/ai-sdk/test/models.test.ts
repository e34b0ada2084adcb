/**
 * The models of `outlast`: names, models of the AI SDK, targets, and their keys.
 */
import { outlast } from "@outlast/ai-sdk"
import { createOpenAI } from "@ai-sdk/openai"
import { assert, describe, it } from "@effect/vitest"
import { Anthropic } from "@outlast/providers"
import { createProviderRegistry, generateText, LoadAPIKeyError, streamText } from "ai"
import type { SystemModelMessage } from "ai"
import { afterEach, beforeEach } from "vitest"
import { caught, played } from "./support.ts"

const quiet = { log: false } as const

/** Variables that a test may set. */
const names = [
  "ANTHROPIC_API_KEY",
  "ANTHROPIC_API_KEY_2",
  "ANTHROPIC_API_KEY_3",
  "OPENAI_API_KEY",
  "OPENAI_API_KEY_2",
  "GOOGLE_GENERATIVE_AI_API_KEY",
  "GEMINI_API_KEY"
]
let before: Record<string, string | undefined> = {}
beforeEach(() => {
  before = Object.fromEntries(names.map((name) => [name, process.env[name]]))
  for (const name of names) delete process.env[name]
})
afterEach(() => {
  for (const [name, value] of Object.entries(before)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
})

describe("names", () => {
  it("are those of the catalogue, with all keys of the environment", async () => {
    process.env["ANTHROPIC_API_KEY"] = "sk-a"
    process.env["ANTHROPIC_API_KEY_2"] = "sk-b"
    process.env["ANTHROPIC_API_KEY_3"] = "sk-c"
    process.env["OPENAI_API_KEY"] = "sk-o"
    process.env["GEMINI_API_KEY"] = "g"
    await using agent = outlast({
      models: ["anthropic/claude-sonnet-4-5", "openai/gpt-5.1", "google/gemini-2.5-pro"],
      ...quiet
    })
    const targets = await agent.targets()
    assert.deepStrictEqual(
      targets.map(({ id, state }) => [id, state]),
      [
        ["anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY", "ready"],
        ["anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY_2", "ready"],
        ["anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY_3", "ready"],
        ["openai/gpt-5.1#OPENAI_API_KEY", "ready"],
        ["google/gemini-2.5-pro#GEMINI_API_KEY", "ready"]
      ]
    )
  })

  for (const compaction of [false, true]) {
    it(`without a key name the variables, ${compaction ? "with" : "without"} compaction`, async () => {
      await using agent = outlast({
        models: ["anthropic/claude-sonnet-4-5", "openai/gpt-5.1"],
        compaction,
        ...quiet
      })
      const error = await caught(generateText({ ...agent.with(), prompt: "Hello" }))
      assert.isTrue(LoadAPIKeyError.isInstance(error))
      assert.include(String(error), "ANTHROPIC_API_KEY")
      assert.include(String(error), "OPENAI_API_KEY")
    })
  }

  const wrong = [
    ["anthropic/claude-sonet-4-5", 'Did you mean "anthropic/claude-sonnet-4-5"?'],
    ["claude-sonnet-4-5", 'Did you mean "anthropic/claude-sonnet-4-5"?'],
    ["gpt-5.1", 'Did you mean "openai/gpt-5.1"?'],
    ["mistral/mistral-large", "pass a model of the AI SDK"]
  ] as const
  for (const [name, hint] of wrong) {
    it(`that nobody knows get a hint: ${name}`, () => {
      assert.throws(() => outlast({ models: [name] }), hint)
    })
  }

  it("may be those of providers and registries that are passed", async () => {
    await using provider = await played({ answers: [{ text: "Hello." }] }, "openai")
    const house = createOpenAI({ apiKey: "any", baseURL: provider.server.baseUrl("openai") })
    for (const [models, providers] of [
      [["house/gpt-5.1"], { house }],
      [["house:gpt-5.1"], createProviderRegistry({ house })]
    ] as const) {
      await using agent = outlast({ models, providers, ...quiet })
      const { text, providerMetadata } = await generateText({ model: agent.model, prompt: "Hi" })
      assert.strictEqual(text, "Hello.")
      assert.strictEqual(providerMetadata?.["outlast"]?.["attempts"], 1)
    }
    assert.throws(() => outlast({ models: ["house/gpt-5.1"], providers: { home: house } }), "home")
  })
})

describe("a chain", () => {
  it("goes from a model of the AI SDK to a target of providers", async () => {
    await using dead = await played(
      { answers: [], faults: [{ fault: { type: "status", status: 401 } }] },
      "openai"
    )
    await using provider = await played({ answers: [{ text: "Hello." }] })
    process.env["ANTHROPIC_API_KEY"] = "sk-a"
    await using agent = outlast({
      models: [
        dead.model,
        Anthropic.model("claude-sonnet-4-5", { baseUrl: provider.server.baseUrl("anthropic") })
      ],
      ...quiet
    })
    const { text, providerMetadata } = await generateText({ ...agent.with(), prompt: "Hi" })
    assert.strictEqual(text, "Hello.")
    assert.deepInclude(providerMetadata?.["outlast"], {
      target: "anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY",
      attempts: 2
    })
    const streamed = streamText({ ...agent.with(), prompt: "Hi" })
    assert.strictEqual(await streamed.text, "Hello.")
  })

  it("sends a system message with a cache mark unmerged", async () => {
    await using provider = await played({ answers: [{ text: "Hello." }] })
    await using agent = outlast({ models: [provider.model], ...quiet })
    const cached = { anthropic: { cacheControl: { type: "ephemeral" } } }
    const instructions: Array<SystemModelMessage> = [
      { role: "system", content: "The rules.", providerOptions: cached },
      { role: "system", content: "Today is Monday." }
    ]
    await generateText({ ...agent.with(), instructions, prompt: "Hi" })
    assert.deepNestedInclude(provider.server.requests()[0]?.body, {
      system: [
        { type: "text", text: "The rules.", cache_control: { type: "ephemeral" } },
        { type: "text", text: "Today is Monday." }
      ]
    })
  })

  it("refuses what is no model, and an empty list", () => {
    assert.throws(() => outlast({ models: [] }), "a list of models")
    // @ts-expect-error: a number is no model
    assert.throws(() => outlast({ models: [1] }), /models\[0\] must be a name .*, got 1$/)
    // @ts-expect-error: an unknown option
    assert.throws(() => outlast({ models: ["openai/gpt-5.1"], retries: 3 }), "retries")
  })

  it("refuses a model of an older specification", async () => {
    await using fake = await played({ answers: [] })
    const older: typeof fake.model = Object.create(fake.model, { specificationVersion: { value: "v2" } })
    const message = `outlast: models[0].specificationVersion must be "v3" or "v4", got "v2"`
    assert.throws(() => outlast({ models: [older] }), message)
    const providers = { house: { languageModel: () => older } }
    assert.throws(() => outlast({ models: ["house/m"], providers }), message)
  })

  it("is the model of a run: settings with another one are refused", async () => {
    await using agent = outlast({ models: ["openai/gpt-5.1"] })
    assert.throws(
      () => agent.with({ model: "openai/gpt-4.1" }),
      /agent\.with: model must be left out: outlast\(\{ models \}\) has the models/
    )
  })

  it("refuses what is no provider", () => {
    const models = ["house/m"]
    for (const house of [() => undefined, {}]) {
      // @ts-expect-error: it has no models
      assert.throws(() => outlast({ models, providers: { house } }), "providers.house must be a provider")
    }
    // @ts-expect-error: no provider at all
    assert.throws(() => outlast({ models, providers: null }), "outlast: providers must be")
  })
})
