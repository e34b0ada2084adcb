/** Waits of the backoff and of the server, the deadline, and interruption during waits. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Fiber, Random } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, Deadline, Retry } from "@outlast/resilience"
import { Busy, busy, classify, common, failureOf, scripted, settle } from "../support/attempts.ts"

/** The largest possible draw. */
const almostOne = 1 - 2 ** -53

const withDraw = (draw: number) =>
  Effect.provideService(Random.Random, { nextDoubleUnsafe: () => draw, nextIntUnsafe: () => 0 })

describe("waits", () => {
  it.effect("27 follow the backoff", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, attempts: 5 })))
      assert.deepStrictEqual(at, [0, 1_000, 3_000, 7_000, 15_000])
      // There is no wait after the last attempt.
      assert.strictEqual(error.after, 15_000)
      const listed = scripted(busy)
      const backoff = Backoff.sequence(["3 seconds", "1 second"])
      yield* failureOf(listed.attempt.pipe(Retry.with({ classify, backoff, attempts: 4 })))
      assert.deepStrictEqual(
        listed.at.map((time) => time - (listed.at[0] ?? 0)),
        [0, 3_000, 4_000, 5_000]
      )
    })
  )

  it.effect("27 are equal for the same seed, and differ for another", () =>
    Effect.gen(function* () {
      const run = (seed: string) =>
        Effect.gen(function* () {
          const { at, attempt } = scripted(busy)
          yield* failureOf(attempt.pipe(Retry.with({ classify, attempts: 6 })))
          return at.map((time) => Math.round(time - (at[0] ?? 0)))
        }).pipe(Random.withSeed(seed))
      const first = yield* run("a")
      assert.deepStrictEqual(yield* run("a"), first)
      assert.notDeepEqual(yield* run("b"), first)
    })
  )

  it.effect("27 depend on the previous wait with decorrelated jitter", () =>
    Effect.gen(function* () {
      const backoff = Backoff.exponential({
        initial: "1 second",
        factor: 3,
        cap: "20 seconds",
        jitter: "decorrelated"
      })
      const { at, attempt } = scripted(busy)
      yield* failureOf(attempt.pipe(Retry.with({ classify, backoff, attempts: 5 })))
      const first = Backoff.delay(backoff, 1, undefined, 0.5)
      const second = Backoff.delay(backoff, 2, first, 0.5)
      const third = Backoff.delay(backoff, 3, second, 0.5)
      const fourth = Backoff.delay(backoff, 4, third, 0.5)
      assert.deepStrictEqual(
        at,
        [0, first, first + second, first + second + third, first + second + third + fourth].map(Math.floor)
      )
    }).pipe(withDraw(0.5))
  )

  it.effect("of decorrelated jitter do not grow from a wait that the server requested", () =>
    Effect.gen(function* () {
      const backoff = Backoff.exponential({
        initial: "1 second",
        factor: 3,
        cap: "10 minutes",
        jitter: "decorrelated"
      })
      const { at, attempt } = scripted(Effect.fail(new Busy({ wait: "1 minute" })), busy)
      yield* failureOf(attempt.pipe(Retry.with({ classify, backoff, attempts: 3, retryAfterJitter: 0 })))
      const second = Backoff.delay(backoff, 2, Backoff.delay(backoff, 1, undefined, 0.5), 0.5)
      assert.deepStrictEqual(at, [0, 60_000, Math.floor(60_000 + second)])
    }).pipe(withDraw(0.5))
  )

  const waited = (
    wait: Duration.Input,
    options: Pick<Retry.Options<Busy>, "retryAfter" | "retryAfterJitter"> = {}
  ) =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.fail(new Busy({ wait })))
      const error = yield* failureOf(
        attempt.pipe(Retry.with({ ...common, attempts: 2, retryAfterJitter: 0, ...options }))
      )
      return at[1] === undefined ? error.stopped : at[1] - (at[0] ?? 0)
    })

  it.effect("28 last at least as long as the server requested, in any unit", () =>
    Effect.gen(function* () {
      for (const wait of ["20 seconds", 20_000, Duration.seconds(20), { seconds: 20 }] as const) {
        assert.strictEqual(yield* waited(wait), 20_000)
      }
      // Shorter than the backoff.
      assert.strictEqual(yield* waited("10 millis"), 1_000)
    })
  )

  it.effect("28 follow or ignore the server when so configured", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* waited("10 millis", { retryAfter: "wins" }), 10)
      assert.strictEqual(yield* waited("20 seconds", { retryAfter: "wins" }), 20_000)
      assert.strictEqual(yield* waited("20 seconds", { retryAfter: "ignored" }), 1_000)
      assert.strictEqual(yield* waited("2 hours", { retryAfter: "ignored" }), 1_000)
    })
  )

  it.effect("28 are skipped for 0 and for a time in the past", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* waited(0), 0)
      assert.strictEqual(yield* waited(0, { retryAfter: "wins" }), 0)
      assert.strictEqual(yield* waited(-5_000), 0)
      assert.strictEqual(yield* waited("-5 seconds"), 0)
    })
  )

  it.effect("28 ignore a value that is not a duration", () =>
    Effect.gen(function* () {
      for (const wait of [Number.NaN, "soon" as never, {} as never, null as never, new Date() as never]) {
        assert.strictEqual(yield* waited(wait), wait !== null && typeof wait === "object" ? 0 : 1_000)
      }
    })
  )

  it.effect("28 above the limit are not slept: the call ends at once", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* waited("1 minute"), 60_000)
      assert.strictEqual(yield* waited(60_001), "retry-after")
      assert.strictEqual(yield* waited("Infinity"), "retry-after")
      const { at, attempt } = scripted(Effect.fail(new Busy({ wait: "2 minutes" })))
      const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, maxRetryAfter: "119 seconds" })))
      assert.strictEqual(error.stopped, "retry-after")
      assert.strictEqual(error.after, 0)
      assert.strictEqual(at.length, 1)
      const patient = scripted(Effect.fail(new Busy({ wait: "2 minutes" })), Effect.void)
      const { exit } = yield* settle(
        patient.attempt.pipe(Retry.with({ ...common, maxRetryAfter: "2 minutes" }))
      )
      assert.isTrue(Exit.isSuccess(exit))
    })
  )

  it.effect("28 of a server are lengthened by up to a tenth, never shortened", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* withDraw(0)(waited("20 seconds", { retryAfterJitter: 0.1 })), 20_000)
      assert.strictEqual(yield* withDraw(0.5)(waited("20 seconds", { retryAfterJitter: 0.1 })), 21_000)
      assert.isAtMost(
        Number(yield* withDraw(almostOne)(waited("20 seconds", { retryAfterJitter: 0.1 }))),
        22_000
      )
      const { at, attempt } = scripted(Effect.fail(new Busy({ wait: "20 seconds" })))
      yield* withDraw(0.5)(failureOf(attempt.pipe(Retry.with({ ...common, attempts: 2 }))))
      assert.strictEqual((at[1] ?? 0) - (at[0] ?? 0), 21_000)
    })
  )
})

