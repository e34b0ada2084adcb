import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer, Metric, Random, Ref } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, Retry, RetryBudget } from "@outlast/resilience"

/** A call of up to four attempts, each of which fails with this probability. */
const call = (budget: RetryBudget.Service, attempts: Ref.Ref<number>, chance: number) =>
  Effect.gen(function* () {
    yield* budget.deposit
    const attempt = Effect.gen(function* () {
      yield* Ref.update(attempts, (n) => n + 1)
      if ((yield* Random.next) < chance) return yield* Effect.fail("down" as const)
    })
    yield* attempt.pipe(
      Effect.retry({
        times: 3,
        while: () => budget.withdraw,
        schedule: Backoff.schedule(Backoff.exponential())
      })
    )
  })

/** A budget that grants everything. */
const unlimited: RetryBudget.Service = {
  deposit: Effect.void,
  withdraw: Effect.succeed(true),
  track: (attempt) => attempt,
  beginUnsafe: () => ({ progressUnsafe: () => {}, endUnsafe: () => {} }),
  availableUnsafe: () => true,
  withdrawUnsafe: () => true,
  takeUnsafe: () => {},
  refusedUnsafe: () => {},
  depositUnsafe: () => {},
  amplification: Effect.succeed(1),
  status: Effect.succeed({ paid: Infinity, reserve: 0 })
}

const attemptsOf = (budget: RetryBudget.Service, calls: number) =>
  Effect.gen(function* () {
    const attempts = yield* Ref.make(0)
    const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
    for (let n = 0; n < calls; n++) {
      fibers.push(yield* Effect.forkChild(Effect.exit(call(budget, attempts, 0.6))))
      yield* TestClock.adjust(600_000 / calls)
    }
    yield* TestClock.adjust("5 minutes")
    yield* Fiber.awaitAll(fibers)
    return yield* Ref.get(attempts)
  }).pipe(Random.withSeed("outage"))

it.effect(
  "29 with 60 % of calls failing for ten minutes, attempts stay within the calls plus a fifth and the reserve",
  () =>
    Effect.gen(function* () {
      const calls = 1_000
      const budget = yield* RetryBudget.make()
      const attempts = yield* attemptsOf(budget, calls)
      assert.isAtMost(attempts, calls * 1.2 + 110)
      // The budget is used up, so retries are not simply forbidden.
      assert.isAtLeast(attempts, calls * 1.2 + 90)
      assert.strictEqual(yield* budget.amplification, attempts / calls)
      assert.isAbove(yield* attemptsOf(unlimited, calls), calls * 1.2 + 110)
    })
)

it.effect(
  "29 a hundred calls at once share one budget, and the refused fail at once with what they had",
  () =>
    Effect.gen(function* () {
      const budget = yield* RetryBudget.make()
      const attempts = yield* Ref.make(0)
      const fiber = yield* Effect.forkChild(
        Effect.all(
          Array.from({ length: 100 }, () => Effect.flip(call(budget, attempts, 1))),
          { concurrency: "unbounded" }
        )
      )
      yield* TestClock.adjust("5 seconds")
      const errors = yield* Fiber.join(fiber)
      assert.strictEqual(errors.length, 100)
      assert.isTrue(errors.every((error) => error === "down"))
      assert.strictEqual(yield* Ref.get(attempts), 130)
    })
)

it.effect("an empty budget refuses without waiting", () =>
  Effect.gen(function* () {
    const budget = yield* RetryBudget.make({ burst: 1 })
    assert.isTrue(yield* budget.withdraw)
    assert.isFalse(yield* budget.withdraw)
    yield* TestClock.adjust("5999 millis")
    assert.isFalse(yield* budget.withdraw)
    yield* TestClock.adjust("1 millis")
    assert.isTrue(yield* budget.withdraw)
  })
)

it.effect("18 a change of the wall clock refills nothing", () =>
  Effect.gen(function* () {
    const budget = yield* RetryBudget.make({ burst: 1 })
    assert.isTrue(yield* budget.withdraw)
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
    assert.isFalse(yield* Effect.provideService(budget.withdraw, Clock.Clock, stepped))
  })
)

it.effect("a layer is shared by everything built with it", () =>
  Effect.gen(function* () {
    const first = yield* RetryBudget.RetryBudget
    assert.isTrue(yield* first.withdraw)
    const second = yield* RetryBudget.RetryBudget
    assert.isFalse(yield* second.withdraw)
  }).pipe(Effect.provide(RetryBudget.layer({ burst: 1 })))
)

