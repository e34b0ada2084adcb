/** The nexo-rs preset against its document. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { Failover, Presets } from "@outlast/agent"
import { Backoff, CircuitBreaker } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { failureOf, inTime, rateLimited, status, timed } from "../support.ts"
import { always, ask, model, over, reset, times } from "./scenario.ts"

const { policy, circuits, circuitsOf } = Presets.nexo

describe("retries", () => {
  const table: ReadonlyArray<readonly [string, FaultPlan.Fault, ReadonlyArray<number>]> = [
    ["429: five attempts", status(429), [0, 1_000, 3_000, 7_000, 15_000]],
    ["429: at least Retry-After, at least the backoff", rateLimited(3), [0, 3_000, 6_000, 10_000, 18_000]],
    ["500: three attempts", status(500), [0, 1_000, 3_000]],
    ["529: three attempts", status(529), [0, 1_000, 3_000]],
    ["a network blip: three attempts", reset, [0, 1_000, 3_000]],
    ["400 fails fast", status(400), [0]],
    ["401 fails fast", status(401), [0]],
    ["402 fails fast", status(402), [0]],
    ["404 fails fast", status(404), [0]],
    ["413 fails fast", status(413), [0]]
  ]
  for (const [what, fault, at] of table) {
    it.effect(what, () =>
      Effect.gen(function* () {
        const target = yield* model("anthropic", "m1", [always(fault)])
        yield* inTime(failureOf(ask).pipe(over(policy, [target])))
        assert.deepStrictEqual(yield* times(target), at)
      })
    )
  }

  it.effect("wait exactly as long as a Retry-After", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [{ fault: rateLimited(50) }])
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))
      assert.deepStrictEqual(yield* times(target), [0, 50_000])
    })
  )

  it("wait up to 60 s for rate limits and 30 s for server errors, jittered", () => {
    const { rate_limit, server_error } = policy.rows
    for (const [{ backoff }, longest] of [
      [rate_limit, 60_000],
      [server_error, 30_000]
    ] as const) {
      assert.deepInclude(backoff, { jitter: "decorrelated" })
      assert.strictEqual(Backoff.max(backoff), longest)
    }
  })

  const moved: ReadonlyArray<readonly [string, FaultPlan.Fault, ReadonlyArray<number>]> = [
    ["what is to fail fast is not taken to another target", status(401), []],
    ["what is used up is taken to another target", status(500), [3_000]]
  ]
  for (const [what, fault, at] of moved) {
    it.effect(what, () =>
      Effect.gen(function* () {
        const first = yield* model("anthropic", "m1", [always(fault)])
        const second = yield* model("openai", "m2", [])
        yield* inTime(Effect.exit(ask).pipe(over(policy, [first, second])))
        assert.deepStrictEqual(yield* times(second), at)
      })
    )
  }
})

describe("an equivalent target that is ready", () => {
  const table: ReadonlyArray<readonly [string, FaultPlan.Fault, ReadonlyArray<number>]> = [
    ["three attempts that fail with 500", status(500), [0, 1_000, 3_000]],
    ["five attempts that are rate limited", status(429), [0, 1_000, 3_000, 7_000, 15_000]]
  ]
  for (const [what, fault, at] of table) {
    it.effect(`is asked after ${what}, and not before`, () =>
      Effect.gen(function* () {
        const one = yield* model("anthropic", "m1", [always(fault)], { endpoint: "https://one" })
        const two = yield* model("anthropic", "m1", [], { endpoint: "https://two" })
        yield* inTime(ask.pipe(over(policy, [one, two])))
        assert.deepStrictEqual([yield* times(one), yield* times(two)], [at, [at.at(-1)]])
      })
    )
  }
})

it("the numbers for a host are those of the document", () => {
  const { instance, outbox, processes, shutdown } = Presets.nexo
  const seconds = (...all: ReadonlyArray<Duration.Duration>) => all.map(Duration.toSeconds)
  const { grace, afterKill } = instance.options.whenHeld.takeOver
  assert.deepStrictEqual(seconds(grace, afterKill), [5, 0.5])
  const { handshakeLimit, stopLimit, respawn } = processes.options
  assert.deepStrictEqual(
    seconds(handshakeLimit, stopLimit, respawn.window, processes.call.limit),
    [10, 3, 300, 30]
  )
  assert.strictEqual(respawn.restarts, 5)
  assert.deepStrictEqual(seconds(shutdown.limits.loops, shutdown.limits.processes), [5, 5])
  assert.strictEqual(outbox.cap.events, 10_000)
  assert.deepStrictEqual(seconds(policy.deadline, policy.patience), [1_800, 1_800])
})

describe("the circuit", () => {
  /** A Retry-After that both the retries and the circuit ignore. */
  const named: FaultPlan.Fault = { type: "status", status: 500, headers: { "retry-after": "45" } }

  it.effect(
    "opens at the fifth consecutive failure for 10 s, then 20 s, and closes at the second success",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.make(circuits)
        const phase = Effect.map(breaker.state("anthropic"), ({ phase }) => phase)
        const target = yield* model("anthropic", "m1", [{ times: 6, fault: named }])
        const failing = Effect.map(timed(failureOf(ask)), ({ took }) => took)
        yield* inTime(
          Effect.gen(function* () {
            // Failures one to five. The sixth attempt is not made.
            assert.deepStrictEqual([yield* failing, yield* failing, yield* phase], [3_000, 1_000, "open"])
            yield* Effect.sleep("9999 millis")
            assert.strictEqual(yield* failing, 0)
            yield* Effect.sleep("1 millis")
            // The probe fails: the circuit is open again, and there is no retry.
            assert.deepStrictEqual([yield* failing, yield* phase], [0, "open"])
            yield* Effect.sleep("19999 millis")
            assert.strictEqual(yield* failing, 0)
            yield* Effect.sleep("1 millis")
            yield* ask
            assert.strictEqual(yield* phase, "half-open")
            yield* ask
            assert.strictEqual(yield* phase, "closed")
          }).pipe(over(policy, [target], { breaker, circuitsOf }))
        )
        assert.deepStrictEqual(yield* times(target), [0, 1_000, 3_000, 3_000, 4_000, 14_000, 34_000, 34_000])
      }).pipe(Effect.scoped)
  )

  it.effect("is never open for more than 120 s", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [always(status(500))])
      yield* inTime(
        Effect.gen(function* () {
          while ((yield* Clock.currentTimeMillis) < 1_000_000) {
            yield* failureOf(ask)
            yield* Effect.sleep("1 second")
          }
        }).pipe(over(policy, [target]))
      )
      const at = (yield* times(target)).filter((time) => time > 10_000)
      const gaps = at.slice(1).map((time, n) => time - (at[n] ?? 0))
      assert.deepStrictEqual([...new Set(gaps)], [20_000, 40_000, 80_000, 120_000])
    })
  )

  it.effect("ignores rate limits", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [{ times: 5, fault: status(429) }])
      yield* inTime(
        Effect.gen(function* () {
          yield* failureOf(ask)
          assert.strictEqual((yield* timed(ask)).took, 0)
        }).pipe(over(policy, [target]))
      )
    })
  )

  it.effect("is shared by a provider; tripped, its targets are skipped; reset, they are asked", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make(circuits)
      const one = yield* model("anthropic", "m1", [], { endpoint: "https://one" })
      const two = yield* model("anthropic", "m1", [], { endpoint: "https://two" })
      const other = yield* model("openai", "m2", [])
      yield* Effect.gen(function* () {
        yield* breaker.trip("anthropic")
        yield* ask
        yield* breaker.reset("anthropic")
        yield* ask
      }).pipe(over(policy, [one, two, other], { breaker, circuitsOf }))
      const counts = [yield* times(one), yield* times(two), yield* times(other)].map(({ length }) => length)
      assert.deepStrictEqual(counts, [1, 0, 1])
    }).pipe(Effect.scoped)
  )
})
