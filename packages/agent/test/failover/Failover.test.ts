import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Inspectable, Layer, Logger, Option, Schema, Stream } from "effect"
import { AiError, Chat, LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Classifier, Failover, KeySource, Outlast, ProviderFailure } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { failureOf, inTime, key, policy, rateLimited, recording, status } from "../support.ts"

const hello: FaultPlan.FaultPlan = { answers: [{ text: "hello there, dear reader" }] }

const model = (
  name: string,
  faults: ReadonlyArray<FaultPlan.Step>,
  options: Partial<ScriptedModel.Options> = {}
) =>
  ScriptedModel.make({
    provider: "anthropic",
    model: name,
    keys: [key("KEY_A")],
    plan: { ...hello, faults },
    ...options
  })

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

describe("waits and switches", () => {
  it.effect("a single target with retry-after: 7 waits exactly 7 s", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ fault: rateLimited(7) }])
      const response = yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))
      assert.strictEqual(response.text, "hello there, dear reader")
      assert.deepStrictEqual(
        (yield* target.requests).map(({ time }) => time),
        [0, 7_000]
      )
    })
  )

  it.effect("a second key that is ready is used at once after a 429", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ fault: rateLimited(7) }], { keys: [key("KEY_A"), key("KEY_B")] })
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))
      const requests = yield* target.requests
      assert.deepStrictEqual(
        requests.map(({ time, key }) => [time, key]),
        [
          [0, "secret-of-KEY_A"],
          [0, "secret-of-KEY_B"]
        ]
      )
    })
  )

  it.effect("a Retry-After of two seconds is slept even if a second key is ready", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ fault: rateLimited(2) }], { keys: [key("KEY_A"), key("KEY_B")] })
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))
      assert.deepStrictEqual(
        (yield* target.requests).map(({ time, key }) => [time, key]),
        [
          [0, "secret-of-KEY_A"],
          [2_000, "secret-of-KEY_A"]
        ]
      )
    })
  )

  it.effect("repeated short waits of a server do not keep a call from a second key", () =>
    Effect.gen(function* () {
      const target = yield* model(
        "m",
        [{ when: { key: "secret-of-KEY_A" }, times: "always", fault: rateLimited(1) }],
        {
          keys: [key("KEY_A"), key("KEY_B")]
        }
      )
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))
      assert.deepStrictEqual(
        (yield* target.requests).map(({ time, key }) => [time, key]),
        [
          [0, "secret-of-KEY_A"],
          [1_000, "secret-of-KEY_A"],
          [1_000, "secret-of-KEY_B"]
        ]
      )
    })
  )

  it.effect("a 401 rotates the key at once, and the key cools 10 min", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ fault: status(401) }], { keys: [key("KEY_A"), key("KEY_B")] })
      const { events, layer } = recording()
      yield* Effect.gen(function* () {
        yield* ask
        yield* TestClock.adjust("599999 millis")
        yield* ask
        yield* TestClock.adjust("1 millis")
        yield* ask
      }).pipe(Effect.provide([Failover.layer([target], { policy: { ...policy, probe: false } }), layer]))
      assert.deepStrictEqual(
        (yield* target.requests).map(({ time, key }) => [time, key]),
        [
          [0, "secret-of-KEY_A"],
          [0, "secret-of-KEY_B"],
          [599_999, "secret-of-KEY_B"],
          [600_000, "secret-of-KEY_A"]
        ]
      )
      const cooldown = events.find((event) => event._tag === "CooldownOpened")
      assert.deepInclude(cooldown, { scope: "key", reason: "Auth", length: 600_000 })
    })
  )

  it.effect("all keys wrong fails at once and names the variables", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ times: "always", fault: status(401) }], {
        keys: [key("KEY_A"), key("KEY_B")]
      })
      const failure = yield* failureOf(ask).pipe(Effect.provide(Failover.layer([target], { policy })))
      assert.strictEqual(failure._tag, "AllTargetsOut")
      assert.include(failure.message, "Set KEY_A to a valid key")
      assert.include(failure.message, "Set KEY_B to a valid key")
      assert.strictEqual((yield* target.requests).length, 2)
    })
  )

  it.effect("all rate-limited waits for the soonest", () =>
    Effect.gen(function* () {
      const target = yield* model(
        "m",
        [
          { when: { key: "secret-of-KEY_A" }, fault: rateLimited(30) },
          { when: { key: "secret-of-KEY_B" }, fault: rateLimited(20) }
        ],
        { keys: [key("KEY_A"), key("KEY_B")] }
      )
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))
      assert.deepStrictEqual(
        (yield* target.requests).map(({ time, key }) => [time, key]),
        [
          [0, "secret-of-KEY_A"],
          [0, "secret-of-KEY_B"],
          [20_000, "secret-of-KEY_B"]
        ]
      )
    })
  )

  for (const [code, level, logged] of [
    [401, "Error", "the key was refused"],
    [402, "Error", "no money or quota left"],
    [404, "Error", "the model is not available"],
    [429, "Warn", "rate limited"],
    [500, "Warn", "the provider failed"]
  ] as const) {
    it.effect(`a ${code} that is left for another target is one line in the log, of the level ${level}`, () =>
      Effect.gen(function* () {
        const lines: Array<string> = []
        const logger = Logger.make(({ logLevel, message }) => lines.push(`${logLevel}: ${String(message)}`))
        const first = yield* model("m1", [{ times: "always", fault: status(code) }])
        const chain = [first, yield* model("m2", [], { keys: [key("KEY_B")] })] as const
        yield* inTime(
          Effect.andThen(ask, ask).pipe(
            Effect.provide(Failover.layer(chain, { policy })),
            Effect.provide(Logger.layer([logger]))
          )
        )
        assert.strictEqual(lines.length, 1)
        const [line] = lines
        assert.isTrue(line?.startsWith(`${level}: `))
        assert.include(line, "anthropic/m1#KEY_A: ")
        assert.include(line, logged)
        assert.notInclude(line, "secret-of")
      })
    )
  }

  it.effect("a wait is shown in whole seconds, and in milliseconds below one second", () =>
    Effect.gen(function* () {
      const waits = ["299993.1 millis", "12420 millis", "300 seconds", "0.4 millis", "250.2 millis"] as const
      const messages = yield* Effect.forEach(waits, (wait) =>
        Classifier.failure({ status: 429 }).pipe(
          Effect.map(
            (failure) =>
              new ProviderFailure.ProviderFailure({ ...failure, retryAfter: Duration.fromInputUnsafe(wait) })
                .message
          )
        )
      )
      assert.deepStrictEqual(
        messages.map((message) => /retry after ([^.]*)\./.exec(message)?.[1]),
        ["5m", "13s", "5m", "0", "250ms"]
      )
    })
  )

  it.effect("all rate-limited beyond the deadline fails at once with the soonest time", () =>
    Effect.gen(function* () {
      const target = yield* model(
        "m",
        [
          { when: { key: "secret-of-KEY_A" }, fault: rateLimited(400) },
          { when: { key: "secret-of-KEY_B" }, fault: rateLimited(300) }
        ],
        { keys: [key("KEY_A"), key("KEY_B")] }
      )
      const error = yield* Effect.flip(ask).pipe(Effect.provide(Failover.layer([target], { policy })))
      assert.isTrue(AiError.isAiError(error))
      assert.strictEqual(error.reason._tag, "RateLimitError")
      assert.isFalse(error.isRetryable)
      assert.deepStrictEqual(error.retryAfter, Duration.seconds(300))
      assert.include(error.message, "The soonest target is back in 5m")
    })
  )

  it.effect("a server error is repeated with backoff within the patience, then another model answers", () =>
    Effect.gen(function* () {
      const first = yield* model("m1", [{ times: "always", fault: status(500) }])
      const second = yield* model("m2", [])
      const response = yield* inTime(ask.pipe(Effect.provide(Failover.layer([first, second], { policy }))))
      assert.deepStrictEqual(
        (yield* first.requests).map(({ time }) => time),
        [0, 1_000, 3_000]
      )
      assert.deepStrictEqual(
        (yield* second.requests).map(({ time }) => time),
        [3_000]
      )
      const by = Option.getOrThrow(Outlast.answeredBy(response.content))
      assert.deepInclude(by, {
        requested: "anthropic/m1#KEY_A",
        target: "anthropic/m2#KEY_A",
        attempts: 4,
        switched: "ServerError"
      })
    })
  )

  it.effect("a malformed request stops, because it would fail everywhere", () =>
    Effect.gen(function* () {
      const first = yield* model("m1", [{ times: "always", fault: status(422) }])
      const second = yield* model("m2", [])
      const failure = yield* failureOf(ask).pipe(Effect.provide(Failover.layer([first, second], { policy })))
      assert.isTrue(failure._tag === "ProviderFailure" && failure.reason._tag === "Format")
      assert.strictEqual((yield* second.requests).length, 0)
    })
  )

  it.effect(
    "a success clears the cooldowns, and the next call asks a failed only target of the chain again",
    () =>
      Effect.gen(function* () {
        const target = yield* model("m", [{ fault: status(401) }])
        yield* Effect.gen(function* () {
          assert.strictEqual((yield* failureOf(ask))._tag, "AllTargetsOut")
          assert.strictEqual((yield* ask).text, "hello there, dear reader")
        }).pipe(Effect.provide(Failover.layer([target], { policy })))
      })
  )

  it.effect("a silent model is abandoned after the limit and the next one answers", () =>
    Effect.gen(function* () {
      const first = yield* model("m1", [{ times: "always", fault: { type: "stall" } }])
      const second = yield* model("m2", [])
      const parts = yield* inTime(
        LanguageModel.streamText({ prompt: "x" }).pipe(
          Stream.runCollect,
          Effect.provide(Failover.layer([first, second], { policy }))
        )
      )
      assert.strictEqual(parts.at(-1)?.type, "finish")
      assert.deepStrictEqual(
        (yield* second.requests).map(({ time }) => time),
        [60_000]
      )
    })
  )
})

