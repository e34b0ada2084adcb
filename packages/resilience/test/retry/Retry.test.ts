import { assert, describe, it } from "@effect/vitest"
import { Cause, Data, Deferred, Duration, Effect, Exit, Fiber, Random, Redacted, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, Deadline, Retry, RetryBudget } from "@outlast/resilience"
import { CircuitRefused } from "@outlast/resilience/breaker/CircuitRefused"
import * as Refusal from "@outlast/resilience/Refusal"
import {
  Busy,
  busy,
  classify,
  exact,
  failureOf,
  Malformed,
  recorded,
  scripted,
  settle
} from "../support/attempts.ts"

const common = { classify, backoff: exact } as const

/** The largest draw there is. */
const almostOne = 1 - 2 ** -53

const withDraw = (draw: number) =>
  Effect.provideService(Random.Random, { nextDoubleUnsafe: () => draw, nextIntUnsafe: () => 0 })

describe("attempts", () => {
  it.effect("25 are one and the retries, and the last failure comes back with their number", () =>
    Effect.gen(function* () {
      for (const attempts of [1, 2, 3, 7]) {
        let n = 0
        const attempt = Effect.suspend(() => Effect.fail(new Busy({ n: ++n })))
        const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, attempts })))
        assert.strictEqual(n, attempts)
        assert.strictEqual(error.attempts, attempts)
        assert.propertyVal(error.failure, "n", attempts)
        assert.strictEqual(error.stopped, "attempts")
      }
    })
  )

  it.effect("25 are three unless told otherwise", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      yield* failureOf(attempt.pipe(Retry.with({ classify })))
      assert.strictEqual(at.length, 3)
      assert.strictEqual(Retry.defaults.attempts, 3)
    })
  )

  it.effect("25 end with the first success, whose value comes back", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy, Effect.succeed("fine"), busy)
      const { exit } = yield* settle(attempt.pipe(Retry.with(common)))
      assert.deepStrictEqual(exit, Exit.succeed("fine"))
      assert.strictEqual(at.length, 2)
    })
  )

  it.effect("25 a defect runs once and leaves as it came", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.die("bug"))
      const { exit } = yield* settle(attempt.pipe(Retry.with({ classify: () => Retry.again() })))
      assert.deepStrictEqual(exit, Exit.die("bug"))
      assert.strictEqual(at.length, 1)
    })
  )

  it.effect("25 an interruption runs once and leaves as it came", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.interrupt)
      const { exit } = yield* settle(attempt.pipe(Retry.with({ classify: () => Retry.again() })))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      assert.strictEqual(at.length, 1)
    })
  )

  it.effect("25 what does not pass runs once, also after what does", () =>
    Effect.gen(function* () {
      const once = scripted(Effect.fail(new Malformed()))
      const first = yield* failureOf(once.attempt.pipe(Retry.with(common)))
      assert.strictEqual(once.at.length, 1)
      assert.strictEqual(first.attempts, 1)
      assert.strictEqual(first.stopped, "not-retryable")
      assert.strictEqual(first.after, 0)
      const later = scripted<never, Busy | Malformed, never>(busy, Effect.fail(new Malformed()))
      const second = yield* failureOf(later.attempt.pipe(Retry.with({ ...common, attempts: 9 })))
      assert.strictEqual(second.attempts, 2)
      assert.strictEqual(second.failure._tag, "Malformed")
      assert.strictEqual(second.stopped, "not-retryable")
    })
  )

  it.effect("25 a failure beside a defect is not repeated, and both leave, the failure with its type", () =>
    Effect.gen(function* () {
      const cause = Cause.combine(Cause.fail(new Busy({})), Cause.die("bug"))
      const { at, attempt } = scripted(Effect.failCause(cause))
      const { exit } = yield* settle(attempt.pipe(Retry.with(common)))
      assert.strictEqual(at.length, 1)
      assert.isTrue(Exit.isFailure(exit))
      if (!Exit.isFailure(exit)) return
      assert.isTrue(Cause.hasDies(exit.cause))
      const [failed] = exit.cause.reasons.filter(Cause.isFailReason)
      assert.instanceOf(failed?.error, Retry.RetryFailed)
      assert.instanceOf(failed?.error.failure, Busy)
    })
  )

  it.effect("25 a failure that comes with the interruption of others is classified", () =>
    Effect.gen(function* () {
      const one = scripted(busy, Effect.void)
      const both = Effect.all([one.attempt, Effect.sleep("1 second")], { concurrency: "unbounded" })
      const { exit } = yield* settle(both.pipe(Retry.with(common)))
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(one.at.length, 2)
    })
  )

  it.effect("a classifier that throws is a defect, and ends the call", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      const throwing = Retry.with({
        classify: (): Retry.Verdict => {
          throw new Error("bug")
        }
      })
      const { exit } = yield* settle(throwing(attempt))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.strictEqual(at.length, 1)
    })
  )

  it.effect("a class has its own limit, and the call has one over all", () =>
    Effect.gen(function* () {
      const of = (name: string) => Effect.fail(new Busy({ class: name }))
      const call = (...script: readonly [typeof busy, ...Array<typeof busy>]) => {
        const { attempt } = scripted(...script)
        const attemptsPerClass = { RateLimit: 4, Server: 2, constructor: 1 }
        return failureOf(attempt.pipe(Retry.with({ ...common, attemptsPerClass, attempts: 5 })))
      }
      assert.strictEqual((yield* call(of("RateLimit"))).attempts, 4)
      assert.strictEqual((yield* call(of("Server"))).attempts, 2)
      assert.strictEqual((yield* call(of("constructor"))).attempts, 1)
      assert.strictEqual((yield* call(of("Other"))).attempts, 5)
      assert.strictEqual((yield* call(busy)).attempts, 5)
      // One of Server, then RateLimit until the call's five are used up, although it may have four of its own.
      const mixed = yield* call(of("Server"), of("Other"), of("RateLimit"))
      assert.strictEqual(mixed.attempts, 5)
      assert.propertyVal(mixed.failure, "class", "RateLimit")
      // The second of Server is its last, however many the call has left.
      assert.strictEqual((yield* call(of("Server"), of("Other"), of("Server"))).attempts, 3)
    })
  )

  it.effect("a class may have more than the three that a call has otherwise", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.fail(new Busy({ class: "RateLimit" })))
      yield* failureOf(attempt.pipe(Retry.with({ ...common, attemptsPerClass: { RateLimit: 5 } })))
      assert.strictEqual(at.length, 5)
      const fewer = scripted(busy)
      yield* failureOf(fewer.attempt.pipe(Retry.with({ ...common, attemptsPerClass: { RateLimit: 1 } })))
      assert.strictEqual(fewer.at.length, 3)
      const unnamed = scripted(busy)
      yield* failureOf(unnamed.attempt.pipe(Retry.with({ ...common, attemptsPerClass: { failure: 2 } })))
      assert.strictEqual(unnamed.at.length, 2)
    })
  )

  it.effect("each run begins anew, one after the other and at the same time", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      const call = Effect.flip(attempt.pipe(Retry.with({ ...common, breaker: { circuit: "a" } })))
      const first = yield* settle(call)
      const { exit } = yield* settle(Effect.all([call, call, call], { concurrency: "unbounded" }))
      assert.isTrue(Exit.isSuccess(first.exit) && Exit.isSuccess(exit))
      if (Exit.isSuccess(exit))
        assert.deepStrictEqual(
          exit.value.map(({ attempts }) => attempts),
          [3, 3, 3]
        )
      assert.strictEqual(at.length, 12)
    }).pipe(Effect.provide(CircuitBreaker.layer({ trip: { consecutive: { failures: 100 } } })))
  )

  it.effect("ten thousand of them end, one after the other", () =>
    Effect.gen(function* () {
      const { attempt } = scripted(busy)
      const now = Backoff.constant(0)
      const error = yield* failureOf(
        attempt.pipe(Retry.with({ classify, backoff: now, attempts: 10_000, breaker: { circuit: "a" } }))
      )
      assert.strictEqual(error.attempts, 10_000)
    }).pipe(Effect.provide(CircuitBreaker.layer({ trip: { consecutive: { failures: 1e6 } } })))
  )
})

