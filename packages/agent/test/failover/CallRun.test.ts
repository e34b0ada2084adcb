/**
 * Waits, cooldowns and the effect of calls on each other, in virtual time.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Option, Random } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, FailoverReason, Outlast, RecoveryPolicy } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import type { Chain, Played } from "../support.ts"
import {
  answer,
  failure,
  failureOf,
  inTime,
  key,
  played,
  policy,
  rateLimited,
  recording,
  serverError,
  overflow,
  status,
  timed,
  timesOf
} from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

const model = (
  name: string,
  faults: ReadonlyArray<FaultPlan.Step>,
  options: Partial<ScriptedModel.Options> = {}
) =>
  ScriptedModel.make({
    provider: "anthropic",
    model: name,
    plan: { answers: [{ text: "hello" }], faults },
    ...options
  })

const over = (chain: Chain, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes } }))

const twoKeys = { keys: [key("KEY_A"), key("KEY_B")] }
const always = (fault: FaultPlan.Fault): FaultPlan.Step => ({ times: "always", fault })

const times = (target: ScriptedModel.ScriptedModel) =>
  Effect.map(target.requests, (requests) => requests.map(({ time }) => time))
const timesAndKeys = (target: ScriptedModel.ScriptedModel) =>
  Effect.map(target.requests, (requests) => requests.map(({ time, key }) => [time, key?.slice(-1)]))

/** Starts a call `millis` milliseconds from now. */
const askAt = (millis: number) => Effect.forkChild(Effect.delay(ask, millis))

describe("a wait that the server names", () => {
  it.effect("of 60 s is slept; one of 61 s becomes a cooldown and a switch", () =>
    Effect.gen(function* () {
      const patient = { patience: Duration.seconds(120) }
      const short = [yield* model("m1", [{ fault: rateLimited(60) }]), yield* model("m2", [])] as const
      yield* inTime(ask.pipe(over(short, patient)))
      assert.deepStrictEqual([yield* times(short[0]), yield* times(short[1])], [[0, 60_000], []])

      const { layer, of } = recording()
      const [first, second] = [yield* model("m1", [{ fault: rateLimited(61) }]), yield* model("m2", [])]
      const began = yield* Clock.currentTimeMillis
      yield* Effect.gen(function* () {
        yield* ask
        yield* TestClock.adjust("60999 millis")
        yield* ask
        yield* TestClock.adjust("1 millis")
        yield* ask
      }).pipe(over([first, second], patient), Effect.provide(layer))
      assert.deepStrictEqual(
        [yield* times(first), yield* times(second)].map((all) => all.map((time) => time - began)),
        [
          [0, 61_000],
          [0, 60_999]
        ]
      )
      assert.deepStrictEqual(
        of("CooldownOpened").map(({ scope, length }) => [scope, length]),
        [["key+model", 61_000]]
      )
    })
  )

  it.effect("of 61 s fails a call without another target at once, with the time until it is back", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ fault: rateLimited(61) }])
      const { value, took } = yield* timed(failureOf(ask)).pipe(over([target]))
      assert.strictEqual(took, 0)
      assert.isTrue(value._tag === "AllTargetsOut" && value.soonest !== undefined)
      assert.strictEqual(
        value._tag === "AllTargetsOut" && value.soonest && Duration.toMillis(value.soonest),
        61_000
      )
    })
  )

  it.effect("holds for other calls at once, although the first call stays at the target", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ fault: rateLimited(7) }])
      yield* inTime(
        Effect.gen(function* () {
          const others = [yield* askAt(0), yield* askAt(1), yield* askAt(6_999)]
          yield* Fiber.joinAll(others)
        }).pipe(over([target]))
      )
      assert.deepStrictEqual(yield* times(target), [0, 7_000, 7_000, 7_000])
    })
  )

  it.effect("stops a delayed repeat when another call got that wait meanwhile", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ fault: status(500) }, { fault: rateLimited(10) }])
      const { layer, of } = recording()
      yield* inTime(
        Effect.gen(function* () {
          const calls = [yield* askAt(0), yield* askAt(500)]
          yield* Fiber.joinAll(calls)
        }).pipe(over([target]), Effect.provide(layer))
      )
      assert.deepStrictEqual(yield* times(target), [0, 500, 10_500, 10_500])
      assert.strictEqual(of("CallWaiting").filter(({ reason }) => reason === "cooldown").length, 1)
    })
  )

  it.effect("is exact without jitter; with jitter twenty waiting calls do not wake together", () =>
    Effect.gen(function* () {
      const wakeTimes = (policy: RecoveryPolicy.RecoveryPolicy) =>
        Effect.gen(function* () {
          const target = yield* model("m", [{ fault: rateLimited(20) }])
          const began = yield* Clock.currentTimeMillis
          yield* inTime(
            Effect.gen(function* () {
              const calls = yield* Effect.forEach(Array.from({ length: 21 }).keys(), (n) => askAt(n * 10))
              yield* Fiber.joinAll(calls)
            }).pipe(Random.withSeed("outlast"), Effect.provide(Failover.layer([target], { policy })))
          )
          const [first, ...woken] = (yield* times(target)).map((time) => time - began)
          assert.strictEqual(first, 0)
          assert.strictEqual(woken.length, 21)
          return woken
        })
      assert.deepStrictEqual(new Set(yield* wakeTimes(policy)), new Set([20_000]))
      const jittered = yield* wakeTimes(RecoveryPolicy.interactive)
      for (const time of jittered) assert.isTrue(time >= 20_000 && time <= 22_000)
      assert.isAbove(new Set(jittered).size, 15)
      // The call that got the wait does not repeat exactly at its end either.
      const alone = yield* model("m", [{ fault: rateLimited(20) }])
      const { took } = yield* inTime(
        timed(ask).pipe(Random.withSeed("outlast"), Effect.provide(Failover.layer([alone])))
      )
      assert.isTrue(took > 20_000 && took <= 22_000)
    })
  )

  it.effect("does not exceed the deadline because of jitter", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ fault: rateLimited(59) }])
      const { took } = yield* inTime(
        timed(failureOf(ask)).pipe(
          Random.withSeed("outlast"),
          over([target], { deadline: Duration.seconds(58), retryAfterJitter: 1 })
        )
      )
      assert.strictEqual(took, 0)
    })
  )
})