describe("the deadline", () => {
  /** Start times of four attempts at 0, 1, 3 and 7 seconds, and the time and the reason of the call's end. */
  const outcome = (
    options: Pick<Retry.Options<Busy>, "deadline">,
    around: (self: Effect.Effect<never, unknown>) => Effect.Effect<never, unknown> = (self) => self,
    script: Effect.Effect<never, Busy> = busy
  ) =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(script)
      const call = attempt.pipe(Retry.with({ ...common, attempts: 4, retryAfterJitter: 0, ...options }))
      const { after, stopped } = (yield* failureOf(around(call))) as Retry.RetryFailed<Busy> & {
        after: number
      }
      return [at.map((time) => time - (at[0] ?? 0)), after, stopped]
    })

  it.effect("26 of the call: no wait starts that would end after it", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* outcome({}), [[0, 1_000, 3_000, 7_000], 7_000, "attempts"])
      assert.deepStrictEqual(yield* outcome({ deadline: 7_001 }), [
        [0, 1_000, 3_000, 7_000],
        7_000,
        "attempts"
      ])
      assert.deepStrictEqual(yield* outcome({ deadline: "7 seconds" }), [
        [0, 1_000, 3_000],
        3_000,
        "deadline"
      ])
      assert.deepStrictEqual(yield* outcome({ deadline: "2 seconds" }), [[0, 1_000], 1_000, "deadline"])
      assert.deepStrictEqual(yield* outcome({ deadline: 0 }), [[0], 0, "deadline"])
    })
  )

  it.effect("26 around the call: the earlier one applies", () =>
    Effect.gen(function* () {
      const within = (length: Duration.Input) => Deadline.within(length)
      assert.deepStrictEqual(yield* outcome({}, within("2 seconds")), [[0, 1_000], 1_000, "deadline"])
      assert.deepStrictEqual(yield* outcome({ deadline: "5 seconds" }, within("2 seconds")), [
        [0, 1_000],
        1_000,
        "deadline"
      ])
      assert.deepStrictEqual(yield* outcome({ deadline: "2 seconds" }, within("5 seconds")), [
        [0, 1_000],
        1_000,
        "deadline"
      ])
      const nested = (self: Effect.Effect<never, unknown>) =>
        self.pipe(Deadline.within("1 hour"), Deadline.within("2 seconds"), Deadline.within("1 minute"))
      assert.deepStrictEqual(yield* outcome({}, nested), [[0, 1_000], 1_000, "deadline"])
    })
  )

  it.effect("26 a server's wait beyond the remaining time is not slept", () =>
    Effect.gen(function* () {
      const wait = Effect.fail(new Busy({ wait: "30 seconds" }))
      assert.deepStrictEqual(yield* outcome({ deadline: "30 seconds" }, (self) => self, wait), [
        [0],
        0,
        "deadline"
      ])
      assert.deepStrictEqual(yield* outcome({ deadline: 30_001 }, (self) => self, wait), [
        [0, 30_000],
        30_000,
        "deadline"
      ])
    })
  )

  it.effect(
    "26 includes the time of the attempts, and no attempt starts after it, not even without a wait",
    () =>
      Effect.gen(function* () {
        const slow = Effect.delay(busy, "5 seconds")
        assert.deepStrictEqual(yield* outcome({ deadline: "13 seconds" }, (self) => self, slow), [
          [0, 6_000],
          11_000,
          "deadline"
        ])
        const now = Effect.delay(Effect.fail(new Busy({ wait: 0 })), "5 seconds")
        assert.deepStrictEqual(yield* outcome({ deadline: "9 seconds" }, (self) => self, now), [
          [0, 5_000],
          10_000,
          "deadline"
        ])
      })
  )

  it.effect("interrupts no attempt, and is visible inside each", () =>
    Effect.gen(function* () {
      const left: Array<number | undefined> = []
      const attempt = Effect.flatMap(Deadline.remaining, (remaining) => {
        left.push(remaining._tag === "Some" ? Duration.toMillis(remaining.value) : undefined)
        return left.length === 1 ? busy : Effect.as(Effect.sleep("1 minute"), "late")
      })
      const call = attempt.pipe(Retry.with({ ...common, deadline: "10 seconds" }))
      yield* TestClock.adjust("1 hour")
      const { exit } = yield* settle(call)
      assert.deepStrictEqual(exit, Exit.succeed("late"))
      assert.deepStrictEqual(left, [10_000, 9_000])
    })
  )
})

describe("interruption", () => {
  it.effect("26 during a wait ends at once and starts no attempt", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      const fiber = yield* Effect.forkChild(attempt.pipe(Retry.with(common)), { startImmediately: true })
      yield* TestClock.adjust(999)
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(at, [0])
    })
  )
})
