/** Rate limits that providers report in headers, over HTTP, and their effect on the next call. */
import { assert, describe, it } from "@effect/vitest"
import { CallLimiter, Failover, KeySource, RecoveryPolicy } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Priority } from "@outlast/agent/limiter"
import { Anthropic, OpenAi } from "@outlast/providers"
import { FakeProvider, FaultPlan, ScriptedModel } from "@outlast/testing"
import { Effect, Fiber, Redacted, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import * as Support from "./support.ts"

const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789"))]

const claude = (server: FakeProvider.FakeProvider, name = "KEY") =>
  Anthropic.model("claude-sonnet-4-5", {
    keys: [KeySource.value(name, Redacted.make(`sk-0123456789-${name}`))],
    baseUrl: server.baseUrl("anthropic")
  })

const gpt = (server: FakeProvider.FakeProvider) =>
  OpenAi.chatModel("gpt-4o", { keys, baseUrl: server.baseUrl("openai") })

/** An answer that reports no requests left. The limit refills one request at a time over `seconds`. */
const usedUp = (limit: number, seconds: number): FaultPlan.Answer => ({
  text: "done",
  headers: {
    "X-RateLimit-Limit-Requests": String(limit),
    "X-RateLimit-Remaining-Requests": "0",
    "X-RateLimit-Reset-Requests": `${seconds}s`
  }
})

const ask = (prompt: string) => Effect.map(LanguageModel.generateText({ prompt }), ({ text }) => text)
const askStreaming = (prompt: string) =>
  Effect.map(Stream.runCollect(LanguageModel.streamText({ prompt })), (parts) =>
    Support.text([...parts] as Parameters<typeof Support.text>[0])
  )

const modelsAsked = ({ requests }: FakeProvider.FakeProvider) =>
  Effect.map(requests, (all) => all.map(({ model }) => model))

describe("an answer that reports an exhausted limit", () => {
  for (const [name, call] of [
    ["whole", ask],
    ["streamed", askStreaming]
  ] as const) {
    it.effect(`${name}: the next call goes to the next target without a request`, () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan: { answers: [usedUp(1, 20)] } })
        yield* Effect.gen(function* () {
          assert.strictEqual(yield* call("one"), "done")
          assert.strictEqual(yield* call("two"), "done")
        }).pipe(Effect.provide(Failover.layer([gpt(server), claude(server)])))
        assert.deepStrictEqual(yield* modelsAsked(server), ["gpt-4o", "claude-sonnet-4-5"])
      })
    )
  }

  for (const [name, call] of [
    ["whole", ask],
    ["streamed", askStreaming]
  ] as const) {
    it.effect(`${name}: works with scripted models, too`, () =>
      Effect.gen(function* () {
        const plan = yield* FaultPlan.start({ answers: [usedUp(1, 20)] })
        const first = yield* ScriptedModel.make({ provider: "openai", model: "gpt-4o", plan })
        const second = yield* ScriptedModel.make({ provider: "anthropic", model: "claude-sonnet-4-5", plan })
        yield* Effect.andThen(call("one"), call("two")).pipe(Effect.provide(Failover.layer([first, second])))
        assert.lengthOf(yield* first.requests, 1)
        assert.lengthOf(yield* second.requests, 1)
      })
    )
  }

  it.effect("makes the next call wait for a limit that refills soon", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [usedUp(1, 2)] } })
      yield* Effect.gen(function* () {
        yield* ask("one")
        const second = yield* Effect.forkChild(ask("two"), { startImmediately: true })
        yield* TestClock.adjust("2 seconds")
        assert.strictEqual(yield* Fiber.join(second), "done")
      }).pipe(Effect.provide(Failover.layer([gpt(server), claude(server)])))
      assert.deepStrictEqual(
        (yield* server.requests).map(({ model, time }) => [model, time]),
        [
          ["gpt-4o", 0],
          ["gpt-4o", 2_000]
        ]
      )
    })
  )

  it.effect("lets interactive calls pass earlier background calls", () =>
    Effect.gen(function* () {
      // Only the first answer reports it: later ones have the fake API's own headers, which leave plenty.
      const answers: FaultPlan.FaultPlan["answers"] = ({ messages }) =>
        JSON.stringify(messages).includes("first") ? usedUp(2, 2) : { text: "done" }
      const server = yield* FakeProvider.make({ plan: { answers } })
      yield* Effect.gen(function* () {
        yield* ask("first")
        const background = yield* Effect.forkChild(
          Effect.provideService(ask("later"), Priority.Priority, "background"),
          { startImmediately: true }
        )
        const interactive = yield* Effect.forkChild(ask("now"), { startImmediately: true })
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(interactive)
        yield* Fiber.join(background)
      }).pipe(Effect.provide(Failover.layer([gpt(server)])))
      const asked = (yield* server.requests).map(
        ({ body }) => /first|later|now/.exec(JSON.stringify(body))?.[0]
      )
      assert.deepStrictEqual(asked, ["first", "now", "later"])
    })
  )

  it.effect("has no effect without a limiter", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [usedUp(1, 20)] } })
      const layer = Failover.layer([gpt(server), claude(server)], { limiter: false })
      yield* Effect.andThen(ask("one"), ask("two")).pipe(Effect.provide(layer))
      assert.deepStrictEqual(yield* modelsAsked(server), ["gpt-4o", "gpt-4o"])
    })
  )

  it.effect("limits only the key that was sent", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [usedUp(1, 20)] } })
      yield* Effect.andThen(ask("one"), ask("two")).pipe(
        Effect.provide(Failover.layer([claude(server, "ONE"), claude(server, "TWO")]))
      )
      assert.deepStrictEqual(
        (yield* server.requests).map(({ key }) => key),
        ["…-ONE", "…-TWO"]
      )
    })
  )
})