describe("the choice of the next target", () => {
  it.effect("prefers an equivalent target to an earlier one of another model", () =>
    Effect.gen(function* () {
      const first = played({
        model: "m1",
        keys: [key("KEY_A")],
        answers: [Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))]
      })
      const other = played({ model: "m2", keys: [key("KEY_B")], answers: [answer("other")] })
      const same = played({ model: "m1", keys: [key("KEY_C")], answers: [answer("same")] })
      assert.strictEqual((yield* ask.pipe(over([first, other, same]))).text, "same")
      assert.strictEqual(other.requests.length, 0)
    })
  )

  it.effect("takes an equivalent at another endpoint after one repeat when the server failed", () =>
    Effect.gen(function* () {
      const first = yield* model("m", [always(status(500))], { endpoint: "https://one" })
      const second = yield* model("m", [], { endpoint: "https://two" })
      const third = yield* model("m2", [])
      yield* inTime(ask.pipe(over([first, second, third])))
      assert.deepStrictEqual([yield* times(first), yield* times(second)], [[0, 1_000], [1_000]])
    })
  )

  it.effect("skips targets whose attempts are used up", () =>
    Effect.gen(function* () {
      const nonsense = always({ type: "garbage", body: "<html>" })
      const first = yield* model("m1", [nonsense])
      const second = yield* model("m2", [nonsense])
      const failed = yield* inTime(failureOf(ask).pipe(over([first, second])))
      assert.deepStrictEqual(
        [yield* times(first), yield* times(second)],
        [
          [0, 1_000, 3_000],
          [3_000, 4_000, 6_000]
        ]
      )
      assert.isTrue(failed._tag === "AllTargetsOut" && failed.attempts === 6 && failed.soonest === undefined)
    })
  )

  it.effect(
    "takes a larger window for a conversation that is too large, or an unknown one once for each model",
    () =>
      Effect.gen(function* () {
        const tooLarge = [always(overflow)]
        const small = yield* model("m1", tooLarge, { info: { contextWindow: 1_000 } })
        const same = yield* model("m2", [], { info: { contextWindow: 1_000 } })
        const unknown = yield* model("m3", tooLarge, { keys: twoKeys.keys })
        const large = yield* model("m4", [], { info: { contextWindow: 2_000 } })
        const response = yield* ask.pipe(over([small, same, large, unknown]))
        assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(response.content)).target, "anthropic/m4")
        assert.deepStrictEqual([yield* times(same), yield* times(unknown)], [[], []])

        const failed = yield* failureOf(ask).pipe(over([small, same, unknown]))
        assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ContextOverflow")
        assert.strictEqual((yield* times(same)).length, 0)
        // Not by its second key: that is the same window.
        assert.strictEqual((yield* times(unknown)).length, 1)
      })
  )

  it.effect("waits for a larger window that cools, and never repeats at the small one", () =>
    Effect.gen(function* () {
      const small = yield* model("m1", [always(overflow)], { info: { contextWindow: 1_000 } })
      const large = yield* model("m2", [{ fault: rateLimited(20) }], { info: { contextWindow: 2_000 } })
      yield* inTime(
        Effect.gen(function* () {
          const calls = [yield* askAt(0), yield* askAt(1_000)]
          yield* Fiber.joinAll(calls)
        }).pipe(over([small, large]))
      )
      assert.deepStrictEqual(
        [yield* times(small), yield* times(large)],
        [
          [0, 1_000],
          [0, 20_000, 20_000]
        ]
      )
    })
  )
})

