/**
 * An AI SDK program with a resilient model: two lines change.
 *
 *     npm run ai-sdk-two-lines -w examples
 *
 * Before: `const model = createAnthropic(settings)("claude-sonnet-4-5")`. The provider is a fake on this machine,
 * started without Effect. It is overloaded once, and then its stream breaks off.
 */
import { streamText } from "ai"
import { Redacted } from "effect"
import { Failover, KeySource } from "@outlast/agent"
import { toAiSdk } from "@outlast/ai-sdk"
import { Anthropic } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"

await using server = await FakeProvider.start({
  plan: {
    answers: [{ text: "The Nile flows north, through eleven countries, to the sea." }],
    faults: [{ fault: { type: "status", status: 529 } }, { fault: { type: "reset", after: 5 } }]
  }
})
const keys = [KeySource.value("demo", Redacted.make("demo"))]

// The two lines.
const claude = Anthropic.model("claude-sonnet-4-5", { baseUrl: server.baseUrl("anthropic"), keys })
await using model = toAiSdk(Failover.layer([claude]))

// The program, unchanged.
const result = streamText({ model, prompt: "Which river flows north?" })
let text = ""
for await (const delta of result.textStream) text += delta
console.log(text)
console.log(`${server.requests().length} requests`)
