import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Option, Ref } from "effect"
import { TestClock } from "effect/testing"
import { Deadline } from "@outlast/resilience"

/** The remaining time in milliseconds, or `undefined` without a deadline. */
const left = Effect.map(Deadline.remaining, (remaining) =>
  Option.getOrUndefined(Option.map(remaining, Duration.toMillis))
)

describe("within", () => {
  it.effect("there is no deadline unless it is set", () =>
    Effect.gen(function* () {
      assert.isUndefined(yield* left)
      assert.isTrue(yield* Deadline.fits("365 days"))
      assert.isTrue(yield* Deadline.fits(Duration.infinity))
    })
  )

  it.effect("gives time from when the effect starts, in both forms", () =>
    Effect.gen(function* () {
      const limited = left.pipe(Deadline.within("30 seconds"))
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* limited, 30_000)
      assert.strictEqual(yield* Deadline.within(left, "10 seconds"), 10_000)
      assert.isUndefined(yield* left)
    })
  )

  it.effect("the remaining time shrinks as time passes, and is never negative", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("4 seconds")
      assert.strictEqual(yield* left, 6_000)
      yield* TestClock.adjust("6 seconds")
      assert.strictEqual(yield* left, 0)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* left, 0)
    }).pipe(Deadline.within("10 seconds"))
  )

  it.effect("the earlier of two nested deadlines applies", () =>
    Effect.gen(function* () {
      const inner = (seconds: number) => left.pipe(Deadline.within(Duration.seconds(seconds)))
      assert.strictEqual(yield* inner(5), 5_000)
      assert.strictEqual(yield* inner(10), 10_000)
      assert.strictEqual(yield* inner(20), 10_000)
      yield* TestClock.adjust("8 seconds")
      assert.strictEqual(yield* inner(5), 2_000)
      assert.strictEqual(yield* inner(1), 1_000)
    }).pipe(Deadline.within("10 seconds"))
  )

  it.effect("applies to child fibers", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Effect.delay(left, "1 second"))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(fiber), 9_000)
    }).pipe(Deadline.within("10 seconds"))
  )

  it.effect("does not interrupt", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(
        Effect.as(Effect.sleep("1 minute"), "done").pipe(Deadline.within("1 second"))
      )
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(fiber), "done")
    })
  )

  it.effect("18 a change of the wall clock has no effect", () =>
    Effect.gen(function* () {
      const live = yield* Clock.Clock
      const stepped: Clock.Clock = {
        ...live,
        currentTimeMillis: Effect.succeed(1e15),
        currentTimeMillisUnsafe: () => 1e15,
        currentTimeNanos: Effect.succeed(10n ** 21n),
        currentTimeNanosUnsafe: () => 10n ** 21n,
        monotonicTimeNanos: live.monotonicTimeNanos,
        monotonicTimeNanosUnsafe: () => live.monotonicTimeNanosUnsafe(),
        sleep: (duration) => live.sleep(duration)
      }
      assert.strictEqual(yield* Effect.provideService(left, Clock.Clock, stepped), 10_000)
    }).pipe(Deadline.within("10 seconds"))
  )

  it("the service key is its path", () => {
    assert.strictEqual(Deadline.Deadline.key, "@outlast/resilience/retry/Deadline")
  })

  it("rejects a duration that is negative, infinite or invalid", () => {
    for (const input of [-1, Infinity, Number.NaN]) {
      assert.throws(() => Deadline.within(Effect.void, input), RangeError, "Deadline: within must be")
      assert.throws(() => Effect.void.pipe(Deadline.within(input)), RangeError, "Deadline: within must be")
    }
  })
})

describe("fits", () => {
  it.effect("26 a wait that ends at the deadline fits, one that ends after it does not", () =>
    Effect.gen(function* () {
      assert.isTrue(yield* Deadline.fits("10 seconds"))
      assert.isFalse(yield* Deadline.fits("10001 millis"))
      assert.isFalse(yield* Deadline.fits(Duration.infinity))
      yield* TestClock.adjust("10 seconds")
      assert.isTrue(yield* Deadline.fits(0))
      assert.isFalse(yield* Deadline.fits(1))
    }).pipe(Deadline.within("10 seconds"))
  )

  it("rejects a duration that is negative or invalid", () => {
    for (const input of [-1, Number.NaN]) {
      assert.throws(() => Deadline.fits(input), RangeError, "Deadline: fits must be")
    }
  })
})

describe("enforce", () => {
  it.effect("interrupts at the deadline and fails with DeadlineExceeded", () =>
    Effect.gen(function* () {
      const interrupted = yield* Ref.make(false)
      const fiber = yield* Effect.never.pipe(
        Effect.onInterrupt(() => Ref.set(interrupted, true)),
        Deadline.enforce,
        Deadline.within("10 seconds"),
        Effect.flip,
        Effect.forkChild
      )
      yield* TestClock.adjust("9999 millis")
      assert.isFalse(yield* Ref.get(interrupted))
      yield* TestClock.adjust("1 millis")
      const error = yield* Fiber.join(fiber)
      assert.isTrue(yield* Ref.get(interrupted))
      assert.strictEqual(error._tag, "DeadlineExceeded")
      assert.strictEqual(error.message, "The deadline passed before this was done.")
      assert.isFalse(error.isRetryable)
    })
  )

  it.effect("does not run an effect that starts after the deadline", () =>
    Effect.gen(function* () {
      const ran = yield* Ref.make(false)
      const error = yield* Ref.set(ran, true).pipe(Deadline.enforce, Deadline.within(0), Effect.flip)
      assert.instanceOf(error, Deadline.DeadlineExceeded)
      assert.isFalse(yield* Ref.get(ran))
    })
  )

  it.effect("does not affect effects that end in time, fail, or have no deadline", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* Effect.succeed(1).pipe(Deadline.enforce, Deadline.within("1 second")), 1)
      assert.strictEqual(
        yield* Effect.fail("mine").pipe(Deadline.enforce, Deadline.within("1 second"), Effect.flip),
        "mine"
      )
      const fiber = yield* Effect.forkChild(Deadline.enforce(Effect.as(Effect.sleep("365 days"), 2)))
      yield* TestClock.adjust("365 days")
      assert.strictEqual(yield* Fiber.join(fiber), 2)
    })
  )
})
