import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Agent, Failover, KeySource } from "@outlast/agent"
import { Anthropic } from "@outlast/providers"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider, ScriptedModel } from "@outlast/testing"

const plan: FaultPlan.FaultPlan = {
  faults: [{ fault: { type: "status", status: 503 } }],
  answers: [{ text: "hello" }]
}

/** A second turn, for which the plan has no answer. */
const prompt = [
  { role: "user", content: "hi" },
  { role: "assistant", content: "hello" },
  { role: "user", content: "and now?" }
] as const

const expected =
  /The fault plan has run out: it has 1 answer, and request 2 asks for answer 2\. Add a step to its answers/

describe("an exhausted fault plan", () => {
  it.live("is reported at once in the failure of a scripted model", () =>
    Effect.gen(function* () {
      const model = yield* ScriptedModel.make({ provider: "anthropic", model: "m", plan })
      const error = yield* Effect.flip(Agent.run({ prompt }).pipe(Effect.provide(Failover.layer([model]))))
      assert.match(error.message, expected)
      assert.lengthOf(yield* model.requests, 2)
    })
  )

  it.live("is reported at once in the failure of a provider over HTTP", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan })
      const model = Anthropic.model("claude-sonnet-4-5", {
        baseUrl: server.baseUrl("anthropic"),
        keys: [KeySource.value("KEY", Redacted.make("key-1"))]
      })
      const error = yield* Effect.flip(Agent.run({ prompt }).pipe(Effect.provide(Failover.layer([model]))))
      assert.match(error.message, expected)
      assert.lengthOf(yield* server.requests, 2)
    }).pipe(Effect.scoped)
  )
})
