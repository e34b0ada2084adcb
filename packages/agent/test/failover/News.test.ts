/**
 * A call that sleeps goes on when an operator brings its target back: in a backoff that the server named, in a
 * cooldown of another call, or refused by a circuit.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, Targets } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import { CircuitBreaker } from "@outlast/resilience"
import type { Chain } from "../support.ts"
import { answer, limited, played, policy, serverError, timesOf } from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const over = (
  chain: Chain,
  changes: Partial<RecoveryPolicy.RecoveryPolicy> = {},
  options: Failover.Options<RecoveryPolicy.DefaultClass> = {}
) => Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes }, ...options }))

const reset = (which?: Targets.Which) => Effect.flatMap(Targets.Targets, (targets) => targets.reset(which))
const isDone = (fiber: Fiber.Fiber<unknown, unknown>): boolean => fiber.pollUnsafe() !== undefined

/** The calls that are answered within so many milliseconds. */
const answeredWithin = (fibers: ReadonlyArray<Fiber.Fiber<unknown, unknown>>, millis: number) =>
  Effect.gen(function* () {
    for (let passed = 0; passed < millis && !fibers.every(isDone); passed += 100)
      yield* TestClock.adjust("100 millis")
    return fibers.filter(isDone).length
  })

/** A clock whose timers fire half a millisecond early, as those of Node do. */
const early = Effect.map(Clock.Clock, (clock): Clock.Clock => ({
  currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
  currentTimeMillis: clock.currentTimeMillis,
  currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
  currentTimeNanos: clock.currentTimeNanos,
  monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
  monotonicTimeNanos: clock.monotonicTimeNanos,
  sleep: (duration) => clock.sleep(Duration.millis(Duration.toMillis(duration) - 0.5))
}))

it.effect("a timer that fires early is no news: the call stays at its target", () =>
  Effect.gen(function* () {
    const first = played({ model: "m1", answers: [Effect.fail(serverError), answer("first")] })
    const second = played({ model: "m2", answers: [answer("second")] })
    const call = yield* Effect.forkChild(
      ask.pipe(over([first, second]), Effect.provideServiceEffect(Clock.Clock, early))
    )
    yield* TestClock.adjust("1 minute")
    assert.strictEqual((yield* Fiber.join(call)).text, "first")
  })
)

describe("an operator's reset", () => {
  it.effect(
    "wakes the call that waits as long as the server said, and all that wait behind its cooldown",
    () =>
      Effect.gen(function* () {
        const target = played({
          answers: [Effect.fail(limited(30)), ...Array.from({ length: 5 }, () => answer("hello"))]
        })
        yield* Effect.gen(function* () {
          const first = yield* Effect.forkChild(ask)
          yield* TestClock.adjust("10 millis")
          const others = yield* Effect.forEach([1, 2, 3, 4], () => Effect.forkChild(ask))
          yield* TestClock.adjust("5 seconds")
          assert.lengthOf(target.requests, 1)
          assert.strictEqual((yield* reset()).cooldowns, 1)
          assert.strictEqual(yield* answeredWithin([first, ...others], 1_500), 5)
          assert.lengthOf(target.requests, 6)
        }).pipe(over([target]))
      })
  )

  it.effect("of another target moves the call there, and the first one is not asked", () =>
    Effect.gen(function* () {
      const first = played({ model: "m1", answers: [Effect.fail(limited(30)), answer("late")] })
      const second = played({ model: "m2", answers: [Effect.fail(limited(50)), answer("second")] })
      yield* Effect.gen(function* () {
        const call = yield* Effect.forkChild(ask)
        yield* TestClock.adjust("5 seconds")
        assert.isFalse(isDone(call))
        yield* reset({ target: "vendor/m2" })
        assert.strictEqual(yield* answeredWithin([call], 1_500), 1)
        assert.strictEqual((yield* Fiber.join(call)).text, "second")
        assert.lengthOf(first.requests, 1)
      }).pipe(over([first, second]))
    })
  )

  it.effect("that does not concern the target leaves the call asleep", () =>
    Effect.gen(function* () {
      const target = played({ answers: [Effect.fail(limited(30)), answer("hello")] })
      const other = { ...played({ model: "m2", answers: [Effect.fail(limited(3_000))] }), provider: "other" }
      yield* Effect.gen(function* () {
        const call = yield* Effect.forkChild(ask)
        yield* TestClock.adjust("5 seconds")
        assert.isFalse(isDone(call))
        yield* TestClock.adjust("20 seconds")
        assert.isFalse(isDone(call))
        assert.lengthOf(target.requests, 1)
        yield* TestClock.adjust("10 seconds")
        assert.isTrue(isDone(call))
      }).pipe(over([target, other]))
    })
  )

  it.effect("is not undone by the failure of an attempt that it overtook", () =>
    Effect.gen(function* () {
      const late = Effect.andThen(Effect.sleep("2 seconds"), Effect.fail(limited(30)))
      const target = played({ answers: [late, answer("hello"), answer("hello")] })
      yield* Effect.gen(function* () {
        const call = yield* Effect.forkChild(ask)
        yield* TestClock.adjust("1 second")
        yield* reset()
        yield* TestClock.adjust("1 second")
        const [status] = yield* (yield* Targets.Targets).list
        assert.strictEqual(status?.state, "ready")
        assert.strictEqual(yield* answeredWithin([call], 1_500), 1)
      }).pipe(over([target]))
    })
  )

  it.effect("takes no retry budget for the attempt that follows", () =>
    Effect.gen(function* () {
      const target = played({ answers: [Effect.fail(limited(30)), answer("hello")] })
      yield* Effect.gen(function* () {
        const call = yield* Effect.forkChild(ask)
        yield* TestClock.adjust("2 seconds")
        yield* reset()
        assert.strictEqual(yield* answeredWithin([call], 1_500), 1)
      }).pipe(over([target], { retryBudget: { ratio: 0.01, burst: 1, refillEvery: "1 hour" } }))
    })
  )
})

describe("a circuit that is closed by hand", () => {
  for (const [how, close] of [
    ["through the targets", () => Effect.asVoid(reset())],
    ["at the breaker", (breaker: CircuitBreaker.Service) => Effect.asVoid(breaker.reset("https://one"))]
  ] as const) {
    it.effect(`wakes the calls that it refused, ${how}`, () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 1 } } })
        yield* Effect.exit(breaker.execute("https://one")(Effect.fail(serverError)))
        const target = { ...played({ answers: [answer("hello")] }), endpoint: "https://one" }
        yield* Effect.gen(function* () {
          const call = yield* Effect.forkChild(ask)
          yield* TestClock.adjust("500 millis")
          assert.isFalse(isDone(call))
          assert.lengthOf(timesOf(target), 0)
          yield* close(breaker)
          assert.strictEqual(yield* answeredWithin([call], 2_000), 1)
        }).pipe(over([target], { lastResort: false }, { breaker }))
      })
    )
  }
})
