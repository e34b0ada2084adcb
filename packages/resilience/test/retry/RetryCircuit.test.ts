/** The circuit around each attempt, and the retry budget. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Duration, Effect, Exit, Fiber, Metric, Scope } from "effect"
import { TestClock } from "effect/testing"
import { CircuitBreaker, Deadline, Retry, RetryBudget } from "@outlast/resilience"
import { CircuitRefused } from "#resilience/breaker/CircuitRefused"
import * as Refusal from "#resilience/Refusal"
import {
  Busy,
  busy,
  common,
  failureOf,
  Malformed,
  quick,
  recorded,
  scripted,
  settle
} from "../support/attempts.ts"

describe("the retry budget", () => {
  it.effect("29 when empty, the call fails at once with its last failure", () =>
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

  it.effect("a call pays once, whatever its outcome, and a retry takes one token", () =>
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
      // No token is taken when another rule already stops the call.
      yield* call(Effect.fail(new Malformed()))
      yield* call(busy, { deadline: "1 milli" })
      assert.strictEqual(yield* budget.amplification, 6 / 4)
    }).pipe(Effect.provide(RetryBudget.layer()))
  )

  it.effect("is not used by default", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      yield* failureOf(attempt.pipe(Retry.with({ ...common, budget: false })))
      assert.strictEqual(at.length, 3)
      assert.strictEqual(yield* (yield* RetryBudget.RetryBudget).amplification, 1)
    }).pipe(Effect.provide(RetryBudget.layer({ burst: 0 })))
  )
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

  it.effect("sees each attempt, and can stop a call between attempts", () =>
    Effect.gen(function* () {
      const { at, attempt } = scripted(busy)
      const error = yield* failureOf(
        attempt.pipe(Retry.with({ ...common, attempts: 9, breaker: guard })),
        "3 seconds"
      )
      assert.deepStrictEqual(at, [0, 1_000])
      assert.strictEqual(error.attempts, 2)
      assert.strictEqual(error.stopped, "refused")
      assert.strictEqual(error.after, 3_000)
      assert.strictEqual(yield* phaseOf("a"), "open")
    }).pipe(Effect.provide(quick))
  )

  it.effect("a refusal after a failed attempt does not replace the failure", () =>
    Effect.gen(function* () {
      const attempt = Effect.fail(new Busy({ n: 503 }))
      const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, breaker: guard })))
      assert.deepStrictEqual([error.attempts, error.stopped], [1, "refused"])
      assert.propertyVal(error.failure, "n", 503)
      assert.strictEqual(error.cause, error.failure)
      assert.instanceOf(error.refused, CircuitRefused)
      assert.isFalse(Refusal.isRefusal(error))
      assert.strictEqual(error.message, "Gave up after 1 attempt: circuit `a` refused the call.")
      // The same when a call would wait longer for the circuit than its deadline allows.
      yield* (yield* CircuitBreaker.CircuitBreaker).reset("a")
      const waiting = yield* failureOf(
        attempt.pipe(Retry.with({ ...common, deadline: "5 seconds", breaker: patient }))
      )
      assert.deepStrictEqual([waiting.attempts, waiting.stopped], [1, "deadline"])
      assert.propertyVal(waiting.failure, "n", 503)
      assert.propertyVal(waiting.refused, "circuit", "a")
      assert.strictEqual(
        waiting.message,
        "Gave up after 1 attempt: circuit `a` refused the call until the deadline."
      )
    }).pipe(Effect.provide(CircuitBreaker.layer({ trip: { consecutive: { failures: 1 } } })))
  )

  it.effect("a refusal is not in the error when a later attempt failed", () =>
    Effect.gen(function* () {
      yield* trip("a")
      const error = yield* failureOf(busy.pipe(Retry.with({ ...common, attempts: 1, breaker: patient })))
      assert.deepStrictEqual([error.attempts, error.stopped], [1, "attempts"])
      assert.isUndefined(error.refused)
    }).pipe(Effect.provide(quick))
  )

  it.effect("a success in a later attempt clears the consecutive failures", () =>
    Effect.gen(function* () {
      for (let n = 0; n < 3; n++) {
        const { attempt } = scripted(busy, Effect.void)
        const { exit } = yield* settle(attempt.pipe(Retry.with({ ...common, breaker: guard })))
        assert.isTrue(Exit.isSuccess(exit))
      }
      assert.strictEqual(yield* phaseOf("a"), "closed")
    }).pipe(Effect.provide(quick))
  )

  it.effect("counts retryable failures with their wait and defects, but not other failures", () =>
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

  it.effect("counts according to the breaker's own classifier, if there is one", () =>
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

  it.effect("counts the attempts of one call as one call", () =>
    Effect.gen(function* () {
      const call = (attempts: number) => busy.pipe(Retry.with({ ...common, attempts, breaker: guard }))
      // Another call is in flight, so one call's own failures are not enough.
      const other = yield* Effect.forkChild(
        Effect.never.pipe(CircuitBreaker.execute("a", { call: "other" })),
        { startImmediately: true }
      )
      assert.strictEqual((yield* failureOf(call(5))).attempts, 5)
      assert.strictEqual(yield* phaseOf("a"), "closed")
      yield* (yield* CircuitBreaker.CircuitBreaker).reset("a")
      // Each run is a separate call.
      const twice = call(2)
      assert.strictEqual((yield* failureOf(twice)).attempts, 2)
      assert.strictEqual((yield* failureOf(twice)).attempts, 2)
      assert.strictEqual(yield* phaseOf("a"), "closed")
      // The fifth consecutive failure, and the first of a third call.
      const { stopped, attempts } = yield* failureOf(twice)
      assert.deepStrictEqual([stopped, attempts], ["refused", 1])
      yield* Fiber.interrupt(other)
    }).pipe(Effect.provide(CircuitBreaker.layer()))
  )

  it.effect("open: refuses at once, and no attempt is made", () =>
    Effect.gen(function* () {
      yield* trip("a")
      const { at, attempt } = scripted(Effect.void)
      const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, breaker: guard })))
      assert.strictEqual(at.length, 0)
      assert.strictEqual(error.attempts, 0)
      assert.strictEqual(error.stopped, "refused")
      assert.strictEqual(error.after, 0)
      assert.strictEqual(error.failure._tag, "CircuitRefused")
      assert.strictEqual(error.refused, error.failure)
    }).pipe(Effect.provide(quick))
  )

  it.effect("open: a waiting call runs at the instant at which the circuit lets it through", () =>
    Effect.gen(function* () {
      yield* trip("a")
      yield* TestClock.adjust("4 seconds")
      const { at, attempt } = scripted(busy, Effect.succeed("fine"))
      const { value, events } = yield* recorded(
        settle(attempt.pipe(Retry.with({ ...common, attempts: 2, breaker: patient })))
      )
      assert.deepStrictEqual(value.exit, Exit.succeed("fine"))
      // The first one is a probe whose failure opens the circuit again for ten seconds. The refusal in between does not
      // count, so both allowed attempts are made.
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

  it.effect("half-open: a waiting call asks again after the backoff", () =>
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

  it.effect("isolated: a waiting call asks again until the circuit is released", () =>
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
      // Without waiting, the call fails at once.
      const again = yield* Scope.make()
      yield* Scope.provide(breaker.isolate("a"), again)
      const error = yield* failureOf(attempt.pipe(Retry.with({ ...common, breaker: guard })))
      assert.deepStrictEqual([error.stopped, error.after], ["refused", 0])
    }).pipe(Effect.provide(quick))
  )

  it.effect("26 no call waits beyond its own or an outer deadline", () =>
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
          // 1, 3, 7, 15, 31. The next would be at 61.
          assert.deepStrictEqual([held.stopped, held.after], ["deadline", 31_000])
          assert.strictEqual(held.failure._tag, "CircuitRefused")
        })
      )
      assert.strictEqual(at.length, 0)
    }).pipe(Effect.provide(quick))
  )

  it.effect("26 an interruption while a call waits for the circuit ends at once and starts no attempt", () =>
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

  it.effect("refusals are not attempts and take nothing from the budget", () =>
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

  it.effect(
    "29 calls that are only refused pay nothing into the budget, and are no calls in its metrics",
    () =>
      Effect.gen(function* () {
        yield* trip("a")
        const budget = yield* RetryBudget.RetryBudget
        const call = Effect.void.pipe(Retry.with({ ...common, budget: true, breaker: guard }))
        for (let n = 0; n < 1_000; n++) yield* Effect.exit(call)
        assert.isFalse(yield* budget.withdraw)
        assert.strictEqual((yield* Metric.value(RetryBudget.metrics.calls)).count, 0)
        // A waiting call pays once, when its first attempt runs, however often it was refused.
        const waiting = busy.pipe(
          Retry.with({
            ...common,
            attempts: 2,
            budget: true,
            breaker: { ...patient, classify: () => ({ counts: "failure" }) }
          })
        )
        yield* failureOf(waiting)
        assert.strictEqual((yield* Metric.value(RetryBudget.metrics.calls)).count, 1)
      }).pipe(
        Effect.provide(quick),
        Effect.provide(RetryBudget.layer({ burst: 0, ratio: 1 })),
        Effect.provideService(Metric.MetricRegistry, new Map())
      )
  )

  it.effect("a classifier that throws keeps the failure in the cause, with its defect next to it", () =>
    Effect.gen(function* () {
      const classify = (): Retry.Verdict => {
        throw new Error("bug")
      }
      const { exit } = yield* settle(busy.pipe(Retry.with({ classify, breaker: guard })))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause) && Cause.hasFails(exit.cause))
      assert.strictEqual((yield* (yield* CircuitBreaker.CircuitBreaker).state("a")).phase, "closed")
    }).pipe(Effect.provide(CircuitBreaker.layer({ trip: { consecutive: { failures: 1 } } })))
  )

  it.effect("a refusal by another circuit inside is classified like other failures", () =>
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
      // The error's own `retryAfter` applies. The outer circuit is not asked about it.
      yield* trip("inner")
      const { exit } = yield* settle(inner.pipe(Retry.with({ retryAfterJitter: 0, breaker: guard })))
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(at.length, 1)
      assert.strictEqual(yield* phaseOf("a"), "closed")
    }).pipe(Effect.provide(quick))
  )

  it.effect("with several circuits, the call waits for the one that refuses", () =>
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

  it.effect("counts according to the call's own classifier", () =>
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

  it.effect("25 an interruption of an attempt does not count for the circuit and is not retried", () =>
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
