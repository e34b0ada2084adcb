/**
 * Makes a program of the AI SDK resilient by changing one line: its model.
 *
 *     npm run ai-sdk -w examples
 *
 * The providers are fakes on this machine. The first key is rate limited; a stream from the second is cut and
 * continued. With real keys only the targets change: leave out `baseUrl`, and name the variables in `keys`.
 */
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai"
import { Effect, Redacted } from "effect"
import { Failover, KeySource } from "@outlast/agent"
import { toAiSdk } from "@outlast/ai-sdk"
import { Anthropic, OpenAi } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"

const river = "The Nile flows north, through eleven countries, to the sea."

const main = Effect.gen(function* () {
  const server = yield* FakeProvider.make({
    plan: {
      answers: [{ toolCalls: [{ name: "search", params: { query: "rivers" } }] }, { text: river }],
      faults: [
        { when: { key: "busy" }, fault: { type: "status", status: 429, headers: { "retry-after": "30" } } },
        { when: { streaming: true }, skip: 1, fault: { type: "cut", after: 4 } }
      ]
    }
  })
  const key = (name: string) => KeySource.value(name, Redacted.make(name))
  const targets = [
    Anthropic.model("claude-sonnet-4-5", {
      baseUrl: server.baseUrl("anthropic"),
      keys: [key("busy"), key("good")]
    }),
    OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: [key("other")] })
  ] as const

  yield* Effect.promise(() => program(toAiSdk(Failover.layer(targets))))
})

// The program, which uses only the AI SDK.
const program = async (model: ReturnType<typeof toAiSdk>) => {
  const tools = {
    search: tool({
      description: "Searches an encyclopedia.",
      inputSchema: jsonSchema<{ query: string }>({
        type: "object",
        properties: { query: { type: "string" } },
        required: ["query"]
      }),
      execute: async ({ query }) => {
        console.log(`searched for ${query}`)
        return "The Nile."
      }
    })
  }
  const prompt = "Which river flows north?"
  const { text, providerMetadata } = await generateText({ model, tools, prompt, stopWhen: isStepCount(3) })
  console.log(text)
  console.log(`answered by ${String(providerMetadata?.["outlast"]?.["target"])}`)

  const result = streamText({ model, tools, prompt, stopWhen: isStepCount(3) })
  let streamed = ""
  for await (const delta of result.textStream) streamed += delta
  console.log(streamed)
  const by = (await result.providerMetadata)?.["outlast"]
  console.log(`answered by ${String(by?.["target"])} in attempt ${String(by?.["attempts"])}`)
  await model.dispose()
}

await Effect.runPromise(Effect.scoped(main))
