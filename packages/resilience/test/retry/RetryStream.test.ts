import { assert, describe, it } from "@effect/vitest"
import { Cause, Clock, Effect, Exit, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, Deadline, Retry, RetryBudget } from "@outlast/resilience"
import { CircuitRefused } from "#resilience/breaker/CircuitRefused"
import { Busy, classify, common, failureOf, Malformed, quick, recorded, settle } from "../support/attempts.ts"

/** Attempts are streams. `at` holds their start times. */
const scriptedStream = <A, E, R>(
  ...script: readonly [Stream.Stream<A, E, R>, ...Array<Stream.Stream<A, E, R>>]
) => {
  const at: Array<number> = []
  const attempt = Stream.unwrap(
    Effect.map(Clock.currentTimeMillis, (now) => {
      at.push(now)
      return script[Math.min(at.length, script.length) - 1] ?? script[0]
    })
  )
  return { at, attempt }
}

const busy = Stream.fail(new Busy({}))
const cut = Stream.concat(Stream.make(1, 2), busy)

/** The elements that a consumer got, and how the stream ended. */
const consumed = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Effect.suspend(() => {
    const seen: Array<A> = []
    const all = Stream.runForEach(stream, (element) => Effect.sync(() => void seen.push(element)))
    return Effect.map(settle(all), ({ exit, after }) => ({ seen, exit, after }))
  })

