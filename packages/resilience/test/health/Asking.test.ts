import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Scope } from "effect"
import { TestClock } from "effect/testing"
import { ConnectionMonitor } from "@outlast/resilience"
import type { ConnectionEvent } from "@outlast/resilience"
import { hostile, isHealthy, recordAll, tags, threeFailures, watching } from "./support.ts"

const { ProbeError } = ConnectionMonitor

/** A ping with a scripted result that counts its runs. */
const pingOf = (answer: { now: "up" | "down" | "broken" | "silent" | "defect" }) => {
  const times: Array<number> = []
  const ping = Effect.clockWith((clock) =>
    Effect.suspend((): Effect.Effect<void, Error | ConnectionMonitor.ProbeError> => {
      times.push(clock.currentTimeMillisUnsafe())
      switch (answer.now) {
        case "up":
          return Effect.sleep("40 millis")
        case "down":
          return Effect.fail(new TypeError("secret-key refused"))
        case "broken":
          return Effect.fail(new ProbeError({ reason: "no curl here" }))
        case "silent":
          return Effect.never
        case "defect":
          return Effect.die(new Error("boom"))
      }
    })
  )
  return { ping, times }
}

describe("pings", () => {
  it.effect("run every 30 seconds from the start, until the scope ends", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const { ping, times } = pingOf({ now: "up" })
        const scope = yield* Scope.make()
        yield* Scope.provide(monitor.register("api", { ping }), scope)
        yield* TestClock.adjust("95 seconds")
        // Each takes 40 ms. The interval starts when it has ended.
        assert.deepStrictEqual(times, [0, 30_040, 60_080, 90_120])
        assert.deepInclude(yield* monitor.status("api"), { registered: true, outcomes: 4, health: "healthy" })
        assert.strictEqual((yield* monitor.status("api")).latency?.p95, 40)
        yield* Scope.close(scope, Exit.void)
        yield* TestClock.adjust("1 hour")
        assert.lengthOf(times, 4)
        assert.isFalse((yield* monitor.status("api")).registered)
      })
    )
  )

  it.effect("can have another interval, for the monitor and for a name", () =>
    watching({ interval: "1 minute" })((monitor) =>
      Effect.gen(function* () {
        const slow = pingOf({ now: "up" })
        const quick = pingOf({ now: "up" })
        const never = pingOf({ now: "up" })
        yield* monitor.register("slow", { ping: slow.ping })
        yield* monitor.register("quick", { ping: quick.ping, interval: "10 seconds" })
        yield* monitor.register("never", { ping: never.ping, interval: Duration.infinity })
        yield* TestClock.adjust("59 seconds")
        assert.lengthOf(slow.times, 1)
        assert.lengthOf(quick.times, 6)
        yield* TestClock.adjust("2 seconds")
        assert.lengthOf(slow.times, 2)
        yield* TestClock.adjust("30 minutes")
        assert.lengthOf(never.times, 1)
        // Only while unhealthy.
        yield* recordAll(monitor, "never", threeFailures)
        yield* TestClock.adjust("1 minute")
        assert.isTrue(yield* isHealthy(monitor, "never"))
        assert.lengthOf(never.times, 3)
      })
    )
  )

  it.effect(
    "failing pings make it unhealthy; then it is asked every cooldown, and recovers without any call",
    () =>
      watching()((monitor, events) =>
        Effect.gen(function* () {
          const answer: Parameters<typeof pingOf>[0] = { now: "down" }
          const { ping, times } = pingOf(answer)
          yield* monitor.register("api", { ping })
          yield* TestClock.adjust("60 seconds")
          assert.deepStrictEqual(times, [0, 30_000, 60_000])
          assert.isFalse(yield* isHealthy(monitor, "api"))
          assert.deepStrictEqual(tags(events), ["PingFailed", "PingFailed", "PingFailed", "HealthChanged"])
          // The class of the error, never its message.
          assert.deepInclude(events[0], { error: "TypeError", latency: 0 })
          assert.notInclude(JSON.stringify(events), "secret")
          yield* TestClock.adjust("25 seconds")
          assert.deepStrictEqual(times.slice(3), [70_000, 80_000])
          answer.now = "up"
          yield* TestClock.adjust("5 seconds")
          assert.isFalse(yield* isHealthy(monitor, "api"))
          // After one success the second ping follows at once.
          yield* TestClock.adjust("80 millis")
          assert.deepStrictEqual(times.slice(5), [90_000, 90_040])
          assert.isTrue(yield* isHealthy(monitor, "api"))
          assert.deepInclude(events.at(-1), { _tag: "HealthChanged", to: "healthy", at: 90_080 })
        })
      )
  )

  it.effect("fail when they exceed their time limit", () =>
    watching({ timeout: "3 seconds" })((monitor, events) =>
      Effect.gen(function* () {
        yield* monitor.register("api", { ping: Effect.never })
        yield* monitor.register("slower", { ping: Effect.never, timeout: "7 seconds" })
        yield* TestClock.adjust("7 seconds")
        assert.deepStrictEqual(events, [
          { _tag: "PingFailed", at: 3_000, connection: "api", error: "timeout", latency: 3_000 },
          { _tag: "PingFailed", at: 7_000, connection: "slower", error: "timeout", latency: 7_000 }
        ])
      })
    )
  )

  it.effect("are brought forward by a failed call, at most once in a cooldown", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const { ping, times } = pingOf({ now: "up" })
        yield* monitor.register("api", { ping })
        yield* TestClock.adjust("4 seconds")
        yield* monitor.record("api", "failure")
        yield* TestClock.adjust("5 seconds")
        assert.deepStrictEqual(times, [0])
        yield* TestClock.adjust("2 seconds")
        assert.deepStrictEqual(times, [0, 10_040])
        yield* TestClock.adjust("14 seconds")
        yield* monitor.record("api", "failure")
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(times, [0, 10_040, 25_000])
      })
    )
  )

  it.effect("are not put off by calls: a failure right after other calls brings one forward at once", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const { ping, times } = pingOf({ now: "up" })
        yield* monitor.register("api", { ping })
        yield* TestClock.adjust("20 seconds")
        yield* recordAll(monitor, "api", ["success", "success"])
        yield* TestClock.adjust("1 second")
        yield* monitor.record("api", "failure")
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(times, [0, 21_000])
      })
    )
  )

  it.effect("that could not run are reported, and leave health unchanged", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        const answer: Parameters<typeof pingOf>[0] = { now: "broken" }
        const { ping, times } = pingOf(answer)
        yield* monitor.register("api", { ping })
        yield* TestClock.adjust("90 seconds")
        assert.lengthOf(times, 4)
        answer.now = "defect"
        yield* TestClock.adjust("30 seconds")
        assert.deepStrictEqual(
          events.map((event) => (event._tag === "PingUnavailable" ? [event.mechanism, event.reason] : event)),
          [...Array.from({ length: 4 }, () => ["ping", "no curl here"]), ["ping", "defect"]]
        )
        assert.deepInclude(yield* monitor.status("api"), { health: "unknown", outcomes: 0 })
        // Unhealthy by its calls, the name stays unhealthy. A call tests it, because the ping cannot run.
        yield* recordAll(monitor, "api", threeFailures)
        assert.isFalse(yield* isHealthy(monitor, "api"))
        yield* TestClock.adjust("10 seconds")
        assert.isTrue(yield* isHealthy(monitor, "api"))
        assert.isFalse(yield* isHealthy(monitor, "api"))
      })
    )
  )

  it.effect("are interrupted when the scope ends, without an outcome", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        let interrupted = false
        yield* Effect.scoped(
          monitor.register("api", {
            ping: Effect.onInterrupt(Effect.never, () => Effect.sync(() => (interrupted = true)))
          })
        )
        yield* TestClock.adjust("1 minute")
        assert.isTrue(interrupted)
        assert.deepStrictEqual(events, [])
        assert.deepInclude(yield* monitor.status("api"), { outcomes: 0, registered: false })
      })
    )
  )

  it.effect("runs the checks now, one at a time", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        const { ping, times } = pingOf({ now: "up" })
        yield* monitor.register("api", { ping })
        const fiber = yield* Effect.forkChild(monitor.ask("api"), { startImmediately: true })
        yield* TestClock.adjust("80 millis")
        assert.strictEqual((yield* Fiber.join(fiber)).outcomes, 2)
        assert.deepStrictEqual(times, [0, 40])
      })
    )
  )

  it.effect(
    "registering again replaces the pings, and the end of the first scope does not end the second",
    () =>
      watching()((monitor) =>
        Effect.gen(function* () {
          const first = pingOf({ now: "up" })
          const second = pingOf({ now: "up" })
          const scope = yield* Scope.make()
          yield* Scope.provide(monitor.register("api", { ping: first.ping }), scope)
          yield* TestClock.adjust("1 second")
          yield* monitor.register("api", { ping: second.ping })
          yield* TestClock.adjust("1 minute")
          yield* Scope.close(scope, Exit.void)
          yield* TestClock.adjust("1 minute")
          assert.lengthOf(first.times, 1)
          assert.lengthOf(second.times, 4)
          assert.isTrue((yield* monitor.status("api")).registered)
        })
      )
  )
})