it.effect("calls, attempts and refusals are counted in metrics", () =>
  Effect.gen(function* () {
    const budget = yield* RetryBudget.make({ burst: 2 })
    yield* Effect.replicateEffect(budget.deposit, 3)
    yield* Effect.replicateEffect(budget.withdraw, 5)
    const { calls, attempts, refusals } = RetryBudget.metrics
    assert.strictEqual((yield* Metric.value(calls)).count, 3)
    assert.strictEqual((yield* Metric.value(attempts)).count, 5)
    assert.strictEqual((yield* Metric.value(refusals)).count, 3)
    assert.strictEqual(yield* budget.amplification, 5 / 3)
    assert.deepStrictEqual((yield* Metric.snapshot).map(({ id }) => id).sort(), [
      "outlast_retry_budget_attempts_total",
      "outlast_retry_budget_calls_total",
      "outlast_retry_budget_refusals_total"
    ])
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
)

it.effect("the functions without an Effect use the same budget", () =>
  Effect.gen(function* () {
    const budget = yield* RetryBudget.make({ burst: 1 })
    const granted = yield* Effect.withFiber((fiber) => {
      budget.depositUnsafe(fiber)
      // `availableUnsafe` takes nothing.
      const looked = [budget.availableUnsafe(fiber), budget.availableUnsafe(fiber)]
      const taken = [
        budget.withdrawUnsafe(fiber),
        budget.availableUnsafe(fiber),
        budget.withdrawUnsafe(fiber)
      ]
      return Effect.succeed([...looked, ...taken])
    })
    assert.deepStrictEqual(granted, [true, true, true, false, false])
    assert.isFalse(yield* budget.withdraw)
    assert.strictEqual(yield* budget.amplification, 2)
  })
)

it("numbers out of range are rejected by `make`, not when it runs", () => {
  assert.throws(() => RetryBudget.make({ ratio: 11 }), RangeError, "RetryBudget: ratio must be")
  assert.throws(() => RetryBudget.layer({ window: -1 }), RangeError, "RetryBudget: window must be")
  assert.isTrue(Layer.isLayer(RetryBudget.layer()))
})

it("the service key is its path", () => {
  assert.strictEqual(RetryBudget.RetryBudget.key, "@outlast/resilience/retry/RetryBudget")
})

describe("paid by successes", () => {
  const paidBySuccesses = { paidBy: "successes", burst: 0 } as const

  it.effect("a success pays for one retry in the next 20 seconds; failures and calls pay for none", () =>
    Effect.gen(function* () {
      const budget = yield* RetryBudget.make(paidBySuccesses)
      yield* budget.deposit
      yield* Effect.ignore(budget.track(Effect.fail("no")))
      assert.isFalse(yield* budget.withdraw)
      yield* budget.track(Effect.void)
      assert.isTrue(yield* budget.withdraw)
      assert.isFalse(yield* budget.withdraw)
      yield* budget.track(Effect.void)
      yield* TestClock.adjust("21 seconds")
      assert.isFalse(yield* budget.withdraw)
    })
  )

  it.effect("an attempt in flight counts as a success for ten seconds, until it is interrupted", () =>
    Effect.gen(function* () {
      const budget = yield* RetryBudget.make(paidBySuccesses)
      const fiber = yield* Effect.forkChild(budget.track(Effect.never), { startImmediately: true })
      assert.isTrue(budget.availableUnsafe(fiber))
      yield* TestClock.adjust("10 seconds")
      assert.isFalse(budget.availableUnsafe(fiber))
      const other = yield* Effect.forkChild(budget.track(Effect.never), { startImmediately: true })
      assert.isTrue(budget.availableUnsafe(other))
      yield* Fiber.interrupt(other)
      assert.isFalse(budget.availableUnsafe(fiber))
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("an attempt in flight does not pay for a retry that only what has ended pays for", () =>
    Effect.gen(function* () {
      const budget = yield* RetryBudget.make(paidBySuccesses)
      const fiber = yield* Effect.forkChild(budget.track(Effect.never), { startImmediately: true })
      assert.isTrue(budget.availableUnsafe(fiber))
      assert.isFalse(budget.availableUnsafe(fiber, "settled"))
      yield* budget.track(Effect.void)
      assert.isTrue(budget.availableUnsafe(fiber, "settled"))
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect(
    "a retry that is made in any case takes a token where there is one, and is counted without one",
    () =>
      Effect.gen(function* () {
        const budget = yield* RetryBudget.make({ ...paidBySuccesses, ratio: 1, burst: 0 })
        const counted = yield* Effect.withFiber((fiber) =>
          Effect.gen(function* () {
            budget.depositUnsafe(fiber)
            budget.takeUnsafe(fiber)
            yield* budget.track(Effect.void)
            const before = budget.availableUnsafe(fiber)
            budget.takeUnsafe(fiber)
            return [before, budget.availableUnsafe(fiber), yield* budget.amplification]
          })
        )
        assert.deepStrictEqual(counted, [true, false, 3])
        const count = (name: string) =>
          Effect.map(Metric.snapshot, (all) => all.find(({ id }) => id === name)?.state)
        assert.deepInclude(yield* count("outlast_retry_budget_attempts_total"), { count: 3 })
        assert.isUndefined(yield* count("outlast_retry_budget_refusals_total"))
      }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  )

  it.effect("progress makes an attempt count again", () =>
    Effect.gen(function* () {
      const budget = yield* RetryBudget.make(paidBySuccesses)
      yield* Effect.withFiber((fiber) =>
        Effect.gen(function* () {
          const flight = budget.beginUnsafe(fiber)
          yield* TestClock.adjust("9 seconds")
          flight.progressUnsafe(9_000)
          yield* TestClock.adjust("9 seconds")
          assert.isTrue(budget.availableUnsafe(fiber))
          flight.endUnsafe(fiber, false)
          assert.isFalse(budget.availableUnsafe(fiber))
          // The attempt has ended, so later reports do not count.
          flight.endUnsafe(fiber, true)
          flight.progressUnsafe(18_000)
          assert.isFalse(budget.availableUnsafe(fiber))
        })
      )
    })
  )

  it.effect("Retry spends the payments of its successful calls", () =>
    Effect.gen(function* () {
      const attempts = yield* Ref.make(0)
      const guarded = (fails: boolean) =>
        Ref.update(attempts, (n) => n + 1).pipe(
          Effect.andThen(fails ? Effect.fail("no") : Effect.void),
          Retry.with({ budget: true, classify: () => Retry.again(), backoff: Backoff.constant(0) }),
          Effect.exit
        )
      const program = Effect.gen(function* () {
        yield* guarded(true)
        assert.strictEqual(yield* Ref.get(attempts), 1)
        yield* guarded(false)
        yield* guarded(true)
        // One successful call, one failed call, and the one retry that is paid.
        assert.strictEqual(yield* Ref.get(attempts), 4)
      })
      yield* Effect.provide(program, RetryBudget.layer(paidBySuccesses))
    })
  )
})
