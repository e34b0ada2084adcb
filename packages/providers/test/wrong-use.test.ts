/**
 * Error messages for wrong use of this package, thrown at the line of the mistake.
 *
 * Keys have tests of their own.
 */
import { Effect, Layer } from "effect"
import { LanguageModel } from "effect/ai"
import { assert, describe, it } from "vitest"
import { Direct, Failover } from "@outlast/agent"
import { InvalidOption, Warnings } from "@outlast/resilience"
import {
  AiSdk,
  Anthropic,
  Catalogue,
  Google,
  OpenAi,
  OpenAiCompatible,
  toAiSdk,
  Tokenizers
} from "@outlast/providers"
import { collect, generate } from "./support.ts"

/** A value that plain JavaScript may pass, whatever the types say. */
const untyped = (value: unknown): never => value as never
/** Options from a file. */
const json = (text: string): never => untyped(JSON.parse(text))

const name = "claude-sonnet-4-5"
const vendorOptions = "Options: keys, headers, info, settings, baseUrl, providerOptions, fetch"
const create = () => untyped({})
const key = "sk-ant-api03-9f8e7d6c5b4a39281706"

const rows: ReadonlyArray<readonly [wrong: () => unknown, message: string]> = [
  // The name of the model
  [
    () => Anthropic.model(untyped(undefined)),
    "Anthropic.model: model must be the name of a model, got undefined"
  ],
  [() => Anthropic.model(""), `Anthropic.model: model must be the name of a model, got ""`],
  [
    () => Anthropic.model(untyped({ model: name })),
    "Anthropic.model: model must be the name of a model, got an object"
  ],
  [
    () => Google.model(untyped(["gemini-2.5-pro"])),
    "Google.model: model must be the name of a model, got a list of 1"
  ],
  [() => OpenAi.chatModel(untyped(5)), "OpenAi.chatModel: model must be the name of a model, got 5"],
  // The options
  [
    () => Anthropic.model(name, untyped(key)),
    `Anthropic.model: options must be an object, for example { keys: ["NAME_OF_A_VARIABLE"] }, got a text`
  ],
  [
    () => OpenAi.model("gpt-5.1", untyped(["OPENAI_API_KEY"])),
    `OpenAi.model: options must be an object, for example { keys: ["NAME_OF_A_VARIABLE"] }, got a list`
  ],
  [() => OpenAi.model("gpt-5.1", untyped(null)), "OpenAi.model: options must be an object, got null"],
  [
    () => OpenAi.model("gpt-5.1", untyped({ apiKey: key })),
    `OpenAi.model: "apiKey" is not an option. Did you mean keys? ${vendorOptions}`
  ],
  [
    () => OpenAi.model("gpt-5.1", untyped({ temperature: 0 })),
    `OpenAi.model: "temperature" is not an option. ${vendorOptions}`
  ],
  [
    () => Anthropic.model(name, { settings: json(`{ "temperature": "0.2" }`) }),
    `Anthropic.model: settings.temperature must be a finite number of at least 0, got "0.2"`
  ],
  [
    () => Anthropic.model(name, { settings: { topP: 2 } }),
    "Anthropic.model: settings.topP must be a finite number from 0 to 1, got 2"
  ],
  [
    () => Anthropic.model(name, { settings: untyped({ maxTokens: 100 }) }),
    `Anthropic.model: "settings.maxTokens" is not an option. Options: temperature, topP, topK, presencePenalty, frequencyPenalty, stopSequences, seed, reasoning`
  ],
  [
    () => Google.model("gemini-2.5-pro", { settings: { reasoning: untyped("hard") } }),
    `Google.model: settings.reasoning must be "provider-default" or "none" or "minimal" or "low" or "medium" or "high" or "xhigh" or "max", got "hard"`
  ],
  [
    () => Google.model("gemini-2.5-pro", { settings: { stopSequences: untyped("END") } }),
    `Google.model: settings.stopSequences must be a list, got "END"`
  ],
  [
    () => OpenAi.model("gpt-5.1", { info: json(`{ "contextWindow": "128k" }`) }),
    `OpenAi.model: info.contextWindow must be an integer of at least 1, got "128k"`
  ],
  [
    () => OpenAi.model("gpt-5.1", { info: json(`{ "price": { "input": 1.25 } }`) }),
    "OpenAi.model: info.price.output is missing"
  ],
  [
    () => OpenAi.model("gpt-5.1", { info: untyped({ window: 1 }) }),
    `OpenAi.model: "info.window" is not an option. Did you mean contextWindow? Options: contextWindow, maxOutputTokens, price, reasoning, capabilities, dialect, wholeAnswers, provider, model, counting, source`
  ],
  [
    () => OpenAi.model("gpt-5.1", { info: { capabilities: untyped(["images"]) } }),
    "OpenAi.model: info.capabilities must be an object of capabilities, got a list of 1"
  ],
  [
    () => OpenAi.model("gpt-5.1", { providerOptions: untyped("low") }),
    `OpenAi.model: providerOptions must be an object, got "low"`
  ],
  [
    () =>
      Anthropic.model(name, { providerOptions: untyped({ anthropic: { thinking: { type: "enabled" } } }) }),
    "Anthropic.model: providerOptions.anthropic must be left out: options have no namespace here. Write providerOptions: { thinking: … } without the namespace."
  ],
  [
    () => OpenAi.model("gpt-5.1", { providerOptions: untyped({ openai: { reasoningEffort: "low" } }) }),
    "OpenAi.model: providerOptions.openai must be left out: options have no namespace here. Write providerOptions: { reasoningEffort: … } without the namespace."
  ],
  [
    () => OpenAi.chatModel("gpt-5.1", { providerOptions: untyped({ azure: {} }) }),
    "OpenAi.chatModel: providerOptions.azure must be left out: options have no namespace here. Write providerOptions: { option: … } without the namespace."
  ],
  [
    () => Google.model("gemini-2.5-pro", { providerOptions: untyped({ google: { [key]: 1, seed: 1 } }) }),
    "Google.model: providerOptions.google must be left out: options have no namespace here. Write providerOptions: { seed: … } without the namespace."
  ],
  [
    () => Anthropic.model(name, { baseUrl: "https://proxy/v1/messages" }),
    `Anthropic.model: baseUrl must be the base URL, without "/messages". The client appends it.`
  ],
  [
    () => OpenAi.model("gpt-5.1", { baseUrl: "https://proxy/v1/responses/" }),
    `OpenAi.model: baseUrl must be the base URL, without "/responses". The client appends it.`
  ],
  [
    () => OpenAiCompatible.model({ name: "p", baseUrl: "https://proxy/v1/chat/completions", model: "m" }),
    `OpenAiCompatible.model: baseUrl must be the base URL, without "/chat/completions". The client appends it.`
  ],
  [
    () => Anthropic.model(name, { headers: untyped(new Map([["x-key", key]])) }),
    "Anthropic.model: headers must be an object of texts or a Headers. Write headers: Object.fromEntries(map)."
  ],
  [
    () => Anthropic.model(name, { headers: untyped(new URLSearchParams({ key })) }),
    `Anthropic.model: headers must be an object of texts or a Headers. Write headers: { "x-team": "search" }.`
  ],
  // OpenAiCompatible
  [
    () => OpenAiCompatible.model(untyped("qwen")),
    `OpenAiCompatible.model: options must be an object, for example { name: "ollama", baseUrl: "http://…/v1", model: "qwen3:8b" }, got a text`
  ],
  [
    () => OpenAiCompatible.model(json(`{ "baseUrl": "http://localhost:11434/v1", "model": "qwen3:8b" }`)),
    "OpenAiCompatible.model: name is missing"
  ],
  [
    () => OpenAiCompatible.model(untyped({ name: "ollama", model: "qwen3:8b" })),
    "OpenAiCompatible.model: baseUrl is missing"
  ],
  [
    () =>
      OpenAiCompatible.model(
        untyped({ name: "ollama", baseUrl: "http://localhost/v1", model: "m", stream: true })
      ),
    `OpenAiCompatible.model: "stream" is not an option. Options: keys, headers, info, settings, baseUrl, providerOptions, fetch, name, model, structuredOutputs, streamUsage`
  ],
  [
    () =>
      OpenAiCompatible.model({
        name: "ollama",
        baseUrl: "http://localhost/v1",
        model: "m",
        streamUsage: untyped("no")
      }),
    `OpenAiCompatible.model: streamUsage must be true or false, got "no"`
  ],
  // AiSdk
  [
    () => AiSdk.model(untyped({ specificationVersion: "v4", doGenerate: create, doStream: create })),
    "AiSdk.model: options must be { provider, model, create: (key) => model }, and the model comes from create, got an object"
  ],
  [() => AiSdk.model(untyped({ provider: "bedrock", model: "m" })), "AiSdk.model: create is missing"],
  [
    () => AiSdk.model({ provider: "bedrock", model: "m", create: untyped({ doGenerate: create }) }),
    "AiSdk.model: create must be a function (key) => model, got an object"
  ],
  [
    () => AiSdk.model({ provider: "bedrock", model: "m", providerOptions: untyped({ bedrock: 1 }), create }),
    "AiSdk.model: providerOptions.bedrock must be an object, got 1"
  ],
  // toAiSdk
  [
    () => toAiSdk(untyped("claude")),
    `toAiSdk: source must be a Layer or a ManagedRuntime of a LanguageModel, for example Failover.layer([target]), got "claude"`
  ],
  [
    () => toAiSdk(untyped([Anthropic.model(name)])),
    "toAiSdk: source must be a Layer or a ManagedRuntime of a LanguageModel, for example Failover.layer([target]), got a list of 1"
  ],
  [
    () => toAiSdk(untyped(Effect.void)),
    "toAiSdk: source must be a Layer or a ManagedRuntime of a LanguageModel, for example Failover.layer([target]), got an Effect"
  ],
  [
    () => toAiSdk(untyped(Layer.empty), untyped({ model: "chain" })),
    `toAiSdk: "model" is not an option. Options: provider, modelId`
  ],
  // Catalogue and tokenizers
  [
    () => Catalogue.extend(json(`[{ "provider": "house", "model": "m", "capabilities": {} }]`)),
    "Catalogue.extend: more[0].source is missing"
  ],
  [
    () => Catalogue.extend(untyped({ provider: "house" })),
    "Catalogue.extend: more must be a list of entries, got an object"
  ],
  [
    () => Catalogue.layerWindows({ windows: json(`{ "house-model": "32k" }`) }),
    `Catalogue.layerWindows: windows.house-model must be an integer of at least 1, got "32k"`
  ],
  [
    () => Tokenizers.layer({ encodings: untyped("o200k_base") }),
    `Tokenizers: encodings must be a list, got "o200k_base"`
  ],
  [
    () => Tokenizers.make({ encodings: json(`["gpt2"]`) }),
    `Tokenizers: encodings[0] must be "o200k_base" or "cl100k_base", got "gpt2"`
  ]
]

