import { assert, it } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Option, Schema, Stream } from "effect"
import { AiError, LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Response } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, Outlast, RecoveryPolicy } from "@outlast/agent"
import { ForeignModel, OutputLimit } from "@outlast/agent/failover"
import { Options } from "@outlast/resilience"
import { inspect } from "node:util"

const policy = RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive)
const usage = {
  inputTokens: { uncached: 1, total: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined }
}
const finish = (reason: Response.FinishReason): Response.FinishPartEncoded => ({
  type: "finish",
  reason,
  usage,
  response: undefined
})

const At = Tool.make("at", {
  parameters: Schema.Struct({ day: Schema.DateFromString }),
  success: Schema.Finite
})
const Kit = Toolkit.make(At)
const call = { type: "tool-call", id: "t", name: "at", params: { day: "2026-01-02T00:00:00.000Z" } } as const

const vendor = (
  hooks: Partial<Parameters<typeof LanguageModel.make>[0]>,
  withOutputLimit?: ForeignModel.WithOutputLimit
) =>
  ForeignModel.target({
    withOutputLimit,
    provider: "vendor",
    model: "v1",
    layer: Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({ generateText: () => Effect.succeed([]), streamText: () => Stream.empty, ...hooks })
    )
  })

it.effect("tools of a foreign model run once, with decoded parameters, in text and stream", () =>
  Effect.gen(function* () {
    const days: Array<number> = []
    const live = Kit.toLayer({ at: ({ day }) => Effect.sync(() => (days.push(day.getUTCDate()), 1)) })
    const target = vendor({
      generateText: () => Effect.succeed([call, finish("tool-calls")]),
      streamText: () => Stream.make<Array<Response.StreamPartEncoded>>(call, finish("tool-calls"))
    })
    yield* Effect.gen(function* () {
      const response = yield* LanguageModel.generateText({ prompt: "x", toolkit: Kit })
      assert.deepStrictEqual(
        response.toolResults.map(({ result }) => result),
        [1]
      )
      yield* Stream.runDrain(LanguageModel.streamText({ prompt: "x", toolkit: Kit }))
    }).pipe(Effect.provide([live, Failover.layer([target], { policy })]))
    assert.deepStrictEqual(days, [2, 2])
  })
)

it.effect("objects pass through a foreign model", () =>
  Effect.gen(function* () {
    const target = vendor({
      generateText: ({ responseFormat }) =>
        Effect.succeed([
          { type: "text", text: responseFormat.type === "json" ? '{"v":1}' : "text" },
          finish("stop")
        ])
    })
    const { value } = yield* LanguageModel.generateObject({
      prompt: "x",
      schema: Schema.Struct({ v: Schema.Finite })
    }).pipe(Effect.provide(Failover.layer([target], { policy })))
    assert.deepStrictEqual(value, { v: 1 })
  })
)

it.effect("AiErrors of a foreign model are classified and keep their retryAfter", () =>
  Effect.gen(function* () {
    let calls = 0
    const target = vendor({
      generateText: () =>
        Effect.suspend(() =>
          calls++ === 0
            ? Effect.fail(
                AiError.make({
                  module: "Vendor",
                  method: "generateText",
                  reason: new AiError.RateLimitError({ retryAfter: Duration.seconds(7) })
                })
              )
            : Effect.succeed([{ type: "text", text: "ok" }, finish("stop")])
        )
    })
    const fiber = yield* LanguageModel.generateText({ prompt: "x" }).pipe(
      Effect.provide(Failover.layer([target], { policy })),
      Effect.forkChild
    )
    yield* TestClock.adjust("6999 millis")
    assert.strictEqual(calls, 1)
    yield* TestClock.adjust("1 millis")
    const response = yield* Fiber.join(fiber)
    assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(response.content)).attempts, 2)
  })
)

it.effect("the response in an AiError is used when it says more than the reason", () =>
  Effect.gen(function* () {
    const target = vendor({
      generateText: () =>
        Effect.fail(
          AiError.make({
            module: "Vendor",
            method: "generateText",
            reason: new AiError.UnknownError({ http: { response: { status: 402, headers: {} } } })
          })
        )
    })
    const error = yield* Effect.flip(LanguageModel.generateText({ prompt: "x" })).pipe(
      Effect.provide(Failover.layer([target], { policy }))
    )
    const failure = Option.getOrThrow(Outlast.failureOf(error))
    assert.isTrue(failure._tag === "AllTargetsOut" && failure.targets[0]?.failure.reason._tag === "Billing")
  })
)

const VendorLimit: Context.Reference<number> = Context.Reference<number>("VendorLimit", {
  defaultValue: () => 1_000
})

it.effect("a foreign model gets the call's output limit in text and stream, by `withOutputLimit`", () =>
  Effect.gen(function* () {
    const limits: Array<number> = []
    const heard = Effect.map(VendorLimit, (limit) => void limits.push(limit))
    const hooks = {
      generateText: () => Effect.as(heard, [finish("stop")]),
      streamText: () => Stream.fromEffect(Effect.as(heard, finish("stop")))
    }
    const ask = Effect.andThen(
      LanguageModel.generateText({ prompt: "x" }),
      Stream.runDrain(LanguageModel.streamText({ prompt: "x" }))
    )
    const asked = (target: ReturnType<typeof vendor>, limit: number | undefined) =>
      ask.pipe(
        Effect.provide(Failover.layer([target], { policy })),
        Effect.provideService(OutputLimit.OutputLimit, limit)
      )
    const telling = vendor(hooks, (tokens) => Context.make(VendorLimit, tokens))
    yield* asked(telling, 50)
    yield* asked(telling, undefined)
    yield* asked(vendor(hooks), 50)
    assert.deepStrictEqual(limits, [50, 50, 1_000, 1_000, 1_000, 1_000])
  })
)

it("a key in place of a name is rejected without quoting it", () => {
  // Split, so that no scanner takes it for a real key.
  const key = ["sk-ant-", "api03-planted0123456789abcdef"].join("")
  const layer = Layer.empty as unknown as Layer.Layer<LanguageModel.LanguageModel>
  for (const name of [key, `Bearer ${key}`, `gpt:${key}`]) {
    for (const [field, names] of [
      ["provider", { provider: name, model: "m" }],
      ["model", { provider: "p", model: name }]
    ] as const) {
      try {
        ForeignModel.target({ ...names, layer })
        assert.fail("It was taken.")
      } catch (error) {
        assert.instanceOf(error, Options.InvalidOption)
        assert.strictEqual(error.message, `ForeignModel: ${field} must be a name, not a key`)
        assert.notInclude(inspect(error, { showHidden: true }), key)
      }
    }
  }
})