describe("without classify", () => {
  class Told extends Data.TaggedError("Told")<{
    readonly isRetryable: boolean
    readonly retryAfter?: Duration.Duration
  }> {}

  it.effect("an error that says that it passes is repeated, after the wait that it names", () =>
    Effect.gen(function* () {
      const yes = scripted(Effect.fail(new Told({ isRetryable: true, retryAfter: Duration.seconds(20) })))
      yield* failureOf(yes.attempt.pipe(Retry.with({ attempts: 2, backoff: exact, retryAfterJitter: 0 })))
      assert.deepStrictEqual(yes.at, [0, 20_000])
      const no = scripted(Effect.fail(new Told({ isRetryable: false })))
      const error = yield* failureOf(no.attempt.pipe(Retry.with()))
      assert.strictEqual(no.at.length, 1)
      assert.strictEqual(error.stopped, "not-retryable")
    })
  )

  it.effect("one retry around another does not multiply attempts", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.fail(new Told({ isRetryable: true })))
      const error = yield* failureOf(attempt.pipe(Retry.with(), Retry.with({ attempts: 5 })))
      assert.strictEqual(at.length, 3)
      assert.strictEqual(error.attempts, 1)
      assert.strictEqual(error.failure.attempts, 3)
    })
  )
})

describe("waits", () => {
  it.effect("27 are those of the backoff", () =>
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

  it.effect("27 the same seed gives the same ones, another seed others", () =>
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

  it.effect("27 decorrelated jitter goes by the wait before", () =>
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

  it.effect("28 a server's wait is the least, in whatever unit it comes", () =>
    Effect.gen(function* () {
      for (const wait of ["20 seconds", 20_000, Duration.seconds(20), { seconds: 20 }] as const) {
        assert.strictEqual(yield* waited(wait), 20_000)
      }
      // Shorter than the backoff's.
      assert.strictEqual(yield* waited("10 millis"), 1_000)
    })
  )

  it.effect("28 it wins, or is ignored, where that is wanted", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* waited("10 millis", { retryAfter: "wins" }), 10)
      assert.strictEqual(yield* waited("20 seconds", { retryAfter: "wins" }), 20_000)
      assert.strictEqual(yield* waited("20 seconds", { retryAfter: "ignored" }), 1_000)
      assert.strictEqual(yield* waited("2 hours", { retryAfter: "ignored" }), 1_000)
    })
  )

  it.effect("28 0 means now, and so does a time that has passed", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* waited(0), 0)
      assert.strictEqual(yield* waited(0, { retryAfter: "wins" }), 0)
      assert.strictEqual(yield* waited(-5_000), 0)
      assert.strictEqual(yield* waited("-5 seconds"), 0)
    })
  )

  it.effect("28 what is no duration counts as nothing said", () =>
    Effect.gen(function* () {
      for (const wait of [Number.NaN, "soon" as never, {} as never, null as never, new Date() as never]) {
        assert.strictEqual(yield* waited(wait), wait !== null && typeof wait === "object" ? 0 : 1_000)
      }
    })
  )

  it.effect("28 a wait above the limit is not slept: the call ends at once", () =>
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

  it.effect("28 it is lengthened by up to a tenth, never shortened", () =>
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
  /** When attempts began, and when and why the call ended: four attempts, at 0, 1, 3 and 7 seconds. */
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

  it.effect("26 of its own: no wait is begun that would not end before it", () =>
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

  it.effect("26 around it: the nearer one holds", () =>
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

  it.effect("26 a server's wait of more than is left is not slept", () =>
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

  it.effect("26 the time of the attempts counts, and after it none begins, not even without a wait", () =>
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

  it.effect("interrupts no attempt, and is known inside each", () =>
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

  it.effect("25 of an attempt is no failure of the circuit and is not repeated", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.never)
      const call = attempt.pipe(Retry.with({ ...common, breaker: { circuit: "a" } }))
      const fiber = yield* Effect.forkChild(call, { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(at.length, 1)
      const breaker = yield* CircuitBreaker.CircuitBreaker
      assert.strictEqual((yield* breaker.state("a")).phase, "closed")
    }).pipe(Effect.provide(CircuitBreaker.layer({ trip: { consecutive: { failures: 1 } } })))
  )
})

describe("the retry budget", () => {
  it.effect("29 when it is empty the call fails at once with what it has", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(Effect.fail(new Busy({ n: 7 })))
      const call = attempt.pipe(Retry.with({ ...common, attempts: 9, budget: true }))
      const error = yield* failureOf(call)
      assert.strictEqual(error.stopped, "budget")
      assert.strictEqual(error.attempts, 3)
      assert.propertyVal(error.failure, "n", 7)
      assert.strictEqual(error.after, 3_000)
      assert.deepStrictEqual(at, [0, 1_000, 3_000])
    }).pipe(Effect.provide(RetryBudget.layer({ burst: 2, refillEvery: "1 hour" })))
  )

  it.effect("a call pays in once, whatever comes of it, and a retry takes one", () =>
    Effect.gen(function* () {
      const budget = yield* RetryBudget.RetryBudget
      const call = (
        script: Effect.Effect<void, Busy | Malformed>,
        options: { deadline?: Duration.Input } = {}
      ) => settle(Effect.exit(script.pipe(Retry.with({ ...common, budget: true, ...options }))))
      yield* call(Effect.void)
      assert.strictEqual(yield* budget.amplification, 1)
      yield* call(busy)
      assert.strictEqual(yield* budget.amplification, 4 / 2)
      // Nothing is taken for an attempt that is not made for another reason.
      yield* call(Effect.fail(new Malformed()))
      yield* call(busy, { deadline: "1 milli" })
      assert.strictEqual(yield* budget.amplification, 6 / 4)
    }).pipe(Effect.provide(RetryBudget.layer()))
  )

  it.effect("is left alone unless it is asked for", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      yield* failureOf(attempt.pipe(Retry.with({ ...common, budget: false })))
      assert.strictEqual(at.length, 3)
      assert.strictEqual(yield* (yield* RetryBudget.RetryBudget).amplification, 1)
    }).pipe(Effect.provide(RetryBudget.layer({ burst: 0 })))
  )
})

