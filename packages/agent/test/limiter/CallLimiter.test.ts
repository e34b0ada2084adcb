import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Scheduler, Scope } from "effect"
import { TestClock } from "effect/testing"
import { InvalidOption } from "@outlast/resilience"
import * as CallLimiter from "#agent/limiter/CallLimiter"
import type { Limits } from "#agent/limiter/LimitState"
import { Priority } from "#agent/limiter/Priority"
import { ask, target, timed } from "./support.ts"

/** A limiter with these limits for the target of the tests. */
const limited = (limits: Limits) => CallLimiter.make({ limits: { "vendor/m": limits } })

const spent = {
  "x-ratelimit-limit-requests": "60",
  "x-ratelimit-remaining-requests": "0",
  "x-ratelimit-reset-requests": "1m0s"
}

describe("without limits", () => {
  it.effect("a permit is granted at once, always the same object", () =>
    Effect.gen(function* () {
      const limiter = yield* CallLimiter.make()
      const permits = yield* Effect.forEach(Array.from({ length: 100 }), () =>
        limiter.acquire(ask({ tokens: 1e9, maxWait: 0 }))
      )
      assert.strictEqual(new Set(permits).size, 1)
      // The permit has nothing to release or to correct.
      for (const permit of permits) {
        yield* permit.settle({ inputTokens: 5 })
        yield* permit.release
      }
    })
  )

  it.effect("a target gets its permits, independent of others", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ concurrency: 1 })
      yield* limiter.acquire(ask())
      yield* limiter.acquire(ask({ target: target("KEY_A", "other"), maxWait: 0 }))
      assert.strictEqual((yield* Effect.flip(limiter.acquire(ask({ maxWait: 0 }))))._tag, "LimitTooFar")
    })
  )
})

describe("limits of the user", () => {
  it.effect("count per key and model", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ requestsPerMinute: 1 })
      for (const key of ["KEY_A", "KEY_B"]) yield* limiter.acquire(ask({ target: target(key), maxWait: 0 }))
      const error = yield* Effect.flip(limiter.acquire(ask({ maxWait: 0 })))
      assert.deepStrictEqual([error.target, error.wait], ["vendor/m#KEY_A", 61_000])
    })
  )

  it.effect("may come from a function", () =>
    Effect.gen(function* () {
      const limiter = yield* CallLimiter.make({
        limits: ({ key }) => (key === "KEY_A" ? { requestsPerMinute: 1 } : undefined)
      })
      yield* limiter.acquire(ask())
      assert.strictEqual((yield* Effect.flip(limiter.acquire(ask({ maxWait: 0 })))).target, "vendor/m#KEY_A")
      for (let i = 0; i < 5; i++) yield* limiter.acquire(ask({ target: target("KEY_B"), maxWait: 0 }))
    })
  )

  it.effect("make calls wait, and return unused tokens", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ tokensPerMinute: 100 })
      const first = yield* limiter.acquire(ask({ tokens: 80 }))
      const second = yield* Effect.forkChild(timed(limiter, ask({ tokens: 40 })))
      const third = yield* Effect.forkChild(timed(limiter, ask({ tokens: 30 })))
      yield* TestClock.adjust("1 second")
      yield* first.settle({ inputTokens: 60 })
      yield* first.settle({ inputTokens: 20, outputTokens: 30 })
      // An empty usage changes nothing.
      yield* first.settle({})
      assert.strictEqual((yield* Fiber.join(second)).at, 1_000)
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* Fiber.join(third)).at, 61_000)
    })
  )

  it.effect("of concurrent calls become available again on release, once", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ concurrency: 1 })
      const permit = yield* limiter.acquire(ask())
      const calls = yield* Effect.forEach([1, 2], () => Effect.forkChild(timed(limiter, ask())))
      yield* TestClock.adjust("5 seconds")
      yield* permit.release
      yield* permit.release
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(
        calls.map((call) => call.pollUnsafe() !== undefined),
        [true, false]
      )
    })
  )

  it("below 1 are rejected", () => {
    assert.throws(
      () => limited({ concurrency: 0 }),
      InvalidOption,
      "CallLimiter: limits.vendor/m.concurrency"
    )
  })
})

describe("a rejection", () => {
  it.effect("comes at once when the wait would be too long, with its end", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ requestsPerMinute: 1 })
      yield* limiter.acquire(ask())
      yield* TestClock.adjust("31 seconds")
      const error = yield* Effect.flip(limiter.acquire(ask({ maxWait: "29 seconds" })))
      assert.strictEqual(error.wait, 30_000)
      assert.strictEqual(error.until, 61_000)
      assert.isTrue(error.isRetryable)
      assert.strictEqual(
        error.message,
        "vendor/m#KEY_A: known limits allow no call for another 30s. Wait, raise the limits, or add another target."
      )
      const call = yield* Effect.forkChild(timed(limiter, ask({ maxWait: "30 seconds" })))
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* Fiber.join(call)).at, 61_000)
    })
  )

  it.effect("comes at the end of the wait when the duration is unknown", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ concurrency: 1 })
      yield* limiter.acquire(ask())
      const call = yield* Effect.forkChild(Effect.flip(limiter.acquire(ask({ maxWait: "3 seconds" }))))
      yield* TestClock.adjust(2_999)
      assert.isUndefined(call.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.strictEqual((yield* Fiber.join(call)).wait, 1_000)
    })
  )

  it.effect("goes to all waiting calls when the limiter ends", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const limiter = yield* Scope.provide(limited({ requestsPerMinute: 1 }), scope)
      yield* limiter.acquire(ask())
      const call = yield* Effect.forkChild(Effect.flip(limiter.acquire(ask())))
      yield* TestClock.adjust(0)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Fiber.join(call))._tag, "LimitTooFar")
    })
  )
})

