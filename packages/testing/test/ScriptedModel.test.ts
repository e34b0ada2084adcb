import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Redacted, Stream } from "effect"
import { IdGenerator, LanguageModel, Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import { KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { FaultPlan, ScriptedModel } from "@outlast/testing"

/** Calls a model like effect/ai, with every field of its requests. */
const asLanguageModel = (
  model: ProviderModel.ProviderModel,
  attempt: Partial<ProviderModel.ProviderRequest> = {}
) => {
  const failures: Array<unknown> = []
  const request = (options: LanguageModel.ProviderOptions): ProviderModel.ProviderRequest => ({
    ...options,
    target: { id: "scripted/m", provider: "scripted", model: "m", endpoint: "", key: "" },
    key: undefined,
    maxOutputTokens: undefined,
    ...attempt
  })
  const noted = <E>(failure: E) => Effect.sync(() => failures.push(failure))
  return Effect.map(
    LanguageModel.make({
      generateText: (options) =>
        model.generateText(request(options)).pipe(Effect.tapError(noted), Effect.orDie),
      streamText: (options) => model.streamText(request(options)).pipe(Stream.tapError(noted), Stream.orDie)
    }),
    (service) => ({
      service,
      failures: failures as Array<{ reason: { _tag: string }; evidence: any; retryAfter: any }>
    })
  )
}

const answers: FaultPlan.FaultPlan["answers"] = [
  {
    reasoning: "I think.",
    text: "Hello big world",
    toolCalls: [{ id: "c1", name: "add", params: { a: 1, b: "two" } }],
    usage: { input: 10, cacheRead: 4, output: 6 }
  }
]

const make = (faults: ReadonlyArray<FaultPlan.Fault>, attempt: Partial<ProviderModel.ProviderRequest> = {}) =>
  Effect.gen(function* () {
    const scripted = yield* ScriptedModel.make({
      provider: "anthropic",
      model: "m",
      plan: { faults: faults.map((fault) => ({ fault })), answers }
    })
    const { service, failures } = yield* asLanguageModel(yield* scripted.build, attempt)
    const asked = { prompt: "hi", disableToolCallResolution: true, toolCallValidation: "deferred" } as const
    return { scripted, failures, generate: service.generateText(asked), stream: service.streamText(asked) }
  })

const run = <A, E>(effect: Effect.Effect<A, E, any>) =>
  // all required services are provided here
  effect.pipe(
    Effect.provideService(IdGenerator.IdGenerator, IdGenerator.defaultIdGenerator),
    Effect.scoped
  ) as Effect.Effect<A, E>

describe("a scripted model", () => {
  it.effect("returns a whole answer", () =>
    run(
      Effect.gen(function* () {
        const { generate } = yield* make([])
        const answer = yield* generate
        assert.strictEqual(answer.text, "Hello big world")
        assert.strictEqual(answer.reasoningText, "I think.")
        assert.deepStrictEqual(
          answer.toolCalls.map(({ id, name, params }) => ({ id, name, params })),
          [{ id: "c1", name: "add", params: { a: 1, b: "two" } }] as any
        )
        assert.strictEqual(answer.finishReason, "tool-calls")
        assert.strictEqual(answer.usage.inputTokens.total, 10)
        assert.strictEqual(answer.usage.inputTokens.uncached, 6)
      })
    )
  )

  it.effect("streams an answer, with every block opened and closed", () =>
    run(
      Effect.gen(function* () {
        const { stream } = yield* make([])
        const types = (yield* Stream.runCollect(stream)).map(({ type }) => type)
        assert.deepStrictEqual(types, [
          "response-metadata",
          "reasoning-start",
          "reasoning-delta",
          "reasoning-delta",
          "reasoning-end",
          "text-start",
          "text-delta",
          "text-delta",
          "text-delta",
          "text-end",
          "tool-params-start",
          "tool-params-delta",
          "tool-params-delta",
          "tool-params-end",
          "tool-call",
          "finish"
        ])
      })
    )
  )

  it.effect("closes the block that the output limit cuts, and sends no partial tool call", () =>
    run(
      Effect.gen(function* () {
        const cut = yield* make([], { maxOutputTokens: 3 })
        const parts = yield* Stream.runCollect(cut.stream)
        assert.deepStrictEqual(
          parts.slice(-3).map(({ type }) => type),
          ["text-delta", "text-end", "finish"]
        )
        assert.strictEqual((yield* cut.generate).finishReason, "length")
        const half = yield* make([], { maxOutputTokens: 6 })
        assert.deepStrictEqual((yield* half.generate).toolCalls, [])
        assert.notInclude(
          (yield* Stream.runCollect(half.stream)).map(({ type }) => type),
          "tool-call"
        )
      })
    )
  )

  it.effect("fails with the reason of the classifier", () =>
    run(
      Effect.gen(function* () {
        const { generate, failures } = yield* make([
          { type: "status", status: 429, headers: { "Retry-After": "7" } },
          { type: "status", status: 529 },
          { type: "reset" },
          { type: "cut", after: 1 },
          { type: "garbage", body: "<html>" },
          { type: "stream-error", after: 1, error: { type: "overloaded_error", message: "Overloaded" } }
        ])
        for (let i = 0; i < 6; i++) yield* Effect.exit(generate)
        assert.deepStrictEqual(
          failures.map(({ reason }) => reason._tag),
          ["RateLimit", "Overloaded", "Network", "Network", "Format", "Overloaded"]
        )
        assert.deepStrictEqual(failures[0]?.evidence.status, 429)
        assert.isDefined(failures[0]?.retryAfter)
      })
    )
  )

  it.effect("breaks streams after the deltas of the plan", () =>
    run(
      Effect.gen(function* () {
        const faults: ReadonlyArray<FaultPlan.Fault> = [
          { type: "cut", after: 3 },
          { type: "reset", after: 3 },
          { type: "stream-error", after: 3, error: { type: "api_error", message: "no" } }
        ]
        const { stream, failures } = yield* make(faults)
        for (let i = 0; i < 3; i++) {
          const seen: Array<string> = []
          const exit = yield* Effect.exit(
            Stream.runForEach(stream, ({ type }) => Effect.sync(() => seen.push(type)))
          )
          assert.isTrue(Exit.isFailure(exit))
          assert.deepStrictEqual(seen.slice(-2), ["text-start", "text-delta"])
        }
        assert.deepStrictEqual(
          failures.map(({ reason }) => reason._tag),
          ["Network", "Network", "ServerError"]
        )
      })
    )
  )

  it.effect("returns the text of cut arguments with the call, unless the finish reason admits the cut", () =>
    run(
      Effect.gen(function* () {
        const reasons = ["stop", "tool-calls", "length"] as const
        const { stream, generate } = yield* make(
          reasons.flatMap((reason) => [
            { type: "finish", reason, after: 6 },
            { type: "finish", reason, after: 6 }
          ])
        )
        for (const reason of reasons) {
          const streamed = yield* Stream.runCollect(stream)
          const whole = yield* generate
          const cut = streamed.find((part) => part.type === "tool-call")
          assert.deepStrictEqual(
            cut?.params,
            whole.content.find((part) => part.type === "tool-call")?.params,
            reason
          )
          assert.strictEqual(typeof cut?.params, reason === "length" ? "undefined" : "string")
        }
      })
    )
  )

  it.effect("keeps a stalled stream alive with parts without content", () =>
    run(
      Effect.gen(function* () {
        const { stream } = yield* make([{ type: "stall", after: 3, keepAlive: 5_000 }])
        const seen: Array<string> = []
        const fiber = yield* stream.pipe(
          Stream.runForEach(({ type }) => Effect.sync(() => seen.push(type))),
          Effect.forkChild
        )
        yield* TestClock.adjust("16 seconds")
        assert.deepStrictEqual(seen.slice(-4), ["text-delta", ...Array(3).fill("response-metadata")])
        yield* Fiber.interrupt(fiber)
      })
    )
  )

  it.effect("can be slow in virtual time", () =>
    run(
      Effect.gen(function* () {
        const { stream, generate } = yield* make([
          { type: "slow", delay: 3_600_000 },
          { type: "slow", delay: 3_600_000 }
        ])
        for (const effect of [Stream.runDrain(stream), generate]) {
          const fiber = yield* Effect.forkChild(effect)
          // Seven deltas, an hour each.
          yield* TestClock.adjust("419 minutes")
          assert.isUndefined(fiber.pollUnsafe())
          yield* TestClock.adjust("1 minute")
          yield* Fiber.join(fiber)
        }
      })
    )
  )

  it.effect("stalls without an end, and can be interrupted", () =>
    run(
      Effect.gen(function* () {
        const { stream, generate } = yield* make([
          { type: "stall" },
          { type: "stall", after: 1, keepAlive: 86_400_000 }
        ])
        for (const effect of [generate, Stream.runDrain(stream)]) {
          const fiber = yield* Effect.forkChild(effect)
          yield* TestClock.adjust("365 days")
          assert.isUndefined(fiber.pollUnsafe())
          yield* Fiber.interrupt(fiber)
        }
      })
    )
  )

  it.effect("can share its plan, and records its requests", () =>
    run(
      Effect.gen(function* () {
        const plan = yield* FaultPlan.start({
          faults: [
            { when: { provider: "b", key: "sk-2" }, fault: { type: "status", status: 401 } },
            { fault: { type: "reset" } }
          ],
          answers
        })
        const keys = [KeySource.value("KEY", Redacted.make("sk-2"))]
        const a = yield* ScriptedModel.make({ provider: "a", model: "m", plan })
        const b = yield* ScriptedModel.make({
          provider: "b",
          model: "n",
          plan,
          keys,
          endpoint: "https://b",
          info: { reasoning: true }
        })
        assert.deepInclude(b, { provider: "b", model: "n", endpoint: "https://b", keys })
        assert.deepStrictEqual((yield* b.build).info, { reasoning: true })
        const one = yield* asLanguageModel(yield* a.build)
        const two = yield* asLanguageModel(yield* b.build, { key: Redacted.make("sk-2"), maxOutputTokens: 9 })
        yield* TestClock.adjust("1 second")
        yield* Effect.exit(one.service.generateText({ prompt: "x" }))
        yield* Effect.exit(two.service.generateText({ prompt: "y" }))
        yield* Stream.runDrain(
          two.service.streamText({
            prompt: "z",
            disableToolCallResolution: true,
            toolCallValidation: "deferred"
          })
        )
        assert.deepStrictEqual(
          [one.failures[0]?.reason._tag, two.failures[0]?.reason._tag],
          ["Network", "Auth"]
        )
        assert.deepStrictEqual(
          (yield* b.requests).map(({ time, streaming, key, prompt, options, reply }) => [
            time,
            streaming,
            key,
            prompt.content.length,
            options.maxOutputTokens,
            reply.type
          ]),
          [
            [1_000, false, "sk-2", 1, 9, "respond"],
            [1_000, true, "sk-2", 1, 9, "speech"]
          ]
        )
        assert.strictEqual((yield* a.requests).length, 1)
      })
    )
  )

  it.effect("continues a partial answer in its prompt", () =>
    run(
      Effect.gen(function* () {
        const scripted = yield* ScriptedModel.make({ provider: "a", model: "m", plan: { answers } })
        const { service } = yield* asLanguageModel(yield* scripted.build)
        const prompt = Prompt.make([
          { role: "system", content: "Be brief." },
          { role: "user", content: "hi" },
          { role: "assistant", content: "Hello big" },
          { role: "user", content: "go on" }
        ])
        const answer = yield* service.generateText({
          prompt,
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        })
        assert.strictEqual(answer.text, " world")
      })
    )
  )
})