/** Opens for ten seconds after two failures in a row, and closes with the first success. */
const quick = CircuitBreaker.layer({
  trip: { consecutive: { failures: 2 } },
  open: Backoff.constant("10 seconds"),
  halfOpen: { successes: 1 }
})

describe("the circuit", () => {
  const guard = { circuit: "a" } as const
  const patient = { circuit: "a", whenRefused: "wait" } as const
  const phaseOf = (name: string) =>
    Effect.flatMap(CircuitBreaker.CircuitBreaker, (breaker) =>
      Effect.map(breaker.state(name), ({ phase }) => phase)
    )
  const trip = (name: string) =>
    Effect.flatMap(CircuitBreaker.CircuitBreaker, (breaker) => breaker.trip(name))

  it.effect("sees each attempt, and stops a call in its midst", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      const error = yield* failureOf(
        attempt.pipe(Retry.with({ ...common, attempts: 9, breaker: guard })),
        "3 seconds"
      )
      assert.deepStrictEqual(at, [0, 1_000])
      assert.strictEqual(error.attempts, 2)
      assert.strictEqual(error.stopped, "refused")
      assert.instanceOf(error.failure, CircuitRefused)
      assert.strictEqual(error.after, 3_000)
      assert.strictEqual(yield* phaseOf("a"), "open")
    }).pipe(Effect.provide(quick))
  )

  it.effect("a success in a later attempt ends the row of failures", () =>
    Effect.gen(function* () {
      for (let n = 0; n < 3; n++) {
        const { attempt } = scripted(busy, Effect.void)
        const { exit } = yield* settle(attempt.pipe(Retry.with({ ...common, breaker: guard })))
        assert.isTrue(Exit.isSuccess(exit))
      }
      assert.strictEqual(yield* phaseOf("a"), "closed")
    }).pipe(Effect.provide(quick))
  )

  it.effect("counts what passes, with its wait, and defects, but not what would fail again", () =>
    Effect.gen(function* () {
      const ended = (attempt: Effect.Effect<never, Busy | Malformed>) =>
        Effect.exit(attempt.pipe(Retry.with({ ...common, attempts: 1, breaker: guard })))
      for (let n = 0; n < 5; n++) yield* ended(Effect.fail(new Malformed()))
      assert.strictEqual(yield* phaseOf("a"), "closed")
      yield* ended(Effect.fail(new Busy({})))
      yield* Effect.exit(Effect.die("oops").pipe(Retry.with({ ...common, breaker: guard })))
      assert.strictEqual(yield* phaseOf("a"), "open")
      const breaker = yield* CircuitBreaker.CircuitBreaker
      yield* breaker.reset("a")
      const long = Effect.fail(new Busy({ wait: "5 minutes" }))
      for (let n = 0; n < 2; n++) {
        yield* Effect.exit(long.pipe(Retry.with({ ...common, attempts: 1, breaker: guard })))
      }
      assert.deepStrictEqual((yield* breaker.state("a")).retryAfter, Duration.minutes(5))
    }).pipe(Effect.provide(quick))
  )

  it.effect("counts as the breaker's own classifier says, where there is one", () =>
    Effect.gen(function* () {
      const failed: CircuitBreaker.Outcome = { counts: "failure" }
      const own = { circuit: "a", classify: () => failed }
      for (let n = 0; n < 2; n++) {
        yield* Effect.exit(
          Effect.fail(new Malformed()).pipe(Retry.with({ ...common, attempts: 1, breaker: own }))
        )
      }
      assert.strictEqual(yield* phaseOf("a"), "open")
    }).pipe(Effect.provide(quick))
  )

  it.effect("takes the attempts of one call for one call", () =>
    Effect.gen(function* () {
      const call = (attempts: number) => busy.pipe(Retry.with({ ...common, attempts, breaker: guard }))
      // Another call is under way, so that a row of one call's own failures proves nothing.
      const other = yield* Effect.forkChild(
        Effect.never.pipe(CircuitBreaker.execute("a", { call: "other" })),
        { startImmediately: true }
      )
      assert.strictEqual((yield* failureOf(call(5))).attempts, 5)
      assert.strictEqual(yield* phaseOf("a"), "closed")
      yield* (yield* CircuitBreaker.CircuitBreaker).reset("a")
      // Each run is a call.
      const twice = call(2)
      assert.strictEqual((yield* failureOf(twice)).attempts, 2)
      assert.strictEqual((yield* failureOf(twice)).attempts, 2)
      assert.strictEqual(yield* phaseOf("a"), "closed")
      // The fifth failure in a row, and the first of a third call.
      const { stopped, attempts } = yield* failureOf(twice)
      assert.deepStrictEqual([stopped, attempts], ["refused", 1])
      yield* Fiber.interrupt(other)
    }).pipe(Effect.provide(CircuitBreaker.layer()))
  )

  it.effect("open, it refuses at once, and no attempt is made", () =>
    Effect.gen(function* () {
      yield* trip("a")
      const { at, attempt } = scripted(Effect.void)
      const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, breaker: guard })))
      assert.strictEqual(at.length, 0)
      assert.strictEqual(error.attempts, 0)
      assert.strictEqual(error.stopped, "refused")
      assert.strictEqual(error.after, 0)
      assert.strictEqual(error.failure._tag, "CircuitRefused")
    }).pipe(Effect.provide(quick))
  )

  it.effect("open, a call that waits is made at the instant at which the circuit lets it through", () =>
    Effect.gen(function* () {
      yield* trip("a")
      yield* TestClock.adjust("4 seconds")
      const { at, attempt } = scripted(busy, Effect.succeed("fine"))
      const { value, events } = yield* recorded(
        settle(attempt.pipe(Retry.with({ ...common, attempts: 2, breaker: patient })))
      )
      assert.deepStrictEqual(value.exit, Exit.succeed("fine"))
      // The first one is a probe whose failure opens the circuit again, for ten seconds: no attempt until then,
      // and none is counted: two attempts are made of two that are allowed.
      assert.deepStrictEqual(at, [10_000, 20_000])
      assert.deepStrictEqual(
        events.flatMap((event) =>
          "because" in event && "delay" in event ? [[event.because, event.delay]] : []
        ),
        [
          ["refused", 6_000],
          ["failed", 1_000],
          ["refused", 9_000]
        ]
      )
    }).pipe(Effect.provide(quick))
  )

  it.effect("does not wake a waiting call a fraction of a millisecond early", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      yield* breaker.trip("a", "1000300 micros")
      const { at, attempt } = scripted(Effect.void)
      const { events } = yield* recorded(settle(attempt.pipe(Retry.with({ ...common, breaker: patient }))))
      assert.deepStrictEqual(at, [1_001])
      assert.strictEqual(events.filter(({ _tag }) => _tag === "Retrying").length, 1)
    }).pipe(Effect.provide(quick))
  )

  it.effect("half-open, a call that waits asks again as the backoff says", () =>
    Effect.gen(function* () {
      yield* trip("a")
      yield* TestClock.adjust("10 seconds")
      const gate = yield* Deferred.make<void>()
      const probe = yield* Deferred.await(gate).pipe(
        CircuitBreaker.execute("a"),
        Effect.forkChild({ startImmediately: true })
      )
      const { at, attempt } = scripted(Effect.void)
      const fiber = yield* Effect.forkChild(attempt.pipe(Retry.with({ ...common, breaker: patient })), {
        startImmediately: true
      })
      yield* TestClock.adjust("6 seconds")
      assert.strictEqual(at.length, 0)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(probe)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      // 10 + 1 + 2 + 4 seconds.
      assert.deepStrictEqual(at, [17_000])
    }).pipe(Effect.provide(quick))
  )

  it.effect("isolated, a call that waits asks again until it is released", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      const scope = yield* Scope.make()
      yield* Scope.provide(breaker.isolate("a"), scope)
      const { at, attempt } = scripted(Effect.void)
      const fiber = yield* Effect.forkChild(attempt.pipe(Retry.with({ ...common, breaker: patient })), {
        startImmediately: true
      })
      yield* TestClock.adjust("10 seconds")
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(at, [15_000])
      // At once, where it does not wait.
      const again = yield* Scope.make()
      yield* Scope.provide(breaker.isolate("a"), again)
      const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, breaker: guard })))
      assert.deepStrictEqual([error.stopped, error.after], ["refused", 0])
    }).pipe(Effect.provide(quick))
  )

  it.effect("26 no call waits for it beyond the deadline, its own or the one around it", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      yield* breaker.trip("a")
      const { at, attempt } = scripted(Effect.void)
      const own = yield* failureOf(
        attempt.pipe(Retry.with({ ...common, deadline: "9 seconds", breaker: patient })),
        0
      )
      assert.deepStrictEqual([own.stopped, own.after, own.attempts], ["deadline", 0, 0])
      const around = yield* failureOf(
        attempt.pipe(Retry.with({ ...common, breaker: patient }), Deadline.within("9 seconds")),
        0
      )
      assert.deepStrictEqual([around.stopped, around.after], ["deadline", 0])
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* breaker.isolate("a")
          const held = yield* failureOf(
            attempt.pipe(Retry.with({ ...common, deadline: "1 minute", breaker: patient }))
          )
          // 1, 3, 7, 15, 31; the next would be at 61.
          assert.deepStrictEqual([held.stopped, held.after], ["deadline", 31_000])
          assert.strictEqual(held.failure._tag, "CircuitRefused")
        })
      )
      assert.strictEqual(at.length, 0)
    }).pipe(Effect.provide(quick))
  )

  it.effect("26 interruption while a call waits for it ends at once and starts no attempt", () =>
    Effect.gen(function* () {
      yield* trip("a")
      const { at, attempt } = scripted(Effect.void)
      const fiber = yield* Effect.forkChild(attempt.pipe(Retry.with({ ...common, breaker: patient })), {
        startImmediately: true
      })
      yield* TestClock.adjust("9 seconds")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(at.length, 0)
    }).pipe(Effect.provide(quick))
  )

  it.effect("refusals are no attempts and take nothing of the budget", () =>
    Effect.gen(function* () {
      yield* trip("a")
      const { at, attempt } = scripted(Effect.void)
      const call = attempt.pipe(Retry.with({ ...common, attempts: 1, budget: true, breaker: patient }))
      const { exit } = yield* settle(call)
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(at.length, 1)
      assert.strictEqual(yield* (yield* RetryBudget.RetryBudget).amplification, 1)
    }).pipe(Effect.provide(quick), Effect.provide(RetryBudget.layer({ burst: 0 })))
  )

  it.effect("a refusal of another circuit inside is classified like other failures", () =>
    Effect.gen(function* () {
      yield* trip("inner")
      const { at, attempt } = scripted(Effect.void)
      const inner = attempt.pipe(CircuitBreaker.execute("inner"))
      const seen: Array<string> = []
      const stopping = yield* failureOf(
        inner.pipe(
          Retry.with({
            classify: (error) => {
              seen.push(error.circuit)
              return Retry.stop
            },
            breaker: patient
          })
        )
      )
      assert.deepStrictEqual(seen, ["inner"])
      assert.deepStrictEqual([stopping.stopped, stopping.attempts], ["not-retryable", 1])
      // It says for itself that it passes, and when; the outer circuit is not asked about it.
      yield* trip("inner")
      const { exit } = yield* settle(inner.pipe(Retry.with({ retryAfterJitter: 0, breaker: guard })))
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(at.length, 1)
      assert.strictEqual(yield* phaseOf("a"), "closed")
    }).pipe(Effect.provide(quick))
  )

  it.effect("of several, all or none: the call waits for the one that refuses", () =>
    Effect.gen(function* () {
      yield* trip("b")
      const { at, attempt } = scripted(Effect.void)
      const { exit } = yield* settle(
        attempt.pipe(Retry.with({ ...common, breaker: { circuit: ["a", "b"], whenRefused: "wait" } }))
      )
      assert.isTrue(Exit.isSuccess(exit))
      assert.deepStrictEqual(at, [10_000])
    }).pipe(Effect.provide(quick))
  )

  it.effect("counts what its own classifier says", () =>
    Effect.gen(function* () {
      const harmless: CircuitBreaker.Classify = () => ({ counts: "ignored" })
      yield* failureOf(
        busy.pipe(Retry.with({ ...common, attempts: 9, breaker: { circuit: "a", classify: harmless } }))
      )
      assert.strictEqual(yield* phaseOf("a"), "closed")
    }).pipe(Effect.provide(quick))
  )

  it.effect(
    "14 a breaker around a call that was only refused counts nothing, around one that failed a failure",
    () =>
      Effect.gen(function* () {
        const around = (call: Effect.Effect<void, unknown, CircuitBreaker.CircuitBreaker>) =>
          settle(Effect.exit(call.pipe(CircuitBreaker.execute("outer"))))
        yield* trip("a")
        const refused = Effect.void.pipe(Retry.with({ ...common, breaker: guard }))
        assert.isTrue(Refusal.isRefusal(yield* failureOf(refused, 0)))
        for (let n = 0; n < 3; n++) yield* around(refused)
        assert.strictEqual(yield* phaseOf("outer"), "closed")
        const failed = busy.pipe(Retry.with(common))
        assert.isFalse(Refusal.isRefusal(yield* failureOf(failed)))
        for (let n = 0; n < 2; n++) yield* around(failed)
        assert.notStrictEqual(yield* phaseOf("outer"), "closed")
      }).pipe(Effect.provide(quick))
  )
})

