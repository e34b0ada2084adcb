import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Duration, Effect, Exit, Fiber } from "effect"
import type { Scope } from "effect"
import { TestClock } from "effect/testing"
import { ConnectionMonitor } from "@outlast/resilience"
import * as Refusal from "#resilience/Refusal"
import { hostile, isHealthy, recordAll, tags, threeFailures, watching } from "./support.ts"

describe("check and record", () => {
  it.effect("an unknown name may be called, and reading it stores nothing", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* monitor.check("nobody")
        yield* monitor.awaitHealthy("nobody")
        assert.strictEqual((yield* monitor.status("nobody")).health, "unknown")
        assert.deepStrictEqual(yield* monitor.list, [])
      })
    )
  )

  it.effect("an unhealthy name fails with Unhealthy and its retryAfter", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", ["success", ...threeFailures])
        yield* TestClock.adjust("4 seconds")
        const error = yield* Effect.flip(monitor.check("api"))
        assert.instanceOf(error, ConnectionMonitor.Unhealthy)
        assert.strictEqual(Duration.toMillis(error.retryAfter), 6_000)
        assert.strictEqual(error.failureRate, 0.75)
        assert.isTrue(error.isRetryable)
        assert.isTrue(Refusal.isRefusal(error))
        assert.strictEqual(error.message, "api is unhealthy: 75 % of the last calls failed. Retry after 6 s.")
        // Two failures in three outcomes were enough: the share of one half was passed.
        assert.deepStrictEqual(events, [
          {
            _tag: "HealthChanged",
            at: 0,
            connection: "api",
            from: "healthy",
            to: "unhealthy",
            outcomes: 3,
            failureRate: 2 / 3
          }
        ])
        assert.isTrue(yield* isHealthy(monitor, "other"))
      })
    )
  )

  it.effect("after the cooldown one call may test the name, and the next one at once after a success", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        yield* TestClock.adjust("9999 millis")
        assert.isFalse(yield* isHealthy(monitor, "api"))
        yield* TestClock.adjust("1 millis")
        assert.isTrue(yield* isHealthy(monitor, "api"))
        assert.isFalse(yield* isHealthy(monitor, "api"))
        // The call failed. None is let through before the cooldown is over again, and late failures do not postpone it.
        yield* TestClock.adjust("5 seconds")
        yield* recordAll(monitor, "api", threeFailures)
        yield* TestClock.adjust("5 seconds")
        assert.isTrue(yield* isHealthy(monitor, "api"))
        yield* monitor.record("api", "success")
        assert.isTrue(yield* isHealthy(monitor, "api"))
        assert.isFalse(yield* isHealthy(monitor, "api"))
        yield* monitor.record("api", "success")
        assert.isTrue(yield* isHealthy(monitor, "api"))
        assert.isTrue(yield* isHealthy(monitor, "api"))
        assert.deepStrictEqual(tags(events), ["HealthChanged", "HealthChanged"])
        assert.deepInclude(events[1], { to: "healthy", at: 20_000 })
      })
    )
  )

  it.effect("the cooldown can be set", () =>
    watching({ cooldown: "1 minute" })((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        yield* TestClock.adjust("59 seconds")
        assert.isFalse(yield* isHealthy(monitor, "api"))
        yield* TestClock.adjust("1 second")
        assert.isTrue(yield* isHealthy(monitor, "api"))
      })
    )
  )

  it.effect(
    "all of several names must allow the call, and a refusal by one takes no permit of the others",
    () =>
      watching()((monitor) =>
        Effect.gen(function* () {
          yield* recordAll(monitor, "session", threeFailures)
          yield* TestClock.adjust("10 seconds")
          yield* recordAll(monitor, "endpoint", threeFailures)
          const error = yield* Effect.flip(monitor.check(["session", "endpoint"]))
          assert.strictEqual(error.connection, "endpoint")
          assert.isTrue(yield* isHealthy(monitor, "session"))
        })
      )
  )

  it.effect("the window can be set", () =>
    watching({ window: { minimum: 1, recovery: 1 } })((monitor) =>
      Effect.gen(function* () {
        yield* monitor.record("api", "failure")
        assert.isFalse(yield* isHealthy(monitor, "api"))
        yield* monitor.record("api", "success")
        assert.isTrue(yield* isHealthy(monitor, "api"))
      })
    )
  )
})

describe("an invalid latency", () => {
  it.effect("is ignored, and the outcome counts", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const latencies = [-1, Number.NaN, Infinity, "soon" as "1 second", "20 millis"] as const
        for (const latency of latencies) yield* monitor.record("api", "success", latency)
        assert.deepInclude(yield* monitor.status("api"), {
          outcomes: 5,
          latency: { mean: 20, p50: 20, p95: 20 }
        })
      })
    )
  )
})