describe("checks that go wrong", () => {
  for (const [name, error] of hostile) {
    it.effect(`errors that are ${name}: the ping has failed, and the next one runs`, () =>
      watching({ cooldown: "10 seconds" })((monitor, events) =>
        Effect.gen(function* () {
          let pings = 0
          yield* monitor.register("api", {
            ping: Effect.suspend(() => {
              pings += 1
              return Effect.fail(error)
            })
          })
          yield* TestClock.adjust("30 seconds")
          assert.strictEqual(pings, 2)
          assert.deepStrictEqual(tags(events), ["PingFailed", "PingFailed"])
          assert.strictEqual((yield* monitor.status("api")).consecutiveFailures, 2)
        })
      )
    )

    it.effect(`errors that are ${name}: the probe could not run, and the next one does`, () =>
      watching()((monitor, events) =>
        Effect.gen(function* () {
          yield* monitor.register("tab", {
            // As in a JavaScript program.
            probe: Effect.fail(error) as unknown as ConnectionMonitor.Probe
          })
          yield* TestClock.adjust("30 seconds")
          assert.deepStrictEqual(tags(events), ["PingUnavailable", "PingUnavailable"])
        })
      )
    )
  }

  it.effect("a ping that throws is published and repeated", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        const throws = Effect.suspend((): Effect.Effect<void> => {
          throw new Error("boom")
        })
        yield* monitor.register("throws", { ping: throws })
        yield* TestClock.adjust("30 seconds")
        assert.deepStrictEqual(
          events.map((event) => (event._tag === "PingUnavailable" ? event.reason : event._tag)),
          ["defect", "defect"]
        )
      })
    )
  )
})