describe("priorities", () => {
  it.effect("order interactive calls before background calls", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ concurrency: 1 })
      const permit = yield* limiter.acquire(ask())
      const order: Array<string> = []
      const call = (name: string, request = ask()) =>
        Effect.forkChild(
          Effect.flatMap(limiter.acquire(request), ({ release }) => {
            order.push(name)
            return release
          })
        )
      yield* Effect.provideService(call("later"), Priority, "background")
      yield* call("too", ask({ priority: "background" }))
      yield* call("now")
      yield* Effect.provideService(call("also", ask({ priority: "interactive" })), Priority, "background")
      yield* TestClock.adjust(0)
      yield* permit.release
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(order, ["now", "also", "later", "too"])
    })
  )
})

describe("limits that a provider names", () => {
  it.effect("delay calls that would exceed them", () =>
    Effect.gen(function* () {
      const limiter = yield* CallLimiter.make()
      yield* limiter.acquire(ask({ maxWait: 0 }))
      yield* limiter.learn(target(), spent)
      // The same key and model, as a different object.
      const error = yield* Effect.flip(limiter.acquire(ask({ target: target(), maxWait: 0 })))
      assert.strictEqual(error.wait, 1_000)
      yield* limiter.acquire(ask({ target: target("KEY_B"), maxWait: 0 }))
      const calls = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(timed(limiter, ask())))
      yield* TestClock.adjust("1 minute")
      const times = yield* Effect.forEach(calls, Fiber.join)
      assert.deepStrictEqual(
        times.map(({ at }) => at),
        [1_000, 2_000, 3_000]
      )
    })
  )

  it.effect("may differ for input and output", () =>
    Effect.gen(function* () {
      const limiter = yield* CallLimiter.make()
      yield* limiter.learn(target(), {
        date: "Thu, 21 Aug 2025 12:40:29 GMT",
        "anthropic-ratelimit-output-tokens-limit": "1000",
        "anthropic-ratelimit-output-tokens-remaining": "100",
        "anthropic-ratelimit-output-tokens-reset": "2025-08-21T12:41:29Z"
      })
      const call = (outputTokens?: number) => limiter.acquire(ask({ tokens: 500, outputTokens, maxWait: 0 }))
      const granted = yield* Effect.forEach([101, undefined, 100, undefined], (outputTokens) =>
        Effect.map(Effect.exit(call(outputTokens)), Exit.isSuccess)
      )
      assert.deepStrictEqual(granted, [false, true, true, false])
    })
  )

  it.effect("cost nothing when they are missing", () =>
    Effect.gen(function* () {
      const limiter = yield* CallLimiter.make()
      yield* limiter.learn(target(), { "content-type": "application/json" })
      const [one, two] = [yield* limiter.acquire(ask()), yield* limiter.acquire(ask())]
      assert.strictEqual(one, two)
    })
  )

  it.effect("release waiting calls when the next answer names more", () =>
    Effect.gen(function* () {
      const limiter = yield* CallLimiter.make()
      yield* limiter.learn(target(), { ...spent, "x-ratelimit-limit-requests": "1" })
      const call = yield* Effect.forkChild(timed(limiter, ask()))
      yield* TestClock.adjust("5 seconds")
      yield* limiter.learn(target(), { ...spent, "x-ratelimit-remaining-requests": "1" })
      assert.strictEqual((yield* Fiber.join(call)).at, 5_000)
    })
  )
})

/** Interrupts the running fiber before its n-th operation. */
class Interrupting extends Scheduler.MixedScheduler {
  readonly at: number
  operations = 0
  constructor(at: number) {
    super()
    this.at = at
  }
  override shouldYield(fiber: Fiber.Fiber<unknown, unknown>): boolean {
    if (++this.operations !== this.at) return false
    fiber.interruptUnsafe()
    return true
  }
}