describe("a limiter receives", () => {
  /** The values of one header, in order of arrival. */
  const heard = (
    spec: ProviderModel.TargetSpec,
    call: (...request: Parameters<typeof Support.generate>) => Effect.Effect<unknown, unknown>
  ) => {
    const values: Array<unknown> = []
    const listening = {
      heard: (headers: unknown) =>
        void values.push(Reflect.get(Object(headers), "x-ratelimit-remaining-requests"))
    }
    return Effect.as(Effect.exit(call(spec, "hello", listening)), values)
  }
  const limits = { "x-ratelimit-remaining-requests": "7" }

  for (const [name, call] of [
    ["whole answers", Support.generate],
    ["streams", Support.collect]
  ] as const) {
    it.effect(`the headers of ${name} once`, () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan: { answers: [{ text: "done", headers: limits }] } })
        assert.deepStrictEqual(yield* heard(gpt(server), call), ["7"])
      })
    )

    it.effect(`the headers of failures of ${name}`, () =>
      Effect.gen(function* () {
        const faults = [{ fault: { type: "status", status: 429, headers: limits } }] as const
        const server = yield* FakeProvider.make({ plan: { faults, answers: [] } })
        assert.deepStrictEqual(yield* heard(gpt(server), call), ["7"])
      })
    )
  }

  it.effect("headers without harm to the attempt when it throws", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [{ text: "done" }] } })
      const parts = yield* Support.generate(gpt(server), "hello", {
        heard: () => {
          throw new Error("not listening")
        }
      })
      assert.isTrue(parts.some((part) => part.type === "text" && part.text === "done"))
    })
  )

  it.effect("headers also as a custom limiter", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [usedUp(1, 20)] } })
      const limiter = yield* CallLimiter.make()
      yield* ask("one").pipe(Effect.provide(Failover.layer([gpt(server)], { limiter })))
      const later = yield* Effect.flip(
        Effect.provide(
          ask("two"),
          Failover.layer([gpt(server)], {
            limiter,
            policy: { ...RecoveryPolicy.interactive, whenAllOut: "fail" }
          })
        )
      )
      assert.include(later.message, "back in 20s")
    })
  )
})