describe("replacement and recovery", () => {
  it.effect("the answer to a ping of a replaced registration does not count", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        yield* monitor.register("api", { ping: Effect.andThen(Effect.sleep("5 seconds"), Effect.fail("no")) })
        yield* TestClock.adjust("1 second")
        yield* monitor.register("api", { ping: Effect.void })
        yield* TestClock.adjust("10 seconds")
        assert.deepStrictEqual(events, [])
        assert.deepInclude(yield* monitor.status("api"), { outcomes: 1, failureRate: 0 })
      })
    )
  )

  const changes = (events: ReadonlyArray<ConnectionEvent.ConnectionEvent>) =>
    events.map((event) => [event.at, "to" in event ? event.to : event._tag])

  it.effect("the recovery by age of a registered name is published at that moment, without a check", () =>
    watching({ cooldown: "1 hour", interval: "1 hour" })((monitor, events) =>
      Effect.gen(function* () {
        yield* monitor.register("tab", { probe: Effect.succeed("alive") })
        yield* recordAll(monitor, "tab", threeFailures)
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(changes(events), [
          [0, "unhealthy"],
          [300_000, "healthy"]
        ])
      })
    )
  )

  it.effect("the recovery of an unregistered name is published at the next call", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "api", threeFailures)
        yield* TestClock.adjust("6 minutes")
        yield* monitor.status("api")
        assert.lengthOf(events, 1)
        yield* monitor.check("api")
        assert.deepStrictEqual(changes(events).slice(1), [[360_000, "healthy"]])
      })
    )
  )
})