describe("an interrupted call", () => {
  it.effect("leaves the queue", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ tokensPerMinute: 100 })
      yield* limiter.acquire(ask({ tokens: 50 }))
      const large = yield* Effect.forkChild(limiter.acquire(ask({ tokens: 60 })))
      const small = yield* Effect.forkChild(timed(limiter, ask({ tokens: 10 })))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(large)
      assert.strictEqual((yield* Fiber.join(small)).at, 1_000)
    })
  )

  it.effect("can be interrupted while it waits, even in an uninterruptible region", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ concurrency: 1 })
      yield* limiter.acquire(ask())
      const call = yield* Effect.forkChild(Effect.uninterruptible(limiter.acquire(ask())))
      yield* TestClock.adjust(0)
      const exit = yield* Effect.exit(Effect.timeout(Fiber.interrupt(call), "1 second"))
      assert.isTrue(Exit.isSuccess(exit))
    })
  )

  it.effect("returns its grant, at any point of the interruption", () =>
    Effect.gen(function* () {
      let interrupted = 0
      let made = 0
      for (let at = 1; ; at++) {
        const limiter = yield* limited({ concurrency: 1 })
        const held = yield* limiter.acquire(ask())
        const scheduler = new Interrupting(at)
        const call = CallLimiter.withPermit(ask(), () => Effect.sync(() => void made++)).pipe(
          Effect.provideService(CallLimiter.CallLimiter, limiter),
          Effect.provideService(Scheduler.Scheduler, scheduler)
        )
        const fiber = yield* Effect.forkChild(call)
        yield* TestClock.adjust("1 second")
        yield* held.release
        if (Exit.isFailure(yield* Fiber.await(fiber))) interrupted++
        const next = yield* limiter.acquire(ask({ maxWait: 0 }))
        yield* next.release
        if (scheduler.operations < at) break
      }
      assert.isAbove(interrupted, 5)
      assert.isAbove(made, 0)
    })
  )

  it.effect("returns its grant when another call wins the race", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ concurrency: 2, requestsPerMinute: 2 })
      const call = Effect.provideService(
        CallLimiter.withPermit(ask(), () => Effect.void),
        CallLimiter.CallLimiter,
        limiter
      )
      yield* Effect.all([call, call])
      const hedged = yield* Effect.forkChild(Effect.raceFirst(call, call))
      yield* TestClock.adjust("61 seconds")
      yield* Fiber.join(hedged)
      yield* TestClock.adjust("61 seconds")
      const next = limiter.acquire(ask({ maxWait: 0 }))
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(Effect.all([next, next]))))
    })
  )

  it.effect("leaves the queue and returns its grant when onWait dies", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ concurrency: 1 })
      const first = yield* limiter.acquire(ask())
      const dying = ask({ onWait: () => Effect.andThen(first.release, Effect.die("a bug")) })
      assert.isTrue(Exit.isFailure(yield* Effect.exit(limiter.acquire(dying))))
      yield* limiter.acquire(ask({ maxWait: 0 }))
    })
  )

  it.effect("releases its permit, like a failed or dying call", () =>
    Effect.gen(function* () {
      const limiter = yield* limited({ concurrency: 1 })
      const withPermit = (effect: Effect.Effect<void, string>) =>
        Effect.provideService(
          CallLimiter.withPermit(ask({ maxWait: 0 }), () => effect),
          CallLimiter.CallLimiter,
          limiter
        )
      yield* withPermit(Effect.void)
      assert.strictEqual(yield* Effect.flip(withPermit(Effect.fail("no"))), "no")
      yield* Effect.exit(withPermit(Effect.die("no")))
      const call = yield* Effect.forkChild(withPermit(Effect.never))
      yield* TestClock.adjust(0)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(withPermit(Effect.void))))
      yield* Fiber.interrupt(call)
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(withPermit(Effect.void))))
    })
  )
})

it.effect("a thousand waiting calls proceed at the pace of the limit", () =>
  Effect.gen(function* () {
    const limiter = yield* CallLimiter.make({ limits: { "vendor/m": { requestsPerMinute: 100 } } })
    const calls = yield* Effect.forEach(Array.from({ length: 1_000 }), () =>
      Effect.forkChild(timed(limiter, ask({ maxWait: "1 hour" })))
    )
    yield* TestClock.adjust("20 minutes")
    const times = (yield* Effect.forEach(calls, Fiber.join)).map(({ at }) => at)
    for (let i = 0; i < times.length; i++) assert.strictEqual(times[i], Math.floor(i / 100) * 61_000)
  })
)

it.effect("unused keys and models are forgotten when there are too many", () =>
  Effect.gen(function* () {
    const limiter = yield* CallLimiter.make({ limits: () => ({ requestsPerMinute: 1, concurrency: 1 }) })
    const held = yield* limiter.acquire(ask({ target: target("held") }))
    yield* Effect.flatMap(limiter.acquire(ask({ target: target("0") })), ({ release }) => release)
    for (let i = 1; i < CallLimiter.maxLanes + 10; i++) {
      const { release } = yield* limiter.acquire(ask({ target: target(String(i)), maxWait: 0 }))
      yield* release
    }
    // The oldest is forgotten, including its used call. A lane in use is not.
    const isGranted = (key: string) =>
      Effect.map(Effect.exit(limiter.acquire(ask({ target: target(key), maxWait: 0 }))), Exit.isSuccess)
    assert.isTrue(yield* isGranted("0"))
    assert.isFalse(yield* isGranted("held"))
    yield* held.release
  })
)