describe("a cooldown", () => {
  it.effect("that would cover the whole chain does not open", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const rows = { ...policy.rows, Overloaded: { ...policy.rows.Overloaded, attempts: 3 } }
      const overloaded = yield* model("m", [{ times: 6, fault: status(529) }], twoKeys)
      yield* inTime(
        Effect.gen(function* () {
          assert.strictEqual((yield* failureOf(ask))._tag, "AllTargetsOut")
          assert.strictEqual((yield* timed(ask)).took, 0)
        }).pipe(over([overloaded], { circuits: false, rows }))
      ).pipe(Effect.provide(layer))
      assert.deepStrictEqual(yield* timesAndKeys(overloaded), [
        [0, "A"],
        [1_000, "A"],
        [1_000, "B"],
        [2_000, "B"],
        // One backoff over both.
        [6_000, "A"],
        [14_000, "B"],
        [14_000, "A"]
      ])
      const missing = yield* model("m", [{ times: 2, fault: status(404) }], twoKeys)
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* failureOf(ask))._tag, "AllTargetsOut")
        assert.strictEqual((yield* ask).text, "hello")
      }).pipe(over([missing]), Effect.provide(layer))
      assert.deepStrictEqual(of("CooldownOpened"), [])
    })
  )

  it.effect("of a model is as long as the server named, after the failures of two calls", () =>
    Effect.gen(function* () {
      const lengths = (chain: Chain, calls = 2) =>
        Effect.gen(function* () {
          const { layer, of } = recording()
          const asks = Effect.forEach(Array.from({ length: calls }), () => Effect.exit(ask))
          yield* inTime(asks.pipe(over(chain), Effect.provide(layer)))
          return of("CooldownOpened").map(({ length }) => length)
        })
      const overloaded = (seconds: number) =>
        model("m1", [always({ type: "status", status: 529, headers: { "retry-after": String(seconds) } })])
      const other = yield* model("m2", [])
      assert.deepStrictEqual(yield* lengths([yield* overloaded(10)]), [10_000])
      assert.deepStrictEqual(yield* lengths([yield* overloaded(10), other], 1), [])
      assert.deepStrictEqual(yield* lengths([yield* overloaded(10), other]), [10_000])
      assert.deepStrictEqual(yield* lengths([yield* overloaded(300), other]), [300_000])
      assert.deepStrictEqual(yield* lengths([yield* overloaded(900), other]), [900_000])
      assert.deepStrictEqual(yield* lengths([yield* overloaded(0), other]), [10_000])
    })
  )

  it.effect("of a model does not cover another model at the same endpoint", () =>
    Effect.gen(function* () {
      const first = yield* model("m1", [{ fault: status(404) }])
      const second = yield* model("m2", [])
      yield* Effect.gen(function* () {
        yield* ask
        yield* TestClock.adjust("59 minutes")
        yield* ask
        yield* TestClock.adjust("1 minute")
        yield* ask
      }).pipe(over([first, second]))
      assert.deepStrictEqual(
        [yield* times(first), yield* times(second)],
        [
          [0, 3_600_000],
          [0, 3_540_000]
        ]
      )
    })
  )

  it.effect("opens only once, however many calls fail while it is open", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const refused = Effect.delay(
        Effect.fail(failure(new FailoverReason.Auth({ permanent: false }))),
        "1 second"
      )
      // The second key comes later in the chain and works.
      const first = played({ keys: [key("KEY_A")], answers: [refused] })
      const second = played({ keys: [key("KEY_B")], answers: [answer("hello")] })
      yield* inTime(
        Effect.gen(function* () {
          const calls = yield* Effect.forEach([0, 0, 0, 500, 999], askAt)
          yield* Fiber.joinAll(calls)
          yield* Effect.delay(ask, "10 minutes")
        }).pipe(over([first, second]), Effect.provide(layer))
      )
      assert.strictEqual(first.requests.length, 6)
      assert.deepStrictEqual(
        of("CooldownOpened").map(({ scope, reason, length }) => [scope, reason, length]),
        [
          ["key", "Auth", 600_000],
          ["key", "Auth", 1_200_000]
        ]
      )
    })
  )

  it.effect("grows with each failure after it, and after a success the first one is short", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const refused = Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))
      const first = played({ keys: [key("KEY_A")], answers: [refused, refused, answer("hello"), refused] })
      const second = played({ keys: [key("KEY_B")], answers: [answer("hello")] })
      yield* Effect.gen(function* () {
        for (const minutes of [0, 10, 20, 0]) {
          yield* TestClock.adjust(Duration.minutes(minutes))
          yield* ask
        }
      }).pipe(over([first, second]), Effect.provide(layer))
      assert.deepStrictEqual(timesOf(first), [0, 600_000, 1_800_000, 1_800_000])
      assert.deepStrictEqual(
        of("CooldownOpened").map(({ length }) => length),
        [600_000, 1_200_000, 10_000]
      )
    })
  )

  it.effect("of a key that will never work again stays until it is reset", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const revoked = Effect.fail(failure(new FailoverReason.Auth({ permanent: true })))
      const first = played({ keys: [key("KEY_A")], answers: [revoked] })
      const second = played({ keys: [key("KEY_B")], answers: [answer("hello")] })
      yield* Effect.gen(function* () {
        yield* ask
        yield* TestClock.adjust("10000 days")
        yield* ask
      }).pipe(over([first, second]), Effect.provide(layer))
      assert.strictEqual(first.requests.length, 1)
      assert.deepStrictEqual(
        of("CooldownOpened").map(({ length }) => length),
        [undefined]
      )
    })
  )
})