describe("before its first element", () => {
  it.effect("25 a stream that fails is repeated, unseen by its consumer", () =>
    Effect.gen(function* () {
      const { at, attempt } = scriptedStream(busy, busy, Stream.make(1, 2, 3))
      const { seen, exit } = yield* consumed(attempt.pipe(Retry.withStream(common)))
      assert.deepStrictEqual(seen, [1, 2, 3])
      assert.isTrue(Exit.isSuccess(exit))
      assert.deepStrictEqual(at, [0, 1_000, 3_000])
    })
  )

  it.effect(
    "25 the limit includes the first attempt, and the last failure is returned with the number of attempts",
    () =>
      Effect.gen(function* () {
        let n = 0
        const attempt = Stream.suspend(() => Stream.fail(new Busy({ n: ++n })))
        const error = yield* failureOf(
          Stream.runDrain(attempt.pipe(Retry.withStream({ ...common, attempts: 4 })))
        )
        assert.strictEqual(n, 4)
        assert.deepStrictEqual([error.attempts, error.stopped, error.after], [4, "attempts", 7_000])
        assert.propertyVal(error.failure, "n", 4)
      })
  )

  it.effect("25 defects, interruptions and failures that are not retryable run once", () =>
    Effect.gen(function* () {
      const died = scriptedStream(Stream.die("bug"))
      assert.deepStrictEqual(
        (yield* consumed(died.attempt.pipe(Retry.withStream({ classify: () => Retry.again() })))).exit,
        Exit.die("bug")
      )
      const interrupted = scriptedStream(Stream.fromEffect(Effect.interrupt))
      const { exit } = yield* consumed(
        interrupted.attempt.pipe(Retry.withStream({ classify: () => Retry.again() }))
      )
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      const malformed = scriptedStream(Stream.fail(new Malformed()))
      const error = yield* failureOf(Stream.runDrain(malformed.attempt.pipe(Retry.withStream(common))))
      assert.deepStrictEqual([error.attempts, error.stopped], [1, "not-retryable"])
      assert.deepStrictEqual([died.at.length, interrupted.at.length, malformed.at.length], [1, 1, 1])
    })
  )

  it.effect("a stream without elements is a success", () =>
    Effect.gen(function* () {
      const { at, attempt } = scriptedStream<never, Busy, never>(busy, Stream.empty)
      const { value, events } = yield* recorded(consumed(attempt.pipe(Retry.withStream(common))))
      assert.isTrue(Exit.isSuccess(value.exit))
      assert.strictEqual(at.length, 2)
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        ["Retrying", "RetrySucceeded"]
      )
    })
  )

  it.effect("resources of an attempt are released before the wait for the next", () =>
    Effect.gen(function* () {
      const log: Array<readonly [string, number]> = []
      const say = (what: string) => Effect.map(Clock.currentTimeMillis, (now) => void log.push([what, now]))
      let n = 0
      const attempt = Stream.scoped(
        Stream.unwrap(
          Effect.as(
            Effect.acquireRelease(say("open"), () => say("close")),
            Stream.suspend((): Stream.Stream<number, Busy> => (++n === 1 ? busy : Stream.make(1)))
          )
        )
      )
      yield* consumed(attempt.pipe(Retry.withStream(common)))
      assert.deepStrictEqual(log, [
        ["open", 0],
        ["close", 0],
        ["open", 1_000],
        ["close", 1_000]
      ])
    })
  )

  it.effect("26 an interruption during a wait ends at once and starts no attempt", () =>
    Effect.gen(function* () {
      const { at, attempt } = scriptedStream(busy)
      const fiber = yield* Effect.forkChild(Stream.runDrain(attempt.pipe(Retry.withStream(common))), {
        startImmediately: true
      })
      yield* TestClock.adjust(999)
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(at, [0])
    })
  )

  it.effect("26 its own and an outer deadline apply, and are visible inside", () =>
    Effect.gen(function* () {
      const left: Array<unknown> = []
      const attempt = Stream.unwrap(
        Effect.map(Deadline.remaining, (remaining) => {
          left.push(remaining._tag)
          return busy
        })
      )
      yield* TestClock.adjust("1 minute")
      const own = yield* failureOf(
        Stream.runDrain(attempt.pipe(Retry.withStream({ ...common, attempts: 4, deadline: "2 seconds" })))
      )
      assert.deepStrictEqual([own.attempts, own.stopped, own.after], [2, "deadline", 1_000])
      const around = yield* failureOf(
        Stream.runDrain(
          attempt.pipe(Retry.withStream({ ...common, attempts: 4, deadline: "1 minute" }))
        ).pipe(Deadline.within("2 seconds"))
      )
      assert.deepStrictEqual([around.attempts, around.stopped, around.after], [2, "deadline", 1_000])
      assert.deepStrictEqual(left, ["Some", "Some", "Some", "Some"])
    })
  )

  it.effect("29 an empty budget ends the stream at once; each run pays once", () =>
    Effect.gen(function* () {
      const { at, attempt } = scriptedStream(busy)
      const stream = attempt.pipe(Retry.withStream({ ...common, budget: true }))
      const error = yield* failureOf(Stream.runDrain(stream))
      assert.deepStrictEqual([error.attempts, error.stopped, error.after], [2, "budget", 1_000])
      assert.strictEqual(at.length, 2)
      yield* failureOf(Stream.runDrain(stream))
      assert.strictEqual(yield* (yield* RetryBudget.RetryBudget).amplification, 3 / 2)
    }).pipe(Effect.provide(RetryBudget.layer({ burst: 1, refillEvery: "1 day" })))
  )

  it.effect("29 a stream refused by its circuit does not pay", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      yield* breaker.trip("a")
      const budget = yield* RetryBudget.RetryBudget
      const stream = Stream.make(1).pipe(
        Retry.withStream({ ...common, budget: true, breaker: { circuit: "a" } })
      )
      for (let n = 0; n < 10; n++) yield* Effect.exit(Stream.runDrain(stream))
      assert.isFalse(yield* budget.withdraw)
      yield* breaker.reset("a")
      yield* Stream.runDrain(stream)
      assert.isTrue(yield* budget.withdraw)
    }).pipe(Effect.provide(quick), Effect.provide(RetryBudget.layer({ burst: 0, ratio: 1 })))
  )

  it.effect("25 a classifier that throws keeps the failure in the cause", () =>
    Effect.gen(function* () {
      const classify = (): Retry.Verdict => {
        throw new Error("bug")
      }
      const { exit } = yield* consumed(busy.pipe(Retry.withStream({ classify })))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause) && Cause.hasFails(exit.cause))
    })
  )

  it.effect("the stream can be the first argument", () =>
    Effect.gen(function* () {
      const { at, attempt } = scriptedStream<number, Busy, never>(busy, Stream.make(1))
      const { seen } = yield* consumed(Retry.withStream(attempt, common))
      assert.deepStrictEqual([seen, at], [[1], [0, 1_000]])
      yield* Stream.runDrain(Retry.withStream(Stream.make(1), {}))
    })
  )

  it.effect("two thousand attempts end without a stack overflow", () =>
    Effect.gen(function* () {
      const { attempt } = scriptedStream(busy)
      const now = { classify, backoff: Backoff.constant(0), attempts: 2_000 }
      const error = yield* failureOf(Stream.runDrain(attempt.pipe(Retry.withStream(now))))
      assert.strictEqual(error.attempts, 2_000)
    })
  )
})

