/** DECISION_037, as its document has it. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Random } from "effect"
import { Failover, FailoverReason, Presets } from "@outlast/agent"
import {
  failure,
  failureOf,
  inTime,
  played,
  rateLimited,
  recording,
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

  it.effect("are counted for the target over all calls, until it succeeds", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [
        { times: 7, fault: reset },
        { skip: 1, times: 2, fault: reset }
      ])
      yield* inTime(
        Effect.gen(function* () {
          yield* failureOf(ask)
          // Its retries are used up: one attempt.
          assert.strictEqual((yield* timed(failureOf(ask))).took, 0)
          yield* ask
          // Now they are there again.
          assert.strictEqual((yield* timed(ask)).took, 3_000)
        }).pipe(over(policy, [target]))
      )
      assert.lengthOf(yield* times(target), 6 + 1 + 1 + 3)
    })
  )

  it.effect("that are permanent stop", () =>
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
  it.effect("retry the same model and open the circuit at the fifth, whatever the server says", () =>
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

  it.effect("keep the circuit open for five minutes; calls fail at once; one success closes it", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [
        // It names an hour: nobody reads that.
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
          // Closed: retries pass again.
          yield* ask
        }).pipe(over(policy, [target]))
      )
      assert.deepStrictEqual((yield* times(target)).slice(5), [315_000, 315_000, 316_000])
    })
  )
})

describe("provider errors", () => {
  for (const code of [401, 404, 500]) {
    it.effect(`${code}: go to the next model at once, and cool nothing`, () =>
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

it.effect("a conversation that is too long is compacted once, then another model gets it", () =>
  Effect.gen(function* () {
    const { layer, of } = recording()
    const first = yield* model("anthropic", "m1", [always(status(413))], { info: { contextWindow: 1_000 } })
    const second = yield* model("openai", "m2", [], { info: { contextWindow: 2_000 } })
    yield* ask.pipe(over(policy, [first, second], { compact }), Effect.provide(layer))
    assert.lengthOf(of("CallCompacting"), 1)
    assert.deepStrictEqual([yield* times(first), yield* times(second)], [[0, 0], [0]])
  })
)

it.effect("an attempt waits for its connection to be healthy", () =>
  Effect.gen(function* () {
    const target = yield* model("anthropic", "m1", [])
    const isHealthy = () => Effect.map(Clock.currentTimeMillis, (now) => now >= 10_000)
    yield* inTime(ask.pipe(over(policy, [target], { isHealthy })))
    assert.deepStrictEqual(yield* times(target), [10_000])
  })
)

it.effect("its retries have 20 % of jitter: none comes before or after that", () =>
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