describe("the cost and time of failed attempts", () => {
  /** Each attempt fails after a million tokens at a dollar. */
  const costly = (changes: Parameters<typeof played>[0] = {}): Played =>
    played({
      info: { price: { input: 0, output: 1 } },
      answers: [answer("no", "error", 1_000_000)],
      ...changes
    })

  it.effect("maxCost ends a call whose failed attempts have cost that much", () =>
    Effect.gen(function* () {
      const counted = (target: Played, maxCost: number | undefined) =>
        Effect.map(inTime(Effect.exit(ask.pipe(over([target], { maxCost })))), () => target.requests.length)
      const counts = [
        yield* counted(costly(), undefined),
        yield* counted(costly(), 2),
        yield* counted(costly(), 1.5),
        yield* counted(costly(), 0.5),
        // Without a price nothing counts.
        yield* counted(costly({ info: {} }), 0.5)
      ]
      assert.deepStrictEqual(counts, [5, 2, 2, 1, 5])
    })
  )

  it.effect("a silent attempt of ten minutes still lets the next target answer", () =>
    Effect.gen(function* () {
      const first = played({ model: "m1", answers: [Effect.never] })
      const second = played({ model: "m2", answers: [answer("hello")] })
      assert.strictEqual((yield* inTime(ask.pipe(over([first, second])))).text, "hello")
      assert.deepStrictEqual([timesOf(first), timesOf(second)], [[0], [600_000]])
    })
  )

  it.effect("a second silent attempt ends the call", () =>
    Effect.gen(function* () {
      const chain = ["m1", "m2", "m3"].map((model) => played({ model, answers: [Effect.never] }))
      const [first, second, third] = chain
      assert.isTrue(first !== undefined && second !== undefined && third !== undefined)
      if (first === undefined || second === undefined || third === undefined) return
      const { value, took } = yield* inTime(timed(failureOf(ask)).pipe(over([first, second, third])))
      assert.isTrue(value._tag === "ProviderFailure" && value.reason._tag === "Timeout")
      assert.strictEqual(took, 1_200_000)
      assert.strictEqual(third.requests.length, 0)
    })
  )

  it.effect("attempts end at the policy's maximum over all targets (BerriAI/litellm#6498)", () =>
    Effect.gen(function* () {
      const first = played({ model: "m1", answers: [Effect.fail(serverError)] })
      const second = played({ model: "m2", answers: [Effect.fail(serverError)] })
      yield* inTime(Effect.exit(ask.pipe(over([first, second], { maxAttempts: 4 }))))
      assert.deepStrictEqual([first.requests.length, second.requests.length], [3, 1])
    })
  )

  it.effect("a call gives up when a wait would exceed its deadline", () =>
    Effect.gen(function* () {
      const target = played({ answers: [Effect.fail(serverError)] })
      const { took } = yield* inTime(
        timed(failureOf(ask)).pipe(over([target], { deadline: Duration.millis(2_999) }))
      )
      assert.deepStrictEqual([timesOf(target), took], [[0, 1_000], 1_000])
    })
  )
})
