import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"

// The official clients judge the server: it must not send anything that they cannot parse.

const answers: FaultPlan.FaultPlan["answers"] = [
  {
    reasoning: "They want the sum, so I use the tool.",
    text: "Größe wird berechnet — 🚀 los.",
    toolCalls: [
      { name: "add", params: { a: 2, b: 3, note: "äöü" } },
      { name: "add", params: {} }
    ],
    usage: { input: 100, output: 20, cacheRead: 60, cacheWrite: 30 }
  },
  { reasoning: "Both results are there.", text: "The sum is 5." },
  { text: "Bye." }
]

const tools = [
  {
    type: "function" as const,
    name: "add",
    inputSchema: {
      type: "object" as const,
      properties: { a: { type: "number" as const } },
      additionalProperties: false
    }
  }
]

const models = {
  anthropic: (server: FakeProvider.FakeProvider, model = "claude-sonnet-4-5") =>
    createAnthropic({ baseURL: server.baseUrl("anthropic"), apiKey: "sk-test" })(model),
  openai: (server: FakeProvider.FakeProvider, model = "gpt-4.1") =>
    createOpenAI({ baseURL: server.baseUrl("openai"), apiKey: "sk-test" }).chat(model),
  responses: (server: FakeProvider.FakeProvider, model = "gpt-5") =>
    createOpenAI({ baseURL: server.baseUrl("openai"), apiKey: "sk-test" }).responses(model)
}
type Model = ReturnType<(typeof models)["anthropic"]>
type CallOptions = Parameters<Model["doGenerate"]>[0]
type Content = Awaited<ReturnType<Model["doGenerate"]>>["content"]

/** Collects the answer of a stream in the form of an answer without streaming. */
const collect = async (model: Model, options: CallOptions) => {
  const { stream } = await model.doStream(options)
  const content: Array<any> = []
  let finish: any
  const errors: Array<unknown> = []
  for await (const part of stream as unknown as AsyncIterable<any>) {
    if (part.type === "text-start") content.push({ type: "text", text: "" })
    if (part.type === "reasoning-start") content.push({ type: "reasoning", text: "" })
    if (part.type === "text-delta" || part.type === "reasoning-delta") content.at(-1).text += part.delta
    if (part.type.startsWith("reasoning") && part.providerMetadata !== undefined) {
      content.at(-1).providerMetadata = part.providerMetadata
    }
    if (part.type === "tool-call") content.push(part)
    if (part.type === "finish") finish = part
    if (part.type === "error") errors.push(part.error)
  }
  assert.deepStrictEqual(errors, [])
  return { content: content as Content, finishReason: finish.finishReason, usage: finish.usage }
}

const ways = {
  generate: (model: Model, options: CallOptions) => Promise.resolve(model.doGenerate(options)),
  stream: collect
}

/** Plays the whole plan, runs its tools, and returns the three answers. */
const converse = async (
  say: (options: CallOptions) => ReturnType<typeof collect>,
  options: Partial<CallOptions>
) => {
  const prompt: CallOptions["prompt"] = [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "2 + 3?" }] }
  ]
  const said: Array<Awaited<ReturnType<typeof collect>>> = []
  for (let turn = 0; turn < 3; turn++) {
    const answer = await say({ ...options, prompt, tools })
    said.push(answer)
    const calls = answer.content.filter((part) => part.type === "tool-call")
    prompt.push({
      role: "assistant",
      content: answer.content.map((part): any => {
        if (part.type === "tool-call") {
          return {
            type: "tool-call",
            toolCallId: part.toolCallId,
            toolName: part.toolName,
            input: JSON.parse(part.input)
          }
        }
        const { providerMetadata, ...rest } = part as { providerMetadata?: unknown }
        return { ...rest, providerOptions: providerMetadata }
      })
    })
    if (calls.length === 0) prompt.push({ role: "user", content: [{ type: "text", text: "Thanks." }] })
    for (const call of calls) {
      prompt.push({
        role: "tool",
        content: [
          {
            type: "tool-result",
            toolCallId: call.toolCallId,
            toolName: call.toolName,
            output: { type: "text", value: "5" }
          }
        ]
      })
    }
  }
  return said
}

for (const [way, say] of Object.entries(ways)) {
  for (const provider of ["anthropic", "openai", "responses"] as const) {
    describe(`${provider}, ${way}`, () => {
      const reasons = provider !== "openai"
      const checked = (name: string, modelName: string, options: Partial<CallOptions>) =>
        it.live(name, () =>
          Effect.gen(function* () {
            const server = yield* FakeProvider.make({ plan: { answers } })
            const model = models[provider](server, modelName) as Model
            const said = yield* Effect.promise(() => converse((call) => say(model, call), options))
            const [first, second, third] = said.map(({ content }) => content)
            const textsOf = (content: Content = []) =>
              content.flatMap((part) => (part.type === "text" ? [part.text] : []))
            const thoughts = (content: Content = []) =>
              content.flatMap((part) => (part.type === "reasoning" && part.text !== "" ? [part.text] : []))
            assert.deepStrictEqual(
              [first, second, third].map((content) => textsOf(content)),
              [["Größe wird berechnet — 🚀 los."], ["The sum is 5."], ["Bye."]]
            )
            assert.deepStrictEqual(
              [first, second].map((content) => thoughts(content)),
              reasons ? [["They want the sum, so I use the tool."], ["Both results are there."]] : [[], []]
            )
            assert.deepStrictEqual(
              first?.flatMap((part) =>
                part.type === "tool-call" ? [[part.toolName, JSON.parse(part.input)]] : []
              ),
              [
                ["add", { a: 2, b: 3, note: "äöü" }],
                ["add", {}]
              ]
            )
            assert.deepStrictEqual(
              said.map(({ finishReason }) => finishReason.unified),
              ["tool-calls", "stop", "stop"]
            )
            assert.strictEqual(said[0]?.usage.inputTokens.total, 100)
            assert.strictEqual(said[0]?.usage.inputTokens.cacheRead, 60)
            assert.strictEqual(said[0]?.usage.outputTokens.total, 20)
            const requests = yield* server.requests
            assert.deepStrictEqual(
              requests.map(({ outcome }) => outcome),
              [0, 1, 2].map((turn): FakeProvider.Outcome => ({ type: "answer", turn }))
            )
          }).pipe(Effect.scoped)
        )
      if (provider === "anthropic") {
        checked("a conversation with thinking off", "claude-sonnet-4-5", {})
        checked("a conversation with thinking enabled", "claude-sonnet-4-5", { reasoning: "high" })
        checked("a conversation with a model that binds its thinking", "claude-opus-5-5", {
          reasoning: "high"
        })
      } else if (provider === "responses") {
        checked("a conversation that is stored", "gpt-5", { reasoning: "high" })
        checked("a conversation that is not", "gpt-5", { providerOptions: { openai: { store: false } } })
      } else {
        checked("a conversation", "gpt-4.1", {})
      }
    })
  }
}