describe("guard", () => {
  it.effect("records a success with its latency, a failure, and a defect", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const guarded = monitor.guard("api")
        const fiber = yield* Effect.forkChild(guarded(Effect.as(Effect.sleep("250 millis"), "answer")))
        yield* TestClock.adjust("250 millis")
        assert.strictEqual(yield* Fiber.join(fiber), "answer")
        assert.strictEqual(yield* Effect.flip(guarded(Effect.fail("no" as const))), "no")
        yield* TestClock.adjust("1 second")
        yield* Effect.exit(guarded(Effect.die("boom")))
        const status = yield* monitor.status("api")
        assert.deepInclude(status, {
          outcomes: 3,
          consecutiveFailures: 2,
          lastSuccess: 250,
          lastFailure: 1_250,
          latency: { mean: 250, p50: 250, p95: 250 },
          health: "unhealthy",
          registered: false
        })
      })
    )
  )

  it.effect("does not run a refused call", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        let ran = false
        const error = yield* Effect.flip(monitor.guard("api")(Effect.sync(() => (ran = true))))
        assert.strictEqual(error._tag, "Unhealthy")
        assert.isFalse(ran)
        assert.strictEqual((yield* monitor.status("api")).outcomes, 3)
      })
    )
  )

  it.effect("an interruption is not an outcome", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(monitor.guard("api")(Effect.never), { startImmediately: true })
        yield* Fiber.interrupt(fiber)
        yield* Effect.exit(monitor.guard("api")(Effect.interrupt))
        assert.strictEqual((yield* monitor.status("api")).outcomes, 0)
        // A failure among interruptions is an outcome.
        const both = Cause.combine(Cause.interrupt(1), Cause.fail("no"))
        yield* Effect.exit(monitor.guard("api")(Effect.failCause(both)))
        assert.strictEqual((yield* monitor.status("api")).outcomes, 1)
      })
    )
  )

  it.effect("a refusal from inside is not an outcome", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "inner", threeFailures)
        yield* Effect.exit(monitor.guard("outer")(monitor.guard("inner")(Effect.void)))
        yield* Effect.exit(monitor.guard("outer")(Effect.fail({ [Refusal.mark]: true })))
        assert.strictEqual((yield* monitor.status("outer")).outcomes, 0)
      })
    )
  )

  it.effect("`counts` selects the failures that count, and its mistakes change no result", () =>
    watching({
      counts: (cause) => {
        const error = Cause.squash(cause)
        if (error === "mistake") throw new Error("bad predicate")
        return error !== "bad request"
      }
    })((monitor) =>
      Effect.gen(function* () {
        const guarded = monitor.guard("api")
        yield* Effect.exit(guarded(Effect.fail("bad request")))
        assert.strictEqual((yield* monitor.status("api")).outcomes, 0)
        assert.strictEqual(yield* Effect.flip(guarded(Effect.fail("mistake"))), "mistake")
        assert.strictEqual((yield* monitor.status("api")).outcomes, 1)
      })
    )
  )

  it.effect("a call of a dead session does not count for the session that replaced it", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const gate = yield* Deferred.make<void, string>()
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* monitor.register("tab", {})
            yield* Effect.forkIn(
              Effect.exit(monitor.guard("tab")(Deferred.await(gate))),
              yield* Effect.scope,
              {
                startImmediately: true
              }
            )
            yield* monitor.died("tab", "crashed")
            yield* monitor.register("tab", {})
            yield* Deferred.fail(gate, "target closed")
            yield* Effect.yieldNow
          })
        )
        assert.deepInclude(yield* monitor.status("tab"), { health: "unknown", outcomes: 0 })
      })
    )
  )
})