describe("RetryFailed", () => {
  it.effect("has the failure, as its cause too, the attempts, and why they ended", () =>
    Effect.gen(function* () {
      const failure = new Busy({ n: 1 })
      const error = yield* failureOf(Effect.fail(failure).pipe(Retry.with(common)))
      assert.instanceOf(error, Error)
      assert.strictEqual(error._tag, "RetryFailed")
      assert.strictEqual(error.failure, failure)
      assert.strictEqual(error.cause, failure)
      assert.strictEqual(error.message, "Gave up after 3 attempts: no more are allowed.")
      assert.isFalse(error.isRetryable)
    })
  )

  it("says why in its message, and nothing of the failure", () => {
    const secret = "sk-ant-0123456789"
    const failure = { _tag: "Denied", key: Redacted.make(secret), prompt: secret }
    const messageOf = (stopped: Retry.RetryFailed<unknown>["stopped"], attempts = 2) =>
      new Retry.RetryFailed({ failure, attempts, stopped }).message
    const all = [
      "not-retryable",
      "attempts",
      "deadline",
      "retry-after",
      "budget",
      "refused",
      "started"
    ] as const
    const messages = all.map((stopped) => messageOf(stopped))
    assert.strictEqual(new Set(messages).size, all.length)
    for (const message of messages) {
      assert.match(message, /^Gave up after 2 attempts: [^.]+\.$/)
      assert.notInclude(message, secret)
    }
    assert.include(messageOf("not-retryable", 1), "after 1 attempt:")
    assert.include(messageOf("refused", 0), "after 0 attempts:")
  })

  it.effect("is caught by its tag", () =>
    Effect.gen(function* () {
      const answer = yield* Effect.fail(new Malformed()).pipe(
        Retry.with(common),
        Effect.catchTag("RetryFailed", ({ failure, attempts }) =>
          Effect.succeed(`${failure._tag} ${attempts}`)
        )
      )
      assert.strictEqual(answer, "Malformed 1")
    })
  )
})