it.each(rows.map(([wrong, message]) => ({ wrong, message })))(
  "is refused: $message",
  ({ wrong, message }) => {
    try {
      wrong()
    } catch (error) {
      assert.strictEqual(error instanceof Error ? error.message : error, message)
      assert.notInclude(`${String(error)} ${JSON.stringify(error)}`, "9f8e7d6c")
      return
    }
    assert.fail("was accepted")
  }
)

it("accepts the built-in entries, and one of them as info", () => {
  assert.isNotEmpty(Catalogue.extend(Catalogue.entries.slice()))
  for (const info of Catalogue.entries) OpenAi.model("gpt-5.1", { info })
})

const given = {
  specificationVersion: "v4",
  provider: "acme.chat",
  modelId: "m",
  doGenerate: create,
  doStream: create
}

const layers: ReadonlyArray<readonly [string, () => Layer.Layer<never, unknown>]> = [
  ["an entry of a chain", () => Failover.layer([untyped(given)])],
  ["a target", () => Direct.layer(untyped(given))]
]

it.each(layers)("a model of the AI SDK as %s is told to use AiSdk.model", async (_name, layer) => {
  const error = await Effect.runPromise(
    Effect.catchDefect(Effect.scoped(Layer.build(layer())), Effect.succeed)
  )
  assert.instanceOf(error, InvalidOption)
  assert.include(
    error.message,
    "is a model of the AI SDK. Use AiSdk.model({ provider, model, create: () => model }) of @outlast/providers."
  )
})