describe("the boundary", () => {
  it.effect("unset keys are dead targets, and the layer fails only when no target is left", () =>
    Effect.gen(function* () {
      const { tags, layer } = recording()
      const half = yield* model("m", [], { keys: [KeySource.env("NOT_SET_1"), key("KEY_B")] })
      yield* ask.pipe(Effect.provide(Failover.layer([half], { policy }).pipe(Layer.provideMerge(layer))))
      assert.deepStrictEqual(tags(), ["TargetDead", "AttemptStarted", "CallSucceeded"])
      const none = yield* model("m", [], { keys: [KeySource.env("NOT_SET_1"), KeySource.env("NOT_SET_2")] })
      const error = yield* Effect.flip(ask.pipe(Effect.provide(Failover.layer([none], { policy }))))
      assert.strictEqual(error._tag, "ChainError")
      assert.include(error.message, "Set NOT_SET_1 to a valid key")
      assert.include(error.message, "Set NOT_SET_2 to a valid key")
    })
  )

  it.effect("a user's own retry does not multiply the attempts (anomalyco/opencode#30510)", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ times: "always", fault: status(401) }])
      yield* Effect.exit(
        ask.pipe(
          Effect.retry({ times: 5, while: (error) => error.isRetryable }),
          Effect.provide(Failover.layer([target], { policy }))
        )
      )
      assert.strictEqual((yield* target.requests).length, 1)
    })
  )

  it.effect("the failure survives serialisation", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ times: "always", fault: status(401) }])
      const error = yield* Effect.flip(ask).pipe(Effect.provide(Failover.layer([target], { policy })))
      const codec = Schema.toCodecJson(Outlast.CallFailed)
      const json = yield* Schema.encodeUnknownEffect(codec)(error)
      const back = yield* Schema.decodeUnknownEffect(codec)(JSON.parse(JSON.stringify(json)))
      assert.deepStrictEqual(
        Option.map(Outlast.failureOf(back), (failure) => failure._tag),
        Option.some("AllTargetsOut")
      )
    })
  )

  it.effect("neither keys nor prompts appear in an error, however it is printed", () =>
    Effect.gen(function* () {
      const body = {
        error: {
          type: "authentication_error",
          message: "no access for secret-of-KEY_A: the moon landing script was never filmed by anybody"
        }
      }
      const { events, layer } = recording()
      const target = yield* model("m", [{ times: "always", fault: { type: "status", status: 401, body } }])
      const exit = yield* LanguageModel.generateText({
        prompt: "the moon landing script was never filmed by anybody"
      }).pipe(Effect.exit, Effect.provide([Failover.layer([target], { policy }), layer]))
      assert.isTrue(Exit.isFailure(exit))
      const cause = Exit.isFailure(exit) ? exit.cause : Cause.empty
      const error = Cause.squash(cause)
      const printed = [
        Cause.pretty(cause),
        String(error),
        JSON.stringify(error),
        Inspectable.toStringUnknown(error),
        JSON.stringify(events),
        JSON.stringify(yield* Schema.encodeUnknownEffect(Schema.toCodecJson(Outlast.CallFailed))(error))
      ].join("\n")
      assert.notInclude(printed, "secret-of-KEY_A")
      assert.notInclude(printed, "moon landing")
      assert.include(printed, "no access for")
    })
  )
})

