import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { CircuitBreaker } from "@outlast/resilience"
import { exact } from "./BreakerContract.ts"

const failure: CircuitBreaker.Outcome = { counts: "failure" }
const success: CircuitBreaker.Outcome = { counts: "success" }
const ignored: CircuitBreaker.Outcome = { counts: "ignored" }

/** Makes a call with this outcome and its own caller. `undefined` when it was not let through. */
const call = (
  breaker: CircuitBreaker.Service,
  outcome: CircuitBreaker.Outcome,
  of: unknown = {}
): Effect.Effect<true | undefined> =>
  Effect.withFiber((fiber) => {
    const leave = breaker.enterUnsafe("a", fiber, of)
    leave?.(outcome, fiber)
    return Effect.succeed(leave === undefined ? undefined : true)
  })

describe("enterUnsafe", () => {
  it.effect("counts like any other call, and never enters an open or half-open circuit", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 2 } }, open: exact })
      yield* call(breaker, failure)
      yield* call(breaker, ignored)
      assert.isTrue(yield* call(breaker, failure))
      assert.strictEqual((yield* breaker.state("a")).phase, "open")
      assert.isUndefined(yield* call(breaker, success))
      yield* TestClock.adjust("10 seconds")
      assert.isUndefined(yield* call(breaker, success))
      assert.strictEqual((yield* breaker.state("a")).phase, "half-open")
    })
  )

  it.effect("clears consecutive failures on a success", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 2 } } })
      for (const outcome of [failure, success, failure]) yield* call(breaker, outcome)
      assert.strictEqual((yield* breaker.state("a")).phase, "closed")
    })
  )

  it.effect("needs three distinct calls to open when calls overlap", () =>
    Effect.gen(function* () {
      const opened = (callers: ReadonlyArray<unknown>) =>
        Effect.gen(function* () {
          const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 3 } } })
          yield* Effect.withFiber((fiber) => {
            const all = callers.map((of) => breaker.enterUnsafe("a", fiber, of))
            for (const leave of all) leave?.(failure, fiber)
            return Effect.void
          })
          return (yield* breaker.state("a")).phase
        })
      const [one, two, three] = [{}, {}, {}]
      assert.strictEqual(yield* opened([one, two, one, two]), "closed")
      assert.strictEqual(yield* opened([one, two, three]), "open")
    })
  )

  it.effect("returns undefined when the policy measures durations", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({ trip: { rate: { slow: 0.5, slowerThan: "1 second" } } })
      assert.isUndefined(yield* call(breaker, success))
    })
  )
})