describe("the permit for a test", () => {
  /** An unhealthy name after its cooldown: one call may test it. */
  const withPermit = (
    program: (monitor: ConnectionMonitor.Service) => Effect.Effect<unknown, unknown, Scope.Scope>,
    options: ConnectionMonitor.Options = {}
  ) =>
    watching(options)((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        yield* TestClock.adjust("10 seconds")
        yield* program(monitor)
      })
    )
  const started = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.forkChild(Effect.exit(effect), { startImmediately: true })

  it.effect("is given back by a call that is interrupted, so that the next may run at once", () =>
    withPermit((monitor) =>
      Effect.gen(function* () {
        const fiber = yield* started(monitor.guard("api")(Effect.never))
        assert.isFalse(yield* isHealthy(monitor, "api"))
        yield* Fiber.interrupt(fiber)
        assert.isTrue(yield* isHealthy(monitor, "api"))
        assert.isFalse(yield* isHealthy(monitor, "api"))
      })
    )
  )

  it.effect(
    "is given back by a call that is refused further inside, and by a failure that does not count",
    () =>
      withPermit(
        (monitor) =>
          Effect.gen(function* () {
            yield* monitor.died("tab", "closed")
            yield* Effect.exit(monitor.guard("api")(monitor.guard("tab")(Effect.void)))
            yield* Effect.exit(monitor.guard("api")(Effect.fail("bad request")))
            assert.isTrue(yield* isHealthy(monitor, "api"))
          }),
        { counts: (cause) => Cause.squash(cause) !== "bad request" }
      )
  )

  it.effect("is given back for every name", () =>
    withPermit((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "db", threeFailures)
        yield* TestClock.adjust("10 seconds")
        yield* Effect.exit(monitor.guard(["api", "db"])(Effect.interrupt))
        assert.isTrue(yield* isHealthy(monitor, "api"))
        assert.isTrue(yield* isHealthy(monitor, "db"))
      })
    )
  )

  it.effect("is kept by a call that fails", () =>
    withPermit((monitor) =>
      Effect.gen(function* () {
        yield* Effect.exit(monitor.guard("api")(Effect.fail("no")))
        assert.isFalse(yield* isHealthy(monitor, "api"))
      })
    )
  )

  it.effect("is not given back by an earlier call that ends late", () =>
    withPermit((monitor) =>
      Effect.gen(function* () {
        const hanging = yield* started(monitor.guard("api")(Effect.never))
        yield* TestClock.adjust("10 seconds")
        yield* started(monitor.guard("api")(Effect.never))
        yield* Fiber.interrupt(hanging)
        assert.isFalse(yield* isHealthy(monitor, "api"))
      })
    )
  )

  it.effect("is not held by a call that began while the name was healthy", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const early = yield* started(monitor.guard("api")(Effect.never))
        yield* recordAll(monitor, "api", threeFailures)
        yield* Fiber.interrupt(early)
        assert.isFalse(yield* isHealthy(monitor, "api"))
      })
    )
  )

  it.effect("is given back by a ping that ends with its scope", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        yield* TestClock.adjust("10 seconds")
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* monitor.register("api", { ping: Effect.never })
            yield* Effect.yieldNow
            assert.isFalse(yield* isHealthy(monitor, "api"))
          })
        )
        assert.isTrue(yield* isHealthy(monitor, "api"))
      })
    )
  )
})

describe("failures", () => {
  class Broken extends Error {}

  it.effect("are published once for each name, with the tag or the class, never the message", () =>
    watching()((monitor, events, failures) =>
      Effect.gen(function* () {
        yield* TestClock.adjust("1 second")
        yield* Effect.exit(monitor.guard(["tab", "api", "tab"])(Effect.fail(new Broken("secret"))))
        yield* Effect.exit(monitor.guard("api")(Effect.die({ _tag: "Odd" })))
        yield* monitor.record("api", "failure")
        const of = (connection: string, error?: string) => ({
          _tag: "ConnectionFailure",
          at: 1_000,
          connection,
          ...(error === undefined ? {} : { error })
        })
        assert.deepStrictEqual(failures, [
          of("tab", "Broken"),
          of("api", "Broken"),
          of("api", "Odd"),
          of("api")
        ] as typeof failures)
        assert.deepStrictEqual(tags(events), ["HealthChanged"])
        assert.strictEqual((yield* monitor.status("tab")).outcomes, 1)
      })
    )
  )

  it.effect("that are not outcomes are not published", () =>
    watching({ counts: () => false })((monitor, _events, failures) =>
      Effect.gen(function* () {
        yield* Effect.exit(monitor.guard("api")(Effect.fail("bad request")))
        yield* Effect.exit(monitor.guard("api")(Effect.interrupt))
        yield* Effect.exit(monitor.guard("api")(Effect.fail({ [Refusal.mark]: true })))
        yield* monitor.died("tab", "closed")
        yield* monitor.record("tab", "failure")
        assert.deepStrictEqual(failures, [])
      })
    )
  )

  for (const [name, error] of hostile) {
    it.effect(`that are ${name} are passed on unchanged, and count`, () =>
      watching()((monitor, _events, failures) =>
        Effect.gen(function* () {
          const left = yield* Effect.flip(monitor.guard("api")(Effect.fail(error)))
          assert.isTrue(left === error)
          assert.lengthOf(failures, 1)
        })
      )
    )
  }
})