describe("after its first element", () => {
  it.effect('a cut stream is not repeated, and fails with "started"', () =>
    Effect.gen(function* () {
      const { at, attempt } = scriptedStream(cut)
      const { value, events } = yield* recorded(consumed(attempt.pipe(Retry.withStream(common))))
      assert.deepStrictEqual(value.seen, [1, 2])
      assert.strictEqual(at.length, 1)
      assert.isTrue(Exit.isFailure(value.exit))
      if (!Exit.isFailure(value.exit)) return
      const [failed] = value.exit.cause.reasons.filter(Cause.isFailReason)
      assert.instanceOf(failed?.error, Retry.RetryFailed)
      assert.deepStrictEqual([failed?.error.attempts, failed?.error.stopped, value.after], [1, "started", 0])
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        ["RetriesExhausted"]
      )
    })
  )

  it.effect("the same applies in a later attempt, in the last one, and when the server requests a wait", () =>
    Effect.gen(function* () {
      const told = Stream.concat(Stream.make(1), Stream.fail(new Busy({ wait: "1 day" })))
      for (const end of [cut, told]) {
        const { attempt } = scriptedStream<number, Busy, never>(busy, end)
        const { value, events } = yield* recorded(
          failureOf(Stream.runDrain(attempt.pipe(Retry.withStream({ ...common, attempts: 2 }))))
        )
        assert.deepStrictEqual([value.attempts, value.stopped], [2, "started"])
        // The attempt did not succeed, although it had started.
        assert.deepStrictEqual(
          events.map(({ _tag }) => _tag),
          ["Retrying", "RetriesExhausted"]
        )
      }
    })
  )

  it.effect('a failure that is not retryable fails with "not-retryable"', () =>
    Effect.gen(function* () {
      const stream = Stream.concat(Stream.make(1), Stream.fail(new Malformed()))
      const error = yield* failureOf(Stream.runDrain(stream.pipe(Retry.withStream(common))))
      assert.strictEqual(error.stopped, "not-retryable")
    })
  )

  it.effect("no budget is taken", () =>
    Effect.gen(function* () {
      const error = yield* failureOf(Stream.runDrain(cut.pipe(Retry.withStream({ ...common, budget: true }))))
      assert.strictEqual(error.stopped, "started")
      assert.strictEqual(yield* (yield* RetryBudget.RetryBudget).amplification, 1)
    }).pipe(Effect.provide(RetryBudget.layer()))
  )

  it.effect("a failure of the consumer is passed on and not retried", () =>
    Effect.gen(function* () {
      const { at, attempt } = scriptedStream(Stream.make(1, 2))
      const stream = attempt.pipe(
        Retry.withStream({ classify: () => Retry.again() }),
        Stream.mapEffect(() => Effect.fail("mine"))
      )
      assert.strictEqual(yield* Effect.flip(Stream.runDrain(stream)), "mine")
      assert.strictEqual(at.length, 1)
    })
  )

  it.effect("the success is published when the stream ends", () =>
    Effect.gen(function* () {
      const { attempt } = scriptedStream<number, Busy, never>(
        busy,
        Stream.concat(Stream.make(1), Stream.fromEffect(Effect.as(Effect.sleep("5 seconds"), 2)))
      )
      const { events } = yield* recorded(
        consumed(attempt.pipe(Retry.withStream({ ...common, name: "lines" })))
      )
      assert.deepStrictEqual<ReadonlyArray<object>>(events, [
        { _tag: "Retrying", at: 0, name: "lines", attempt: 1, delay: 1_000, because: "failed" },
        { _tag: "RetrySucceeded", at: 6_000, name: "lines", attempts: 2 }
      ])
    })
  )
})

