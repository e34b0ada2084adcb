import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Schema } from "effect"
import { LanguageModel } from "effect/ai"
import { Agent, Failover, Outlast } from "@outlast/agent"
import { CallFailed } from "#agent/failure/reasons/CallFailed"
import { ServerError } from "#agent/failure/reasons/FailoverReason"
import { local } from "#agent/failure/reasons/ProviderFailure"
import { Retry } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import { inTime, key, policy, status } from "../support.ts"

const secret = "a very private question"

const model = (name: string) =>
  ScriptedModel.make({
    provider: "anthropic",
    model: name,
    keys: [key(`KEY_${name}`)],
    plan: { answers: [], faults: [{ times: "always", fault: status(401) }] }
  })

const chain = Effect.gen(function* () {
  return Failover.layer([yield* model("m1"), yield* model("m2")], { policy })
})

const call = Effect.gen(function* () {
  const layer = yield* chain
  return yield* Effect.flip(LanguageModel.generateText({ prompt: secret }).pipe(Effect.provide(layer)))
})

const run = Effect.gen(function* () {
  const layer = yield* chain
  return yield* Effect.flip(Agent.run({ prompt: secret }).pipe(Effect.provide(layer)))
})

const lines = (text: string): number => text.split("\n").length

/** The error as printed with `console.error`, `Cause.pretty` and a JSON logger. */
const printed = (error: unknown) => ({
  inspected: inspect(error, { depth: 5 }),
  // Node prints an uncaught error in this form.
  uncaught: inspect(error, { depth: 5, customInspect: false }),
  pretty: Cause.pretty(Cause.fail(error)),
  json: JSON.stringify(error)
})

describe("an error of a chain with two targets", () => {
  const errors: ReadonlyArray<readonly [string, Effect.Effect<unknown, unknown>]> = [
    ["CallFailed", call],
    ["AgentFailed", run]
  ]
  for (const [name, failing] of errors) {
    it.effect(`${name} is printed once, below 12 lines, without the conversation`, () =>
      Effect.gen(function* () {
        const error = yield* inTime(failing)
        const { inspected, uncaught, pretty, json } = printed(error)
        for (const text of [inspected, uncaught, pretty]) {
          assert.isBelow(lines(text), 12, text)
          assert.include(text, "Set KEY_m2 to a valid key")
          assert.strictEqual(text.split("Set KEY_m2 to a valid key").length, 2, text)
        }
        for (const text of [inspected, uncaught, pretty, json]) assert.notInclude(text, secret)
        assert.match(inspected, new RegExp(`^${name}: `))
      })
    )
  }

  it.effect("keeps its properties, and its encoded form", () =>
    Effect.gen(function* () {
      const error = yield* inTime(call)
      assert.instanceOf(error, CallFailed)
      assert.strictEqual(error.failure._tag, "AllTargetsOut")
      assert.strictEqual(error.reason._tag, "AuthenticationError")
      assert.strictEqual(error.cause, error.reason)
      const decoded = Schema.decodeUnknownSync(CallFailed)(Schema.encodeSync(CallFailed)(error))
      assert.strictEqual(decoded.message, error.message)
      assert.deepStrictEqual(Outlast.failureOf(decoded), Outlast.failureOf(error))
    })
  )
})

describe("an error of a retry", () => {
  it("is printed with one line for its cause", () => {
    const failure = new Error("the disk is full")
    const error = new Retry.RetryFailed({ failure, attempts: 3, stopped: "attempts" })
    const text = inspect(error)
    assert.match(text, /^RetryFailed: Gave up after 3 attempts/)
    assert.match(text, /\[cause\]: Error: the disk is full$/)
    assert.isBelow(lines(text), 8)
  })
})

describe("a failure at a target", () => {
  it("has no stack, because the error of its call has one", () => {
    const target = {
      id: "openai/m1",
      provider: "openai",
      model: "m1",
      endpoint: "https://api.openai.com",
      key: ""
    }
    const seen = local("status/503", new ServerError(), undefined).at(target, {})
    assert.notInclude(seen.stack, "\n    at ")
    assert.strictEqual(inspect(seen), `ProviderFailure: ${seen.message}`)
  })
})

describe("the refusal of a circuit", () => {
  it("has no stack, because calls that wait for a circuit make one each time they ask", () => {
    const target = {
      id: "openai/m1",
      provider: "openai",
      model: "m1",
      endpoint: "https://api.openai.com",
      key: ""
    }
    const failure = local("status/503", new ServerError(), target)
    assert.include(failure.stack, "\n    at ")
    const refused = failure.refusedBy({ circuit: "https://api.openai.com", reason: "open" }, target)
    assert.notInclude(refused.stack, "\n    at ")
    assert.strictEqual(inspect(refused), `ProviderFailure: ${refused.message}`)
  })
})
