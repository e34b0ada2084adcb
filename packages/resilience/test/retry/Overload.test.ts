/** The load that many calls together put on a failing provider: a thousand calls in ten virtual minutes. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer, Random } from "effect"
import { TestClock } from "effect/testing"
import { CircuitBreaker, Retry, RetryBudget } from "@outlast/resilience"
import { recorded } from "../support/attempts.ts"

const calls = 1_000
const tenMinutes = 600_000

interface Attempt {
  readonly at: number
  /** Phase of the circuit when the attempt was let through. */
  readonly phase: string
}

const services = Layer.mergeAll(CircuitBreaker.layer(), RetryBudget.layer())
const classify = (): Retry.Verdict => Retry.again()
const circuit = "provider"

/**
 * Returns the attempts that reach a provider with this failure probability, for calls that start evenly over the time.
 */
const attemptsOf = <R>(
  retry: (self: Effect.Effect<void, "down">) => Effect.Effect<void, unknown, R>,
  chance: number
) =>
  Effect.gen(function* () {
    const breaker = yield* CircuitBreaker.CircuitBreaker
    const attempts: Array<Attempt> = []
    const attempt = Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      attempts.push({ at, phase: (yield* breaker.state(circuit)).phase })
      if ((yield* Random.next) < chance) return yield* Effect.fail("down" as const)
    })
    const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
    for (let n = 0; n < calls; n++) {
      fibers.push(yield* Effect.forkChild(Effect.exit(retry(attempt)), { startImmediately: true }))
      yield* TestClock.adjust(tenMinutes / calls)
    }
    yield* TestClock.adjust("1 hour")
    yield* Fiber.awaitAll(fibers)
    return attempts
  }).pipe(Random.withSeed("overload"))

describe("60 % of calls fail for ten minutes", () => {
  const allowed = calls * 1.2 + 110

  it.effect("29 with a retry budget, attempts stay within the calls plus a fifth and the reserve", () =>
    Effect.gen(function* () {
      const attempts = yield* attemptsOf(Retry.with({ classify, attempts: 4, budget: true }), 0.6)
      assert.isAtMost(attempts.length, allowed)
      // The budget is used up, so retries are not simply forbidden.
      assert.isAtLeast(attempts.length, calls * 1.2 + 90)
      assert.strictEqual(yield* (yield* RetryBudget.RetryBudget).amplification, attempts.length / calls)
    }).pipe(Effect.provide(services))
  )

  it.effect("29 without a retry budget, attempts exceed that limit", () =>
    Effect.gen(function* () {
      const attempts = yield* attemptsOf(Retry.with({ classify, attempts: 4 }), 0.6)
      // 1 + 0.6 + 0.36 + 0.216 for each call.
      assert.isAbove(attempts.length, allowed)
      assert.isAtLeast(attempts.length, calls * 2)
    }).pipe(Effect.provide(services))
  )

  it.effect("29 the limit also holds with three attempts per call", () =>
    Effect.gen(function* () {
      const without = yield* attemptsOf(Retry.with({ classify }), 0.6)
      assert.isAbove(without.length, allowed)
      const attempts = yield* attemptsOf(Retry.with({ classify, budget: true }), 0.6)
      assert.isAtMost(attempts.length, allowed)
    }).pipe(Effect.provide(services))
  )
})

describe("29 a hundred calls that fail at the same time", () => {
  const together = <R>(
    retry: (self: Effect.Effect<never, "down">) => Effect.Effect<never, Retry.RetryFailed<"down">, R>
  ) =>
    Effect.gen(function* () {
      let attempts = 0
      const attempt = Effect.suspend(() => {
        attempts++
        return Effect.fail("down" as const)
      })
      const all = Array.from({ length: 100 }, () =>
        Effect.flatMap(Effect.flip(retry(attempt)), (error) =>
          Effect.map(Clock.currentTimeMillis, (at) => ({ error, at }))
        )
      )
      const fiber = yield* Effect.forkChild(Effect.all(all, { concurrency: "unbounded" }), {
        startImmediately: true
      })
      yield* TestClock.adjust("1 second")
      yield* TestClock.adjust("1 hour")
      return { attempts, ended: yield* Fiber.join(fiber) }
    }).pipe(Random.withSeed("together"))

  it.effect(
    "make a fifth of a hundred more, and the reserve; the others end at once with what they had",
    () =>
      Effect.gen(function* () {
        const { attempts, ended } = yield* together(Retry.with({ classify, attempts: 2, budget: true }))
        assert.strictEqual(attempts, 100 + 20 + 10)
        const refused = ended.filter(({ error }) => error.stopped === "budget")
        assert.strictEqual(refused.length, 70)
        for (const { error, at } of refused) {
          assert.deepStrictEqual([error.failure, error.attempts, at], ["down", 1, 0])
        }
        for (const { error } of ended) assert.strictEqual(error.failure, "down")
      }).pipe(Effect.provide(RetryBudget.layer()))
  )

  it.effect("without a budget each call makes all of its attempts", () =>
    Effect.gen(function* () {
      const { attempts } = yield* together(Retry.with({ classify, attempts: 4 }))
      assert.strictEqual(attempts, 400)
    })
  )
})

describe("a total outage: calls that start after the circuit opened make no attempt but probes", () => {
  const probesOnly = <R>(retry: (self: Effect.Effect<void, "down">) => Effect.Effect<void, unknown, R>) =>
    Effect.gen(function* () {
      const { value: attempts, events } = yield* recorded(attemptsOf(retry, 1))
      const transitions = events.flatMap((event) =>
        event._tag === "CircuitTransition" && "to" in event ? [{ to: event.to, at: event.at }] : []
      )
      const opened = transitions.find(({ to }) => to === "open")?.at ?? Infinity
      // Five failures open the circuit. Calls come every 0.6 seconds.
      assert.isBelow(opened, 5_000)
      // Neither later calls nor calls in flight make further attempts.
      const later = attempts.filter(({ at }) => at > opened)
      const probes = transitions.filter(({ to }) => to === "half-open")
      // In ten minutes: after about 10, 20, 40, 80, 120, 120 and 120 seconds.
      assert.isAtLeast(probes.length, 5)
      assert.isAtMost(probes.length, 9)
      assert.deepStrictEqual(
        later.map(({ at }) => at),
        probes.map(({ at }) => at)
      )
      assert.isTrue(later.every(({ phase }) => phase === "half-open"))
      // All thousand calls together made this many attempts.
      assert.isAtMost(attempts.length, 8 + probes.length)
    })

  it.effect("calls that fail when the circuit refuses", () =>
    probesOnly(Retry.with({ classify, breaker: { circuit } })).pipe(Effect.provide(services))
  )

  it.effect("calls that wait for the circuit for a minute", () =>
    probesOnly(
      Retry.with({ classify, deadline: "1 minute", breaker: { circuit, whenRefused: "wait" } })
    ).pipe(Effect.provide(services))
  )

  it.effect("without a circuit each call makes all of its attempts", () =>
    Effect.gen(function* () {
      const attempts = yield* attemptsOf(Retry.with({ classify }), 1)
      assert.strictEqual(attempts.length, calls * 3)
    }).pipe(Effect.provide(services))
  )
})