const Add = Tool.make("add", {
  parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
  success: Schema.Finite
})
const Kit = Toolkit.make(Add)

describe("code for effect/ai works unchanged", () => {
  it.effect("no tool handler runs for a failed attempt", () =>
    Effect.gen(function* () {
      let ran = 0
      const tools = Kit.toLayer({ add: ({ a, b }) => Effect.sync(() => (ran++, a + b)) })
      const plan: FaultPlan.FaultPlan = {
        // Call and parameters are complete when the stream breaks.
        faults: [{ fault: { type: "reset", after: 100 } }],
        answers: [{ toolCalls: [{ name: "add", params: { a: 1, b: 2 } }] }]
      }
      const target = yield* ScriptedModel.make({ provider: "anthropic", model: "m", plan })
      const parts = yield* inTime(
        LanguageModel.streamText({ prompt: "add", toolkit: Kit }).pipe(
          Stream.runCollect,
          Effect.provide([tools, Failover.layer([target], { policy })])
        )
      )
      assert.strictEqual((yield* target.requests).length, 2)
      assert.strictEqual(ran, 1)
      assert.deepStrictEqual(
        parts.flatMap((part) => (part.type === "tool-result" ? [part.result] : [])),
        [3]
      )
    })
  )

  it.effect("objects fail over like texts", () =>
    Effect.gen(function* () {
      const first = yield* model("m1", [{ times: "always", fault: status(529) }])
      const second = yield* model("m2", [], { plan: { answers: [{ text: '{"sum":3}' }] } })
      const { value } = yield* inTime(
        LanguageModel.generateObject({ prompt: "x", schema: Schema.Struct({ sum: Schema.Finite }) }).pipe(
          Effect.provide(Failover.layer([first, second], { policy }))
        )
      )
      assert.deepStrictEqual(value, { sum: 3 })
    })
  )

  it.effect("a chat keeps the model that answered, and does not send it", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [], { plan: { answers: [{ text: "one" }, { text: "two" }] } })
      yield* Effect.gen(function* () {
        const chat = yield* Chat.empty
        yield* chat.generateText({ prompt: "first" })
        yield* Stream.runDrain(chat.streamText({ prompt: "second" }))
        assert.include(yield* chat.exportJson, "anthropic/m#KEY_A")
      }).pipe(Effect.provide(Failover.layer([target], { policy })))
      const sent = (yield* target.requests).at(-1)
      assert.strictEqual(sent?.prompt.content.length, 3)
      assert.notInclude(JSON.stringify(sent?.prompt), "outlast")
    })
  )

  it.effect("the user's output limit reaches the model, up to the model's own", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [], { info: { maxOutputTokens: 100 } })
      yield* Effect.gen(function* () {
        yield* Effect.provideService(ask, OutputLimit.OutputLimit, 50)
        yield* Effect.provideService(ask, OutputLimit.OutputLimit, 500)
        yield* ask
      }).pipe(Effect.provide(Failover.layer([target], { policy })))
      assert.deepStrictEqual(
        (yield* target.requests).map(({ options }) => options.maxOutputTokens),
        [50, 100, undefined]
      )
    })
  )

  it.effect("an answer reports its cost", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [], {
        info: { price: { input: 3, output: 15, cacheRead: 0.3 } },
        plan: { answers: [{ text: "x", usage: { input: 1_000, output: 100, cacheRead: 400 } }] }
      })
      const response = yield* ask.pipe(Effect.provide(Failover.layer([target], { policy })))
      const { inputTokens, outputTokens } = response.usage
      const by = Option.getOrThrow(Outlast.answeredBy(response.content))
      const expected =
        ((inputTokens.uncached ?? 0) * 3 +
          (inputTokens.cacheRead ?? 0) * 0.3 +
          (outputTokens.total ?? 0) * 15) /
        1e6
      assert.isAbove(by.costUsd ?? 0, 0)
      assert.approximately(by.costUsd ?? 0, expected, 1e-12)
    })
  )
})