describe("the circuit", () => {
  const guarded = { ...common, breaker: { circuit: "a" } } as const
  const state = Effect.flatMap(CircuitBreaker.CircuitBreaker, (breaker) => breaker.state("a"))

  it.effect("24 gets one outcome for each attempt", () =>
    Effect.gen(function* () {
      const { at, attempt } = scriptedStream(busy)
      const error = yield* failureOf(Stream.runDrain(attempt.pipe(Retry.withStream(guarded))), "5 seconds")
      assert.strictEqual(at.length, 2)
      assert.deepStrictEqual([error.attempts, error.stopped], [2, "refused"])
      assert.instanceOf(error.failure, Busy)
      assert.instanceOf(error.refused, CircuitRefused)
      assert.strictEqual((yield* state).phase, "open")
    }).pipe(Effect.provide(quick))
  )

  it.effect("24 counts a cut after the first element as one failure, and an end as a success", () =>
    Effect.gen(function* () {
      yield* failureOf(Stream.runDrain(cut.pipe(Retry.withStream(guarded))))
      assert.strictEqual((yield* state).failures, 1)
      const { attempt } = scriptedStream<number, Busy, never>(Stream.make(1, 2))
      yield* consumed(attempt.pipe(Retry.withStream(guarded)))
      assert.strictEqual((yield* state).failures, 0)
    }).pipe(Effect.provide(quick))
  )

  it.effect("24 gets no outcome from a consumer that stops, and frees its permit", () =>
    Effect.gen(function* () {
      yield* failureOf(Stream.runDrain(cut.pipe(Retry.withStream(guarded))))
      const { at, attempt } = scriptedStream(Stream.concat(Stream.make(1), Stream.never))
      const { seen } = yield* consumed(attempt.pipe(Retry.withStream(guarded), Stream.take(1)))
      assert.deepStrictEqual([seen, at.length], [[1], 1])
      assert.deepStrictEqual([(yield* state).phase, (yield* state).failures], ["closed", 1])
      // The same applies to a probe: another one is let through at once.
      const breaker = yield* CircuitBreaker.CircuitBreaker
      yield* breaker.trip("a")
      yield* TestClock.adjust("10 seconds")
      yield* consumed(attempt.pipe(Retry.withStream(guarded), Stream.take(1)))
      assert.strictEqual((yield* state).phase, "half-open")
      assert.isTrue(yield* breaker.available("a"))
    }).pipe(Effect.provide(quick))
  )

  it.effect("open: a waiting stream starts at the instant at which the circuit lets it through", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      yield* breaker.trip("a")
      const { at, attempt } = scriptedStream(Stream.make(1))
      const patient = { ...common, attempts: 1, breaker: { circuit: "a", whenRefused: "wait" } } as const
      const { seen } = yield* consumed(attempt.pipe(Retry.withStream(patient)))
      assert.deepStrictEqual([seen, at], [[1], [10_000]])
      assert.strictEqual((yield* state).phase, "closed")
    }).pipe(Effect.provide(quick))
  )

  it.effect("counts the attempts of one stream as one call, and each run as another", () =>
    Effect.gen(function* () {
      const stream = busy.pipe(Retry.withStream({ ...guarded, attempts: 2 }))
      const other = yield* Effect.forkChild(
        Effect.never.pipe(CircuitBreaker.execute("a", { call: "other" })),
        {
          startImmediately: true
        }
      )
      assert.strictEqual(
        (yield* failureOf(Stream.runDrain(busy.pipe(Retry.withStream({ ...guarded, attempts: 5 })))))
          .attempts,
        5
      )
      assert.strictEqual((yield* state).phase, "closed")
      yield* (yield* CircuitBreaker.CircuitBreaker).reset("a")
      yield* failureOf(Stream.runDrain(stream))
      yield* failureOf(Stream.runDrain(stream))
      const third = yield* failureOf(Stream.runDrain(stream))
      assert.deepStrictEqual([third.stopped, third.attempts], ["refused", 1])
      yield* Fiber.interrupt(other)
    }).pipe(Effect.provide(CircuitBreaker.layer()))
  )

  it.effect("refusals by another circuit inside are classified", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      yield* breaker.trip("inner")
      const error = yield* failureOf(
        Stream.runDrain(
          Stream.make(1).pipe(
            CircuitBreaker.executeStream("inner"),
            Retry.withStream({ classify: () => Retry.stop, breaker: { circuit: "a", whenRefused: "wait" } })
          )
        )
      )
      assert.deepStrictEqual(
        [error.stopped, error.attempts, error.failure.circuit],
        ["not-retryable", 1, "inner"]
      )
    }).pipe(Effect.provide(quick))
  )
})

it.effect("a stream that succeeds at once publishes no event", () =>
  Effect.gen(function* () {
    const { value, events } = yield* recorded(consumed(Stream.make(1).pipe(Retry.withStream())))
    assert.deepStrictEqual(value.seen, [1])
    assert.deepStrictEqual(events, [])
  })
)

it.effect("runs of a stream are independent", () =>
  Effect.gen(function* () {
    const { at, attempt } = scriptedStream(busy)
    const stream = attempt.pipe(Retry.withStream(common))
    yield* failureOf(Stream.runDrain(stream))
    const { attempts } = yield* failureOf(Stream.runDrain(stream))
    assert.deepStrictEqual([attempts, at.length], [3, 6])
  })
)
