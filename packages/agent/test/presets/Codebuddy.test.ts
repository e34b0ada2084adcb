/** The CodeBuddy preset against its document. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Option, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { ActiveTime } from "@outlast/agent/conversation"
import { Agent, Failover, FailoverReason, Limits, Outlast, Presets, SafetyGuard } from "@outlast/agent"
import { ScriptedModel } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import {
  failure,
  failureOf,
  inTime,
  played,
  rateLimited,
  recording,
  overflow,
  status,
  textOf,
  timed
} from "../support.ts"
import { always, ask, lastWords, model, over, reset, times } from "./scenario.ts"

const { limits, policy, withRetries, withSettings } = Presets.codebuddy

describe("its guard", () => {
  it("has the numbers of the document", () => {
    assert.deepInclude(Limits.make(limits), {
      events: 2_000,
      toolCalls: 400,
      totalTime: 600_000,
      fileEdits: 4,
      tools: new Map([
        ["edit_file", 8],
        ["delete_file", 3],
        ["run_command", 10],
        ["run_terminal_command", 100],
        ["web_search", 8]
      ])
    })
  })

  it("accepts settings in the ranges of the document", () => {
    const own = withSettings({ maxEventCount: 500, maxToolInvocations: 2_000, maxDurationMinutes: 60 })
    assert.deepInclude(Limits.make(own), { events: 500, toolCalls: 2_000, totalTime: 3_600_000 })
    assert.throws(() => withSettings({ maxEventCount: 499 }), /maxEventCount/)
    assert.throws(() => withSettings({ maxToolInvocations: 2_001 }), /maxToolInvocations/)
    assert.throws(() => withSettings({ maxDurationMinutes: 0.5 }), /maxDurationMinutes/)
    const ranges = [
      ["maxEventCount", 500, 10_000],
      ["maxToolInvocations", 50, 2_000],
      ["maxDurationMinutes", 1, 60]
    ] as const
    for (const [name, least, most] of ranges) {
      for (const allowed of [least, most]) withSettings({ [name]: allowed })
      for (const wrong of [least - 1, most + 1]) {
        assert.throws(() => withSettings({ [name]: wrong }), new RegExp(name))
      }
    }
    assert.strictEqual(withSettings({ maxEventCount: 700 }).turns, 701)
    assert.throws(() => withSettings({ maxMinutes: 5 } as {}), /"maxMinutes" is not an option/)
  })

  const Kit = Toolkit.make(
    Tool.make("look_up", { parameters: Schema.Struct({ q: Schema.String }), success: Schema.String })
  )
  const looks = Kit.toLayer({ look_up: ({ q }) => Effect.succeed(`what is known of ${q}`) })
  /** Asks for something new in every turn, without end. */
  const asking = Effect.map(
    ScriptedModel.make({
      provider: "anthropic",
      model: "m",
      plan: {
        answers: ({ turn }) => ({
          toolCalls: [
            { name: "look_up", params: { q: [...`${turn}`].map((n) => "abcdefghij"[+n]).join(" ") } }
          ]
        })
      }
    }),
    (target) => Failover.layer([target])
  )

  it.effect("stops at 400 tool invocations, with the sentence of the document", () =>
    Effect.gen(function* () {
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit, maxTurns: 10_000 }).pipe(
        SafetyGuard.run(limits),
        Effect.flip,
        Effect.provide([looks, yield* asking])
      )
      assert.deepInclude(stop, { _tag: "SafetyStop", reason: "max_tool_calls", limit: 400 })
      assert.include(
        stop.message,
        "Forced stop: reached maximum of 400 tool invocations. Events processed: 800 | Tool calls: 400 | Elapsed: 0s. Please review the work completed so far."
      )
    })
  )

  it.effect("stops after ten minutes, including all waits", () =>
    Effect.gen(function* () {
      const waiting = Effect.andThen(ActiveTime.parked(Effect.sleep("1804 seconds")), Effect.succeed("done"))
      const fiber = yield* Effect.forkChild(Effect.flip(SafetyGuard.run(limits)(waiting)))
      yield* TestClock.adjust("10 minutes")
      const stop = fiber.pollUnsafe()
      assert.isDefined(stop)
      const { reason, message } = yield* Fiber.join(fiber)
      assert.strictEqual(reason, "timeout")
      assert.include(message, "Forced stop: reached maximum of 10m of total time.")
    })
  )
})

