/**
 * Providers of the tests: a first model that is refused, and a second one that answers.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { outlast } from "@outlast/ai-sdk"
import type { GuardOptions } from "@outlast/ai-sdk"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider } from "@outlast/testing"

export const world = async (answers: ReadonlyArray<FaultPlan.Answer>, guard: GuardOptions = {}) => {
  const refusing = await FakeProvider.start({
    plan: { answers: [], faults: [{ times: 1_000, fault: { type: "status", status: 401 } }] }
  })
  const answering = await FakeProvider.start({ plan: { answers } })
  const first = createOpenAI({ apiKey: "any", baseURL: refusing.baseUrl("openai") })("gpt-5.1")
  const second = createAnthropic({ apiKey: "any", baseURL: answering.baseUrl("anthropic") })(
    "claude-sonnet-4-5"
  )
  const agent = outlast({ models: [first, second], guard, log: false })
  return {
    first,
    second,
    agent,
    requests: async () => ({
      refused: (await refusing.requests()).length,
      answered: (await answering.requests()).length
    }),
    [Symbol.asyncDispose]: async () => {
      await agent.close()
      await refusing[Symbol.asyncDispose]()
      await answering[Symbol.asyncDispose]()
    }
  }
}

/** A call of the tool `weather` in each turn, then a text. */
export const asking = (times: number): ReadonlyArray<FaultPlan.Answer> => [
  ...Array.from({ length: times }, () => ({ toolCalls: [{ name: "weather", params: { city: "Oslo" } }] })),
  { text: "It rains." }
]
