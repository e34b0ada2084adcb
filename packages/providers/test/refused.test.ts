/** Answers that the provider refused, under the AI SDK: the policy's fallback, else the answer with its finish reason. */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource, RecoveryPolicy } from "@outlast/agent"
import type { Chain } from "@outlast/agent"
import { Anthropic, OpenAi, toAiSdk } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import type { Layer } from "effect"
import { Effect, Redacted } from "effect"
import type { LanguageModel } from "effect/ai"
import {
  APICallError,
  generateObject,
  generateText,
  jsonSchema,
  NoObjectGeneratedError,
  streamText
} from "ai"

const key = (name: string) => KeySource.value(name, Redacted.make(`sk-0123456789abcdef-key${name}`))

const { interactive } = RecoveryPolicy
const fallback: RecoveryPolicy.RecoveryPolicy = {
  ...interactive,
  rows: {
    ...interactive.rows,
    ContentPolicy: { ...RecoveryPolicy.base, then: "move", to: ["gpt-4.1"] }
  }
}

const said = "The ferry leaves Oslo at noon. It arrives in Kiel the next day."
const refusal = { fault: { type: "finish", reason: "content-filter", after: 3 } } as const
const answers = [{ text: said, usage: { input: 10 } }]

const served = (plan: FaultPlan.FaultPlan, policy: RecoveryPolicy.RecoveryPolicy = interactive) =>
  Effect.gen(function* () {
    const server = yield* FakeProvider.make({ plan })
    const claude = Anthropic.model("claude-sonnet-4-5", {
      baseUrl: server.baseUrl("anthropic"),
      keys: [key("A")]
    })
    const gpt = OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: [key("O")] })
    // Targets of this package need no services.
    const layer = Failover.layer([claude, gpt], { policy }) as Layer.Layer<
      LanguageModel.LanguageModel,
      Chain.ChainError
    >
    const model = yield* Effect.acquireRelease(
      Effect.sync(() => toAiSdk(layer)),
      (model) => Effect.promise(() => model.dispose())
    )
    return { server, model }
  })

const prompt = "When?"

describe("an answer that the provider refused, under the AI SDK", () => {
  it.live("is the result of generateText if the policy has no fallback", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers, faults: [refusal] })
      const result = yield* Effect.promise(() => generateText({ model, prompt }))
      assert.strictEqual(result.finishReason, "content-filter")
      assert.strictEqual(result.rawFinishReason, "refusal")
      assert.isTrue(result.text !== "" && said.startsWith(result.text))
      assert.strictEqual(result.usage.inputTokens, 10)
      const { outlast } = result.providerMetadata ?? {}
      assert.include(outlast?.["target"], "claude-sonnet-4-5")
      assert.isAbove(Number(outlast?.["costUsd"]), 0)
      assert.lengthOf(yield* server.requests, 1)
    })
  )

  it.live("is the result of streamText if the policy has no fallback", () =>
    Effect.gen(function* () {
      const { server, model } = yield* served({ answers, faults: [refusal] })
      const errors: Array<unknown> = []
      const result = streamText({ model, prompt, onError: ({ error }) => void errors.push(error) })
      const types = yield* Effect.promise(async () => {
        const seen: Array<string> = []
        for await (const { type } of result.fullStream) seen.push(type)
        return seen
      })
      const shown = yield* Effect.promise(async () => result.text)
      assert.isTrue(shown !== "" && said.startsWith(shown))
      assert.strictEqual(yield* Effect.promise(async () => result.finishReason), "content-filter")
      assert.strictEqual(yield* Effect.promise(async () => result.rawFinishReason), "refusal")
      assert.strictEqual((yield* Effect.promise(async () => result.usage)).inputTokens, 10)
      assert.deepStrictEqual(errors, [])
      for (const type of ["text-start", "text-end", "finish"]) {
        assert.lengthOf(
          types.filter((seen) => seen === type),
          1,
          type
        )
      }
      assert.lengthOf(yield* server.requests, 1)
    })
  )

  it.live("reports its finish reason to generateObject", () =>
    Effect.gen(function* () {
      const { model } = yield* served({ answers, faults: [refusal] })
      const schema = jsonSchema({ type: "object", properties: {} })
      const error = yield* Effect.promise(() =>
        generateObject({ model, prompt, schema }).catch((cause: unknown) => cause)
      )
      assert(NoObjectGeneratedError.isInstance(error))
      assert.strictEqual(error.finishReason, "content-filter")
    })
  )

  it.live("goes to the fallback of the policy", () =>
    Effect.gen(function* () {
      for (const way of ["whole", "streamed"] as const) {
        const { server, model } = yield* served({ answers, faults: [refusal] }, fallback)
        const result =
          way === "whole"
            ? yield* Effect.promise(() => generateText({ model, prompt }))
            : streamText({ model, prompt })
        assert.strictEqual(yield* Effect.promise(async () => result.finishReason), "stop")
        assert.include(yield* Effect.promise(async () => result.text), "Kiel")
        assert.deepStrictEqual(
          (yield* server.requests).map(({ provider }) => provider),
          ["anthropic", "openai"]
        )
      }
    })
  )

  it.live("is that of the fallback if the fallback refuses, too", () =>
    Effect.gen(function* () {
      const plan: FaultPlan.FaultPlan = { answers, faults: [{ ...refusal, times: "always" }] }
      for (const way of ["whole", "streamed"] as const) {
        const { model } = yield* served(plan, fallback)
        const result =
          way === "whole"
            ? yield* Effect.promise(() => generateText({ model, prompt }))
            : streamText({ model, prompt })
        assert.strictEqual(yield* Effect.promise(async () => result.finishReason), "content-filter")
        assert.strictEqual(yield* Effect.promise(async () => result.rawFinishReason), "content_filter")
        // Both were paid for.
        assert.strictEqual((yield* Effect.promise(async () => result.usage)).inputTokens, 20)
      }
    })
  )

  it.live("is an error if the fallback fails", () =>
    Effect.gen(function* () {
      const { model } = yield* served(
        { answers, faults: [refusal, { fault: { type: "status", status: 401 }, times: "always" }] },
        fallback
      )
      const error = yield* Effect.promise(() =>
        generateText({ model, prompt }).catch((cause: unknown) => cause)
      )
      assert.isTrue(APICallError.isInstance(error))
    })
  )
})
