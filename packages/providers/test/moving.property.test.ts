/** Any conversation, through the real clients, at fake servers as strict as the real ones. */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"
import { Effect, Redacted } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import * as fc from "fast-check"
// oxlint-disable-next-line no-restricted-imports -- Support of tests is in no package.
import { conversation } from "../../agent/test/conversation/generated.ts"
import * as Sweeps from "../../../test/sweeps.ts"

const keys = [KeySource.value("KEY", Redacted.make("sk-0123456789abcdef"))]

const targets: Record<string, (server: FakeProvider.FakeProvider) => ProviderModel.TargetSpec> = {
  "claude-sonnet-4-5": (server) =>
    Anthropic.model("claude-sonnet-4-5", {
      keys,
      baseUrl: server.baseUrl("anthropic"),
      providerOptions: { thinking: { type: "enabled", budgetTokens: 1_024 } }
    }),
  "claude-opus-4-6": (server) =>
    Anthropic.model("claude-opus-4-6", { keys, baseUrl: server.baseUrl("anthropic") }),
  "claude-opus-5-5": (server) =>
    Anthropic.model("claude-opus-5-5", { keys, baseUrl: server.baseUrl("anthropic") }),
  "gpt-4o in chat": (server) => OpenAi.chatModel("gpt-4o", { keys, baseUrl: server.baseUrl("openai") }),
  "gpt-5": (server) => OpenAi.model("gpt-5", { keys, baseUrl: server.baseUrl("openai") }),
  "gemini-2.5-flash": (server) =>
    Google.model("gemini-2.5-flash", { keys, baseUrl: server.baseUrl("google") }),
  "gemini-3-flash": (server) => Google.model("gemini-3-flash", { keys, baseUrl: server.baseUrl("google") }),
  compatible: (server) =>
    OpenAiCompatible.model({ keys, name: "local", model: "qwen3", baseUrl: server.baseUrl("openai") })
}

// Requests with calls in their history must offer tools.
const Search = Toolkit.make(Tool.make("search"))

const prompts = fc.sample(conversation, { numRuns: Sweeps.runs(60), seed: 5 })

describe.each(Object.entries(targets))("a conversation of any models at %s", (_, target) => {
  it.effect("is accepted (openclaw/openclaw#8525, earendil-works/pi#4570, BerriAI/litellm#27967)", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: () => ({ text: "yes" }) } })
      for (const prompt of prompts) {
        yield* Effect.ignore(
          LanguageModel.generateText({ prompt, toolkit: Search, disableToolCallResolution: true })
        ).pipe(Effect.provide(Failover.layer([target(server)])))
        const last = (yield* server.requests).at(-1)
        assert.strictEqual(last?.outcome.type, "answer", `${JSON.stringify(last)}\n${JSON.stringify(prompt)}`)
      }
      assert.lengthOf(yield* server.requests, prompts.length)
    }).pipe(Effect.scoped)
  )
})
