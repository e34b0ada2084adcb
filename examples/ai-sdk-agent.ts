/**
 * An agent on the AI SDK whose run ends at its limit, and whose conversation is kept short: no word of Effect.
 *
 *     npm run ai-sdk-agent -w examples
 *
 * The provider is a fake on this machine. Its first key is rate limited, and its model asks for the same search again and
 * again. With the keys ANTHROPIC_API_KEY and ANTHROPIC_API_KEY_2, write `models: ["anthropic/claude-sonnet-4-5"]`.
 */
import { generateText, jsonSchema, tool } from "ai"
import { outlast, SafetyStop } from "@outlast/ai-sdk"
import { Anthropic } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"

await using server = await FakeProvider.start({
  plan: {
    answers: Array.from({ length: 9 }, () => ({
      toolCalls: [{ name: "search", params: { query: "rivers" } }]
    })),
    faults: [
      { when: { key: "busy" }, fault: { type: "status", status: 429, headers: { "retry-after": "30" } } }
    ]
  }
})
Object.assign(process.env, { DEMO_KEY: "busy", DEMO_KEY_2: "good" })

const agent = outlast({
  models: [
    Anthropic.model("claude-sonnet-4-5", {
      baseUrl: server.baseUrl("anthropic"),
      keys: ["DEMO_KEY", "DEMO_KEY_2"]
    })
  ],
  guard: { toolCalls: 3 },
  compaction: true,
  log: false
})
let searches = 0
const tools = {
  search: tool({
    description: "Searches an encyclopedia.",
    inputSchema: jsonSchema<{ query: string }>({
      type: "object",
      properties: { query: { type: "string" } },
      required: ["query"]
    }),
    execute: async () => `Result ${++searches}: the Nile.`
  })
}
try {
  await generateText({ ...agent.with({ tools }), prompt: "Which river flows north?" })
} catch (error) {
  if (!(error instanceof SafetyStop)) throw error
  console.log(`${error.reason}: ${searches} searches ran`)
}
for (const { id, state } of await agent.targets()) console.log(`${id}: ${state}`)
await agent.close()