const sameEvents = (events: ReadonlyArray<object>, wanted: ReadonlyArray<object>) =>
  assert.deepStrictEqual(events, wanted)

describe("events", () => {
  it.effect("say what failed and what follows, with the name of the call", () =>
    Effect.gen(function* () {
      const { attempt } = scripted(Effect.fail(new Busy({ class: "RateLimit" })), busy, Effect.void)
      const { events } = yield* recorded(settle(attempt.pipe(Retry.with({ ...common, name: "answer" }))))
      sameEvents(events, [
        {
          _tag: "Retrying",
          at: 0,
          name: "answer",
          attempt: 1,
          delay: 1_000,
          class: "RateLimit",
          because: "failed"
        },
        { _tag: "Retrying", at: 1_000, name: "answer", attempt: 2, delay: 2_000, because: "failed" },
        { _tag: "RetrySucceeded", at: 3_000, name: "answer", attempts: 3 }
      ])
    })
  )

  it.effect("say that a call failed for good, and why", () =>
    Effect.gen(function* () {
      const { events } = yield* recorded(settle(busy.pipe(Retry.with({ ...common, attempts: 2 }))))
      sameEvents(events, [
        { _tag: "Retrying", at: 0, attempt: 1, delay: 1_000, because: "failed" },
        { _tag: "RetriesExhausted", at: 1_000, attempts: 2, stopped: "attempts" }
      ])
    })
  )

  it.effect("say nothing of a call that succeeds at once, nor of defects and interruptions", () =>
    Effect.gen(function* () {
      const calls = [Effect.void, Effect.die("bug"), Effect.interrupt].map((effect) =>
        Effect.exit(effect.pipe(Retry.with()))
      )
      sameEvents((yield* recorded(Effect.all(calls))).events, [])
    })
  )

  it.effect(
    "say once that a call succeeded that had to wait for its circuit, if it was not the first attempt",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        yield* breaker.trip("a")
        const { events } = yield* recorded(
          settle(Effect.void.pipe(Retry.with({ ...common, breaker: { circuit: "a", whenRefused: "wait" } })))
        )
        sameEvents(
          events.filter(({ _tag }) => _tag !== "CircuitTransition" && _tag !== "CircuitRefusal"),
          [{ _tag: "Retrying", at: 0, attempt: 0, delay: 10_000, because: "refused" }]
        )
      }).pipe(Effect.provide(quick))
  )
})

