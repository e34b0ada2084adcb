/** The DECISION_037 preset against its document. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Random } from "effect"
import { Failover, FailoverReason, Presets } from "@outlast/agent"
import { CircuitBreaker } from "@outlast/resilience"
import {
  failure,
  failureOf,
  inTime,
  played,
  rateLimited,
  recording,
  overflow,
  status,
  timed,
  timesOf
} from "../support.ts"
import { always, ask, compact, model, over, reset, times } from "./scenario.ts"

const { policy } = Presets.decision037

describe("network failures", () => {
  it.effect("are retried on the same model after 1, 2, 4, 8 and 16 s, then the next model is asked", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const first = yield* model("anthropic", "m1", [always(reset)])
      const second = yield* model("openai", "m2", [])
      yield* inTime(ask.pipe(over(policy, [first, second]), Effect.provide(layer)))
      assert.deepStrictEqual(
        [yield* times(first), yield* times(second)],
        [[0, 1_000, 3_000, 7_000, 15_000, 31_000], [31_000]]
      )
      assert.deepStrictEqual(of("CooldownOpened"), [])
    })
  )

  it.effect("are counted for each target over all calls, until it succeeds", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [
        { times: 7, fault: reset },
        { skip: 1, times: 2, fault: reset }
      ])
      yield* inTime(
        Effect.gen(function* () {
          yield* failureOf(ask)
          // The retries are used up, so there is one attempt.
          assert.strictEqual((yield* timed(failureOf(ask))).took, 0)
          yield* ask
          // The retries are available again after the success.
          assert.strictEqual((yield* timed(ask)).took, 3_000)
        }).pipe(over(policy, [target]))
      )
      assert.lengthOf(yield* times(target), 6 + 1 + 1 + 3)
    })
  )

  it.effect("stop the call if they are permanent", () =>
    Effect.gen(function* () {
      const broken = failure(new FailoverReason.PermanentNetwork())
      const first = played({ model: "m1", answers: [Effect.fail(broken)] })
      const second = yield* model("openai", "m2", [])
      const failed = yield* failureOf(ask).pipe(over(policy, [first, second]))
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "PermanentNetwork")
      assert.deepStrictEqual([timesOf(first), yield* times(second)], [[0], []])
    })
  )
})

describe("rate limits", () => {
  it.effect(
    "retry the same model and open the circuit at the fifth, whatever Retry-After the server sends",
    () =>
      Effect.gen(function* () {
        const first = yield* model("anthropic", "m1", [always(rateLimited(50))])
        const second = yield* model("openai", "m2", [])
        yield* inTime(ask.pipe(over(policy, [first, second])))
        assert.deepStrictEqual(
          [yield* times(first), yield* times(second)],
          [[0, 1_000, 3_000, 7_000, 15_000], [15_000]]
        )
      })
  )

  it.effect(
    "keep the circuit open for five minutes, in which calls fail at once; one success closes it",
    () =>
      Effect.gen(function* () {
        const target = yield* model("anthropic", "m1", [
          // A Retry-After of an hour, which is ignored.
          { times: 5, fault: rateLimited(3_600) },
          { skip: 1, fault: status(429) }
        ])
        yield* inTime(
          Effect.gen(function* () {
            assert.strictEqual((yield* timed(failureOf(ask))).took, 15_000)
            yield* Effect.sleep("299999 millis")
            const { value, took } = yield* timed(failureOf(ask))
            assert.deepStrictEqual([value._tag, took], ["AllTargetsOut", 0])
            yield* Effect.sleep("1 millis")
            yield* ask
            // The circuit is closed, so retries pass again.
            yield* ask
          }).pipe(over(policy, [target]))
        )
        assert.deepStrictEqual((yield* times(target)).slice(5), [315_000, 315_000, 316_000])
      })
  )
})

describe("provider errors", () => {
  for (const code of [401, 404, 500]) {
    it.effect(`${code}: move to the next model at once, without a cooldown`, () =>
      Effect.gen(function* () {
        const first = yield* model("anthropic", "m1", [{ fault: status(code) }])
        const second = yield* model("openai", "m2", [])
        yield* Effect.gen(function* () {
          assert.strictEqual((yield* timed(ask)).took, 0)
          yield* ask
        }).pipe(over(policy, [first, second]))
        assert.deepStrictEqual([yield* times(first), yield* times(second)], [[0, 0], [0]])
      })
    )
  }
})

it.effect("a conversation that is too long is compacted once, then moves to another model", () =>
  Effect.gen(function* () {
    const { layer, of } = recording()
    const first = yield* model("anthropic", "m1", [always(overflow)], { info: { contextWindow: 1_000 } })
    const second = yield* model("openai", "m2", [], { info: { contextWindow: 2_000 } })
    yield* ask.pipe(over(policy, [first, second], { compact }), Effect.provide(layer))
    assert.lengthOf(of("CallCompacting"), 1)
    assert.deepStrictEqual([yield* times(first), yield* times(second)], [[0, 0], [0]])
  })
)

it.effect("an attempt waits until its connection is healthy", () =>
  Effect.gen(function* () {
    const target = yield* model("anthropic", "m1", [])
    const isHealthy = () => Effect.map(Clock.currentTimeMillis, (now) => now >= 10_000)
    yield* inTime(ask.pipe(over(policy, [target], { isHealthy })))
    assert.deepStrictEqual(yield* times(target), [10_000])
  })
)

it.effect("its retries have jitter of at most ±20 %", () =>
  Effect.gen(function* () {
    const target = yield* model("anthropic", "m1", [always(reset)])
    const layer = Failover.layer([target], { policy })
    yield* inTime(failureOf(ask).pipe(Random.withSeed("outlast"), Effect.provide(layer)))
    const all = yield* times(target)
    const waits = all.slice(1).map((time, n) => time - (all[n] ?? 0))
    for (const [n, wait] of waits.entries()) {
      const middle = 1_000 * 2 ** n
      assert.isTrue(wait >= middle * 0.8 && wait <= middle * 1.2, `${wait}`)
    }
    assert.notDeepEqual(waits, [1_000, 2_000, 4_000, 8_000, 16_000])
  })
)

it.effect("layer uses the circuits that it is given, which a program opens and closes by hand", () =>
  Effect.gen(function* () {
    const [first, second] = [yield* model("anthropic", "m1", []), yield* model("openai", "m2", [])]
    const breaker = yield* CircuitBreaker.make(Presets.decision037.circuits)
    yield* Effect.gen(function* () {
      yield* breaker.trip("anthropic")
      yield* ask
      yield* breaker.reset("anthropic")
      yield* ask
    }).pipe(Effect.provide(Presets.decision037.layer([first, second], { breaker })))
    assert.deepStrictEqual([(yield* times(first)).length, (yield* times(second)).length], [1, 1])
  })
)