describe("awaitHealthy", () => {
  it.effect("wakes all waiting fibers at the recovery", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* monitor.register("api", { interval: "1 hour" })
        yield* recordAll(monitor, "api", threeFailures)
        const waiting = yield* Effect.forEach([1, 2], () =>
          Effect.forkChild(monitor.awaitHealthy("api"), { startImmediately: true })
        )
        yield* TestClock.adjust("20 seconds")
        yield* monitor.record("api", "success")
        yield* Effect.yieldNow
        assert.isUndefined(waiting[0]?.pollUnsafe())
        yield* monitor.record("api", "success")
        for (const fiber of waiting) yield* Fiber.join(fiber)
      })
    )
  )

  it.effect("ends when a call is let through, for an unregistered name", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        const fiber = yield* Effect.forkChild(monitor.awaitHealthy("api"), { startImmediately: true })
        yield* TestClock.adjust("9999 millis")
        assert.isUndefined(fiber.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        yield* Fiber.join(fiber)
        yield* monitor.check("api")
      })
    )
  )

  it.effect("wakes without polling when the failures have left the window", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        yield* monitor.register("api", { interval: "1 hour" })
        yield* recordAll(monitor, "api", threeFailures)
        const fiber = yield* Effect.forkChild(monitor.awaitHealthy("api"), { startImmediately: true })
        yield* TestClock.adjust("299999 millis")
        assert.isUndefined(fiber.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        yield* Fiber.join(fiber)
        assert.deepInclude(events.at(-1), { _tag: "HealthChanged", to: "healthy", at: 300_000 })
      })
    )
  )

  it.effect("fails when the session dies, and at once when it is already dead", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "tab", threeFailures)
        const fiber = yield* Effect.forkChild(Effect.flip(monitor.awaitHealthy("tab")), {
          startImmediately: true
        })
        yield* monitor.died("tab", "closed")
        assert.strictEqual((yield* Fiber.join(fiber)).reason, "closed")
        assert.strictEqual((yield* Effect.flip(monitor.awaitHealthy("tab")))._tag, "SessionDead")
      })
    )
  )

  it.effect("can be interrupted", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        const fiber = yield* Effect.forkChild(monitor.awaitHealthy("api"), { startImmediately: true })
        yield* Fiber.interrupt(fiber)
        assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
      })
    )
  )
})

describe("names", () => {
  it.effect("are limited: the least recently used is evicted, a registered one never", () =>
    watching({ maxIdle: 2 })((monitor) =>
      Effect.gen(function* () {
        yield* monitor.register("kept", {})
        yield* recordAll(monitor, "kept", threeFailures)
        for (const name of ["a", "b", "a", "c"]) yield* monitor.record(name, "failure")
        const names = (yield* monitor.list).map(({ name }) => name)
        assert.deepStrictEqual(names, ["kept", "a", "c"])
        assert.isFalse(yield* isHealthy(monitor, "kept"))
      })
    )
  )

  it.effect("are removed when unused, and fibers that wait for one continue", () =>
    watching({ idleFor: "1 minute" })((monitor) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        yield* TestClock.adjust("59 seconds")
        assert.isFalse((yield* monitor.list).length === 0)
        const fiber = yield* Effect.forkChild(monitor.awaitHealthy("api"), { startImmediately: true })
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* monitor.list, [])
        assert.strictEqual((yield* monitor.status("api")).health, "unknown")
        yield* monitor.record("new", "success")
        yield* Fiber.join(fiber)
      })
    )
  )

  it.effect("keep their state when their registration ends", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* Effect.scoped(monitor.register("api", { ping: Effect.void }))
        assert.deepInclude(yield* monitor.status("api"), { registered: false, outcomes: 1 })
      })
    )
  )

  it("an invalid option is named in the error", () => {
    const wrong: ReadonlyArray<readonly [ConnectionMonitor.Options, RegExp]> = [
      [{ interval: 0 }, /ConnectionMonitor: interval must be a duration of at least 1ms, got 0/],
      [{ timeout: Duration.infinity }, /ConnectionMonitor: timeout must be a finite duration/],
      [{ cooldown: -1 }, /ConnectionMonitor: cooldown/],
      [{ maxIdle: 0.5 }, /ConnectionMonitor: maxIdle must be an integer of at least 1, got 0.5/],
      [{ idleFor: 0 }, /ConnectionMonitor: idleFor/],
      [{ window: { size: 0 } }, /HealthWindow: size/]
    ]
    for (const [options, message] of wrong) {
      assert.throws(() => Effect.runSync(ConnectionMonitor.make(options)), message)
    }
  })
})