describe("options out of their range are refused when it is made", () => {
  const refused: ReadonlyArray<readonly [Retry.Options<never>, string]> = [
    [{ attempts: 0 }, "Retry: attempts must be an integer of at least 1, got 0"],
    [{ attempts: 1.5 }, "Retry: attempts must be an integer of at least 1, got 1.5"],
    [{ attempts: Number.NaN }, "Retry: attempts must be an integer of at least 1, got NaN"],
    [
      { attemptsPerClass: { Server: 0 } },
      "Retry: attemptsPerClass.Server must be an integer of at least 1, got 0"
    ],
    [{ deadline: -1 }, "Retry: deadline must be a finite duration of at least 0, got -1"],
    [{ deadline: "Infinity" }, "Retry: deadline must be a finite duration of at least 0"],
    [{ deadline: Number.NaN }, "Retry: deadline must be a finite duration of at least 0, got NaN"],
    [{ maxRetryAfter: -1 }, "Retry: maxRetryAfter must be a duration from 0 to 365d, got -1"],
    [{ retryAfterJitter: 2 }, "Retry: retryAfterJitter must be a finite number from 0 to 1, got 2"],
    [
      { backoff: { ...exact, cap: Duration.millis(1) } },
      "Retry: backoff: cap must be a duration from 1s to 365d, got 1ms"
    ]
  ]
  for (const [options, message] of refused) {
    it(message, () => {
      const checked = { ...options, classify: () => Retry.stop, budget: false, breaker: undefined } as const
      assert.throws(() => Retry.with(checked), RangeError, message)
      assert.throws(() => Retry.withStream(checked), RangeError, message)
    })
  }
})
