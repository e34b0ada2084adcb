/** One guarded effect that runs several times at once. */
import { assert, describe, it } from "@effect/vitest"
import { CircuitBreaker } from "@outlast/resilience"
import { Deferred, Effect } from "effect"
import { fails } from "./BreakerContract.ts"

describe("a guarded effect that runs twice at once", () => {
  it.effect("stays in flight when its second run is refused", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({
        trip: { consecutive: false, rate: { minimumCalls: 3, failures: 0.5 } }
      })
      const released = yield* Deferred.make<void>()
      const guarded = breaker.execute("a")(Deferred.await(released))
      yield* Effect.forkChild(guarded, { startImmediately: true })
      yield* breaker.trip("a")
      assert.propertyVal(yield* Effect.flip(guarded), "reason", "open")
      yield* breaker.reset("a")
      // Two of three calls failed. The third is in flight.
      yield* fails(breaker, "a")
      assert.propertyVal(yield* breaker.state("a"), "phase", "closed")
      yield* fails(breaker, "a")
      assert.propertyVal(yield* breaker.state("a"), "phase", "open")
    }).pipe(Effect.scoped)
  )

  it.effect("passes again with both runs when its circuit is closed after an opening", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 2 } } })
      let isDown = true
      const guarded = breaker.execute("a")(Effect.suspend(() => (isDown ? Effect.fail("down") : Effect.void)))
      const twice = Effect.all([Effect.exit(guarded), Effect.exit(guarded)], { concurrency: 2 })
      yield* twice
      assert.propertyVal(yield* Effect.flip(guarded), "reason", "open")
      yield* breaker.reset("a")
      isDown = false
      assert.isTrue((yield* twice).every((exit) => exit._tag === "Success"))
      isDown = true
      yield* twice
      assert.propertyVal(yield* breaker.state("a"), "phase", "open")
    }).pipe(Effect.scoped)
  )
})