describe("a typical failure scenario", () => {
  it.effect(
    "429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider",
    () =>
      Effect.gen(function* () {
        const { layer, of } = recording()
        const primary = yield* model("anthropic", "m1", [always(rateLimited(20))])
        const fallback = yield* model("openai", "m2", [])
        const response = yield* inTime(ask.pipe(over(policy, [primary, fallback]), Effect.provide(layer)))
        assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(response.content)).target, "openai/m2")
        assert.deepStrictEqual([yield* times(primary), yield* times(fallback)], [[0, 1_500, 4_500], [4_500]])
        assert.deepStrictEqual(
          of("CooldownOpened").map(({ scope, reason, length }) => [scope, reason, length]),
          [["endpoint", "RateLimit", 60_000]]
        )
        assert.deepStrictEqual(
          of("TargetSwitched").map(({ target, reason }) => [target.id, reason]),
          [["openai/m2", "RateLimit"]]
        )
        const [question, first, second] = yield* lastWords(primary)
        assert.strictEqual(question, "What is the plan?")
        const inWords = "rate limited"
        const reason = "RateLimit"
        assert.strictEqual(first, Presets.codebuddy.nudge({ reason, inWords, attempt: 2 }))
        assert.strictEqual(second, Presets.codebuddy.nudge({ reason, inWords, attempt: 3 }))
        assert.notStrictEqual(first, second)
      })
  )

  it.effect("the primary is probed once, 30 s before its cooldown ends", () =>
    Effect.gen(function* () {
      const primary = yield* model("anthropic", "m1", [{ times: 4, fault: status(429) }])
      const fallback = yield* model("openai", "m2", [])
      const { layer, of } = recording()
      yield* Effect.gen(function* () {
        // The cooldown lasts from 4.5 s to 64.5 s.
        for (const at of [0, 34_499, 34_500, 50_000, 64_500]) yield* Effect.forkChild(Effect.delay(ask, at))
        yield* TestClock.adjust("2 minutes")
      }).pipe(over(policy, [primary, fallback]), Effect.provide(layer))
      assert.deepStrictEqual(
        [yield* times(primary), yield* times(fallback)],
        [
          [0, 1_500, 4_500, 34_500, 64_500],
          [4_500, 34_499, 34_500, 50_000]
        ]
      )
      // The failed probe did not extend the cooldown.
      assert.lengthOf(of("CooldownOpened"), 1)
    })
  )

  it.effect("the same model at another provider is also asked after the retries", () =>
    Effect.gen(function* () {
      const primary = yield* model("anthropic", "m1", [always(status(429))])
      const same = yield* model("bedrock", "m1", [])
      yield* inTime(ask.pipe(over(policy, [primary, same])))
      assert.deepStrictEqual([yield* times(primary), yield* times(same)], [[0, 1_500, 4_500], [4_500]])
    })
  )

  it.effect("a third retry, if configured, comes after 6 s", () =>
    Effect.gen(function* () {
      const primary = yield* model("anthropic", "m1", [always(status(529))])
      const fallback = yield* model("openai", "m2", [])
      yield* inTime(ask.pipe(over(withRetries(3), [primary, fallback])))
      assert.deepStrictEqual(
        [yield* times(primary), yield* times(fallback)],
        [[0, 1_500, 4_500, 10_500], [10_500]]
      )
    })
  )

  it.effect("a stream that breaks after text continues with the same nudges", () =>
    Effect.gen(function* () {
      const primary = yield* model("anthropic", "m1", [{ fault: { type: "cut", after: 2 } }], {
        plan: {
          answers: [{ text: "The meeting is on Tuesday." }],
          faults: [{ fault: { type: "cut", after: 2 } }]
        }
      })
      const parts = yield* inTime(
        Stream.runCollect(LanguageModel.streamText({ prompt: "When?" })).pipe(over(policy, [primary]))
      )
      assert.strictEqual(textOf(parts), "The meeting is on Tuesday.")
      assert.deepStrictEqual(yield* times(primary), [0, 1_500])
      assert.match((yield* lastWords(primary))[1] ?? "", /the connection failed or broke.*finish your answer/)
    })
  )
})

