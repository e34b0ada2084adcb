/** The claw0 preset against its document. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Option } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { FailoverReason, Outlast, Presets } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"
import {
  answer,
  failure,
  failureOf,
  inTime,
  key,
  played,
  rateLimited,
  recording,
  overflow,
  status,
  timed
} from "../support.ts"
import { always, ask, compact, model, over, times } from "./scenario.ts"

const { policy, runCap } = Presets.claw0

const names = ["MAIN", "BACKUP", "EMERGENCY"]
const profiles = { keys: names.map(key) }
const at = (name: string) => ({ key: `secret-of-${name}` })

describe("keys", () => {
  it.effect("are used in order and at once; each is available again when its cooldown ends", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const target = yield* model(
        "anthropic",
        "m1",
        [
          { when: at("MAIN"), fault: rateLimited(7) },
          { when: at("BACKUP"), fault: status(401) }
        ],
        profiles
      )
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* timed(ask)).took, 0)
        yield* TestClock.adjust("119999 millis")
        yield* ask
        yield* TestClock.adjust("1 millis")
        yield* ask
      }).pipe(over(policy, [target]), Effect.provide(layer))
      const asked = (yield* target.requests).map(({ time, key }) => [time, key?.replace("secret-of-", "")])
      assert.deepStrictEqual(asked, [
        [0, "MAIN"],
        [0, "BACKUP"],
        [0, "EMERGENCY"],
        [119_999, "EMERGENCY"],
        [120_000, "MAIN"]
      ])
      assert.deepStrictEqual(
        of("CooldownOpened").map(({ reason, length }) => [reason, length]),
        [
          ["RateLimit", 120_000],
          ["Auth", 300_000]
        ]
      )
    })
  )

  const table: ReadonlyArray<readonly [string, FaultPlan.Fault, seconds: number]> = [
    ["auth", status(401), 300],
    ["billing", status(402), 300],
    ["rate_limit", status(429), 120],
    ["timeout", status(408), 60],
    ["unknown", status(500), 120]
  ]
  for (const [what, fault, seconds] of table) {
    it.effect(`cool down for ${seconds} s: ${what}`, () =>
      Effect.gen(function* () {
        const { layer, of } = recording()
        const target = yield* model("anthropic", "m1", [{ when: at("MAIN"), fault }], profiles)
        yield* ask.pipe(over(policy, [target]), Effect.provide(layer))
        assert.lengthOf(yield* times(target), 2)
        assert.deepStrictEqual(
          of("CooldownOpened").map(({ length }) => length),
          [seconds * 1_000]
        )
      })
    )
  }

  it.effect("are used for the fallback model at once when all of them are unavailable", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [always(status(429))], profiles)
      const haiku = yield* model("anthropic", "haiku", [], profiles)
      const { value, took } = yield* timed(ask).pipe(over(policy, [target, haiku]))
      assert.strictEqual(took, 0)
      const by = Option.getOrThrow(Outlast.answeredBy(value.content))
      assert.deepStrictEqual([by.target, by.attempts], ["anthropic/haiku#MAIN", 4])
    })
  )

  it.effect("fail the call at once when all of them are unavailable and there is no other model", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [always(status(429))], profiles)
      const { value, took } = yield* inTime(timed(failureOf(ask)).pipe(over(policy, [target])))
      assert.deepStrictEqual([value._tag, took], ["AllTargetsOut", 0])
      assert.lengthOf(yield* times(target), 3)
    })
  )
})

it.effect("an overflow compacts three times and cools down no key", () =>
  Effect.gen(function* () {
    const { layer, of } = recording()
    const target = yield* model("anthropic", "m1", [always(overflow)], {
      ...profiles,
      info: { contextWindow: 1_000 }
    })
    const long = LanguageModel.generateText({ prompt: "word ".repeat(64) })
    const failed = yield* failureOf(long).pipe(over(policy, [target], { compact }), Effect.provide(layer))
    assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ContextOverflow")
    assert.deepStrictEqual([of("CallCompacting").length, of("CooldownOpened").length], [3, 0])
    assert.lengthOf(yield* times(target), 4)
  })
)

it.effect("a call makes at most 32 attempts, within half an hour of failed ones", () =>
  Effect.gen(function* () {
    const keys = Array.from({ length: 40 }, (_, n) => key(`KEY_${n}`))
    const target = yield* model("anthropic", "m1", [always(status(500))], { keys })
    yield* failureOf(ask).pipe(over(policy, [target]))
    assert.lengthOf(yield* times(target), 32)
    assert.strictEqual(Duration.toMillis(policy.deadline), 1_800_000)
  })
)

it.effect("a cancel stops the call", () =>
  Effect.gen(function* () {
    const cancelled = failure(new FailoverReason.Cancelled())
    const target = played({ keys: profiles.keys, answers: [Effect.fail(cancelled)] })
    yield* failureOf(ask).pipe(over(policy, [target]))
    assert.lengthOf(target.requests, 1)
  })
)

it.effect("an answer has at most 8,096 tokens, and a cut answer is delivered as it is", () =>
  Effect.gen(function* () {
    const target = played({ answers: [answer("half an", "length", 8_096)] })
    const response = yield* ask.pipe(over(policy, [target]))
    assert.deepStrictEqual([response.text, response.finishReason], ["half an", "length"])
    assert.deepStrictEqual(
      target.requests.map(({ request }) => request.maxOutputTokens),
      [8_096]
    )
  })
)

it("the cap of a run is min(max(24 + 8·N, 32), 160)", () => {
  assert.deepStrictEqual([0, 1, 2, 3, 16, 17, 18, 100].map(runCap), [32, 32, 40, 48, 152, 160, 160, 160])
})