it.each([
  ["baseURL", "baseUrl"],
  ["base_url", "baseUrl"],
  ["endpoint", "baseUrl"],
  ["apiKey", "keys"],
  ["header", "headers"],
  ["providerOption", "providerOptions"],
  ["fecth", "fetch"]
])("an option %s is probably %s", (wrong, meant) => {
  assert.throws(
    () => Anthropic.model(name, json(`{ "${wrong}": "x" }`)),
    `"${wrong}" is not an option. Did you mean ${meant}?`
  )
})

it("an option baseURL of AiSdk.model is probably endpoint", () => {
  const options = untyped({ provider: "acme", model: "m", baseURL: "http://x", create })
  assert.throws(() => AiSdk.model(options), '"baseURL" is not an option. Did you mean endpoint?')
})

it("no option is proposed for a name that is near to none", () => {
  assert.throws(
    () => Anthropic.model(name, json('{ "retries": 3 }')),
    `"retries" is not an option. ${vendorOptions}`
  )
})

describe("a create that returns no model fails without a retry and says why", () => {
  const throwing = () => {
    throw new Error(`no region, and the key was ${key}`)
  }
  const model = "AiSdk.model: create(key) must be a model of the AI SDK, not a promise or a provider, got"
  const made: ReadonlyArray<readonly [create: () => unknown, message: string]> = [
    [throwing, "no region, and the key was [redacted]"],
    [() => undefined, `${model} undefined`],
    [() => Promise.resolve({}), `${model} a promise`],
    [() => Promise.reject(new Error("never seen")), `${model} a promise`],
    [() => () => ({}), `${model} a function`],
    [() => ({ modelId: "m" }), `${model} an object`],
    [
      () => ({ specificationVersion: "v2", doGenerate: throwing, doStream: throwing }),
      `AiSdk.model: create(key).specificationVersion must be "v3" or "v4", got "v2"`
    ]
  ]
  it.each(made.map(([create, message]) => ({ create, message })))("$message", async ({ create, message }) => {
    let calls = 0
    const spec = AiSdk.model({
      provider: "acme",
      // A unique name: building one chain repeatedly logs a warning.
      model: message.slice(-8),
      create: () => {
        calls++
        return untyped(create())
      }
    })
    const failure = await Effect.runPromise(Effect.flip(generate(spec)))
    assert.strictEqual(failure.reason._tag, "ModelNotFound")
    assert.include(failure.message, `its client could not be made (${message}). Check the function create`)
    const streamed = await Effect.runPromise(collect(spec))
    assert.strictEqual(streamed.failure?.evidence.matched, message)

    calls = 0
    const call = LanguageModel.generateText({ prompt: "hello" })
    const error = await Effect.runPromise(
      Effect.flip(call.pipe(Effect.provide([Failover.layer([spec]), Warnings.layerOff])))
    )
    assert.include(error.message, message)
    assert.strictEqual(calls, 1)
  })
})