describe("the table of reasons", () => {
  const minute = 60_000
  const table: ReadonlyArray<readonly [string, FaultPlan.Fault, attempts: number, cooldown: number]> = [
    ["auth: 401", status(401), 1, 10 * minute],
    ["auth: 403", status(403), 1, 10 * minute],
    ["rate_limit: 429", status(429), 3, minute],
    ["billing: 402", status(402), 1, 30 * minute],
    ["timeout: 408", status(408), 3, minute / 2],
    ["overloaded: 502", status(502), 3, 2 * minute],
    ["overloaded: 503", status(503), 3, 2 * minute],
    ["overloaded: 529", status(529), 3, 2 * minute],
    ["overloaded: a broken connection", reset, 3, 2 * minute],
    ["model_not_found: 404", status(404), 1, 60 * minute],
    ["unknown, transient: 500", status(500), 3, minute / 2]
  ]
  for (const [what, fault, attempts, cooldown] of table) {
    it.effect(`${what}: ${attempts} attempts, ${cooldown / 1_000} s`, () =>
      Effect.gen(function* () {
        const { layer, of } = recording()
        const primary = yield* model("anthropic", "m1", [always(fault)])
        const fallback = yield* model("openai", "m2", [])
        yield* inTime(ask.pipe(over(policy, [primary, fallback]), Effect.provide(layer)))
        assert.lengthOf(yield* times(primary), attempts)
        assert.deepStrictEqual(
          of("CooldownOpened").map(({ scope, length }) => [scope, length]),
          [["endpoint", cooldown]]
        )
      })
    )
  }

  it.effect("unknown: 30 s of cooldown, and the next provider at once", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const primary = played({ model: "m1", answers: [Effect.fail(failure(new FailoverReason.Unknown()))] })
      const fallback = yield* model("openai", "m2", [])
      yield* ask.pipe(over(policy, [primary, fallback]), Effect.provide(layer))
      assert.deepStrictEqual(
        of("CooldownOpened").map(({ length }) => length),
        [30_000]
      )
    })
  )

  it.effect("format: no cooldown, no failover", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const primary = yield* model("anthropic", "m1", [always({ type: "garbage", body: "<html>" })])
      const fallback = yield* model("openai", "m2", [])
      const { value, took } = yield* timed(failureOf(ask)).pipe(
        over(policy, [primary, fallback]),
        Effect.provide(layer)
      )
      assert.isTrue(value._tag === "ProviderFailure" && value.reason._tag === "Format")
      assert.deepStrictEqual([took, yield* times(fallback), of("CooldownOpened")], [0, [], []])
    })
  )

  it.effect("a conversation that is too long cools down no provider", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const primary = yield* model("anthropic", "m1", [always(overflow)], { info: { contextWindow: 1 } })
      const larger = yield* model("openai", "m2", [], { info: { contextWindow: 2 } })
      yield* ask.pipe(over(policy, [primary, larger]), Effect.provide(layer))
      assert.deepStrictEqual([yield* times(larger), of("CooldownOpened")], [[0], []])
    })
  )
})

it.effect("a call makes at most three attempts at each of eight providers, within ten minutes", () =>
  Effect.gen(function* () {
    const models = yield* Effect.forEach(Array.from({ length: 9 }), (_, n) =>
      model(`provider-${n}`, `m${n}`, [always(status(500))])
    )
    const [first, ...rest] = models
    if (first === undefined) return
    yield* inTime(failureOf(ask).pipe(over(policy, [first, ...rest])))
    const asked = yield* Effect.forEach(models, times)
    assert.lengthOf(asked.flat(), 24)
    for (const duration of [policy.deadline, policy.patience]) {
      assert.strictEqual(Duration.toMillis(duration), 600_000)
    }
  })
)

it("the number of retries is at least 0", () => {
  assert.strictEqual(withRetries(0).rows.rate_limit.attempts, 1)
  assert.throws(() => withRetries(-1), /maxRetries/)
})

it.effect("when all providers are cooling down, each is asked once more", () =>
  Effect.gen(function* () {
    const primary = yield* model("anthropic", "m1", [always(status(401))])
    const fallback = yield* model("openai", "m2", [always(status(401))])
    const twice = Effect.gen(function* () {
      yield* failureOf(ask)
      yield* TestClock.adjust("1 minute")
      return yield* timed(failureOf(ask))
    })
    const { value, took } = yield* twice.pipe(over(policy, [primary, fallback]))
    assert.deepStrictEqual([value._tag, took], ["AllTargetsOut", 0])
    assert.deepStrictEqual(
      [yield* times(primary), yield* times(fallback)],
      [
        [0, 60_000],
        [0, 60_000]
      ]
    )
  })
)