describe("session death", () => {
  it.effect('a probe that returns "dead" is final: checks stop, and calls fail with SessionDead', () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        let alive = true
        let asked = 0
        yield* monitor.register("tab", {
          probe: Effect.sync(() => {
            asked += 1
            return alive ? "alive" : "dead"
          })
        })
        yield* TestClock.adjust("30 seconds")
        assert.strictEqual(asked, 2)
        yield* monitor.check("tab")
        alive = false
        yield* TestClock.adjust("30 seconds")
        const error = yield* Effect.flip(monitor.check("tab"))
        assert.instanceOf(error, ConnectionMonitor.SessionDead)
        assert.isFalse(error.isRetryable)
        assert.strictEqual(error.message, "tab is dead (probe). Start a new one and register it.")
        alive = true
        yield* recordAll(monitor, "tab", ["success", "success", "success"])
        assert.deepInclude(yield* monitor.status("tab"), { health: "dead", outcomes: 0 })
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(asked, 3)
        assert.deepStrictEqual(events, [
          { _tag: "SessionDied", at: 60_000, connection: "tab", reason: "probe" }
        ])
        assert.deepInclude(yield* monitor.status("tab"), {
          health: "dead",
          death: { at: 60_000, reason: "probe" },
          outcomes: 0
        })
        // A new registration under the same name starts anew.
        yield* monitor.register("tab", { probe: Effect.succeed("alive") })
        yield* monitor.check("tab")
      })
    )
  )

  it.effect("a failing call detects the death at once", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        let alive = true
        yield* monitor.register("socket", { probe: Effect.sync(() => (alive ? "alive" : "dead")) })
        yield* TestClock.adjust("20 seconds")
        alive = false
        yield* Effect.exit(monitor.guard("socket")(Effect.fail("EPIPE")))
        yield* TestClock.adjust(0)
        assert.strictEqual((yield* Effect.flip(monitor.check("socket")))._tag, "SessionDead")
      })
    )
  )

  it.effect("a probe that could not run, or took too long, proves nothing", () =>
    watching({ timeout: "2 seconds" })((monitor, events) =>
      Effect.gen(function* () {
        yield* monitor.register("broken", { probe: Effect.fail(new ProbeError({ reason: "no tmux here" })) })
        yield* monitor.register("silent", { probe: Effect.never })
        yield* TestClock.adjust("2 seconds")
        yield* monitor.check(["broken", "silent"])
        assert.deepStrictEqual(events, [
          {
            _tag: "PingUnavailable",
            at: 0,
            connection: "broken",
            mechanism: "probe",
            reason: "no tmux here"
          },
          { _tag: "PingUnavailable", at: 2_000, connection: "silent", mechanism: "probe", reason: "timeout" }
        ])
      })
    )
  )

  it.effect("a ping still runs when the probe cannot", () =>
    watching()((monitor) =>
      Effect.gen(function* () {
        yield* monitor.register("api", {
          probe: Effect.fail(new ProbeError({ reason: "?" })),
          ping: Effect.void
        })
        yield* Effect.yieldNow
        assert.strictEqual((yield* monitor.status("api")).outcomes, 1)
      })
    )
  )

  it.effect("an unhealthy name that dies does not become healthy", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        yield* recordAll(monitor, "tab", threeFailures)
        yield* monitor.died("tab", "crashed")
        yield* TestClock.adjust("10 minutes")
        yield* monitor.record("tab", "success")
        assert.deepStrictEqual(tags(events), ["HealthChanged", "SessionDied"])
      })
    )
  )

  it.effect("the program can declare a death, once", () =>
    watching()((monitor, events) =>
      Effect.gen(function* () {
        yield* monitor.died("child", "exit code 1")
        yield* monitor.died("child", "again")
        assert.deepStrictEqual(events, [
          { _tag: "SessionDied", at: 0, connection: "child", reason: "exit code 1" }
        ])
      })
    )
  )
})
