import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Alerts, AlertWindow, ResilienceEvents } from "@outlast/resilience"

const failed = (name: string, tag = "RetriesExhausted") =>
  Effect.clockWith((clock) =>
    ResilienceEvents.publish({
      _tag: tag,
      at: clock.currentTimeMillisUnsafe(),
      name
    } as ResilienceEvents.ResilienceEvent)
  )
const times = (count: number, effect: Effect.Effect<void>) => Effect.repeat(effect, { times: count - 1 })

/** Collects the published alerts, as `time tag key`. */
const telling = <R = never>(options: Alerts.Options<R> = {}) => {
  const told: Array<string> = []
  const layer = Alerts.layer(options).pipe(
    Layer.provideMerge(
      ResilienceEvents.layerHandler((event) =>
        Effect.sync(() => {
          if ("key" in event) told.push(`${event.at} ${event._tag} ${String(event.key)}`)
        })
      )
    )
  )
  return { told, layer }
}

describe("an alert", () => {
  it.effect("names the rule that was met and, at its end, how long it lasted", () => {
    const alerts: Array<unknown> = []
    const onAlert = (alert: unknown) => Effect.sync(() => void alerts.push(alert))
    return Effect.gen(function* () {
      yield* times(2, failed("api"))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(alerts, [
        { _tag: "AlertRaised", at: 0, key: "api", failures: 2, window: 60_000 },
        { _tag: "AlertCleared", at: 60_000, key: "api", after: 60_000 }
      ])
    }).pipe(
      Effect.provide(
        Alerts.layer({ failures: 2, window: "1 minute", onAlert }).pipe(
          Layer.provideMerge(ResilienceEvents.layer())
        )
      )
    )
  })
})

describe("Alerts", () => {
  it.effect("ten failures in five minutes raise one alert, which clears by itself", () => {
    const { told, layer } = telling()
    return Effect.gen(function* () {
      yield* times(9, failed("api"))
      assert.deepStrictEqual(told, [])
      yield* TestClock.adjust("1 minute")
      yield* times(5, failed("api"))
      assert.deepStrictEqual(told, ["60000 AlertRaised api"])
      // Of the first nine and the last five, nine leave the window at five minutes.
      yield* TestClock.adjust("239999 millis")
      assert.lengthOf(told, 1)
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(told.slice(1), ["300000 AlertCleared api"])
      yield* TestClock.adjust("1 day")
      assert.lengthOf(told, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("raises again after it was cleared", () => {
    const { told, layer } = telling()
    return Effect.gen(function* () {
      yield* times(10, failed("api"))
      yield* TestClock.adjust("5 minutes")
      yield* times(9, failed("api"))
      assert.lengthOf(told, 2)
      yield* failed("api")
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(told, [
        "0 AlertRaised api",
        "300000 AlertCleared api",
        "300000 AlertRaised api",
        "600000 AlertCleared api"
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("further failures delay the clearing", () => {
    const { told, layer } = telling({ failures: 2, window: "1 minute" })
    return Effect.gen(function* () {
      yield* times(2, failed("api"))
      for (let i = 0; i < 5; i++) {
        yield* TestClock.adjust("20 seconds")
        yield* failed("api")
      }
      assert.deepStrictEqual(told, ["0 AlertRaised api"])
      yield* TestClock.adjust("1 hour")
      // The last two failures were at 80 and 100 seconds.
      assert.deepStrictEqual(told.slice(1), ["140000 AlertCleared api"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a lower clearBelow keeps a trickle at the threshold from raising repeatedly", () => {
    const trickle = Effect.gen(function* () {
      for (let i = 0; i < 60; i++) {
        yield* failed("api")
        yield* TestClock.adjust(i % 3 === 2 ? "41 seconds" : "10 seconds")
      }
    })
    const raised = (clearBelow: number | undefined) => {
      const { told, layer } = telling({ failures: 3, window: "1 minute", clearBelow })
      return Effect.as(Effect.provide(trickle, layer), told).pipe(
        Effect.map((told) => told.filter((line) => line.includes("Raised")).length)
      )
    }
    return Effect.gen(function* () {
      assert.isAbove(yield* raised(undefined), 10)
      assert.strictEqual(yield* raised(1), 1)
    })
  })

  it.effect("keys are independent, and the one that clears first does not wait for another", () => {
    const { told, layer } = telling({ failures: 2, window: "1 minute" })
    return Effect.gen(function* () {
      yield* failed("early")
      yield* TestClock.adjust("10 seconds")
      yield* times(2, failed("late"))
      yield* TestClock.adjust("10 seconds")
      yield* failed("early")
      yield* failed("single")
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual(told, [
        "10000 AlertRaised late",
        "20000 AlertRaised early",
        "60000 AlertCleared early",
        "70000 AlertCleared late"
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("the program can choose which events count, and for which key", () => {
    const { told, layer } = telling({
      failures: 1,
      isFailure: ({ _tag }) => _tag.startsWith("My"),
      keyOf: ({ _tag }) => _tag
    })
    return Effect.gen(function* () {
      yield* failed("api")
      yield* failed("api", "MyFailure")
      assert.deepStrictEqual(told, ["0 AlertRaised MyFailure"])
    }).pipe(Effect.provide(layer))
  })

  it("by default failures of circuits, connections, targets and calls count, under the name they carry", () => {
    const event = (_tag: string, rest: object = {}) => ({ _tag, at: 0, ...rest })
    for (const tag of [
      "AttemptFailed",
      "CircuitFailure",
      "ConnectionFailure",
      "PingFailed",
      "RetriesExhausted",
      "SessionDied"
    ]) {
      assert.isTrue(Alerts.isFailure(event(tag)))
    }
    for (const tag of ["Retrying", "CircuitTransition", "PingUnavailable", "CircuitRefusal", "AlertRaised"]) {
      assert.isFalse(Alerts.isFailure(event(tag)))
    }
    assert.isTrue(Alerts.isFailure(event("RetriesExhausted", { attempts: 1, stopped: "refused" })))
    assert.isFalse(Alerts.isFailure(event("RetriesExhausted", { attempts: 0, stopped: "deadline" })))
    assert.strictEqual(Alerts.keyOf(event("X", { connection: "tab" })), "tab")
    assert.strictEqual(Alerts.keyOf(event("X", { circuit: "api" })), "api")
    assert.strictEqual(Alerts.keyOf(event("X", { name: "job" })), "job")
    assert.strictEqual(Alerts.keyOf(event("X", { target: { endpoint: "https://x" } })), "https://x")
    assert.strictEqual(Alerts.keyOf(event("X", { name: 7, target: null })), "all")
  })

  it.effect(
    "those who report the same failure of one key count apart: it is raised and cleared by the fullest",
    () => {
      const { told, layer } = telling({ failures: 3, window: "1 minute" })
      const told3 = (fields: object, _tag: string) =>
        ResilienceEvents.publish({ _tag, at: 0, ...fields } as never)
      return Effect.gen(function* () {
        for (let i = 0; i < 2; i++) {
          yield* told3({ circuit: "api" }, "CircuitFailure")
          yield* told3({ connection: "api" }, "ConnectionFailure")
          yield* told3({ name: "api", attempts: 1 }, "RetriesExhausted")
        }
        assert.deepStrictEqual(told, [])
        yield* TestClock.adjust("10 seconds")
        // A ping and a call of one connection are two failures.
        yield* told3({ connection: "api" }, "PingFailed")
        assert.deepStrictEqual(told, ["10000 AlertRaised api"])
        yield* TestClock.adjust("5 seconds")
        yield* told3({ circuit: "api" }, "CircuitFailure")
        yield* told3({ circuit: "api" }, "CircuitFailure")
        yield* TestClock.adjust("1 hour")
        // After a minute the connection has one failure left, the circuit two.
        assert.deepStrictEqual(told.slice(1), ["60000 AlertCleared api"])
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("an alert does not count as a failure, even if the predicate accepts it", () => {
    const { told, layer } = telling({ failures: 1, isFailure: () => true })
    return Effect.gen(function* () {
      yield* failed("api")
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(told, ["0 AlertRaised api", "300000 AlertCleared api"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("keys are limited: further ones share one, and an expired key makes room", () => {
    const { told, layer } = telling({ failures: 2, maxKeys: 2 })
    return Effect.gen(function* () {
      for (const name of ["a", "b", "c", "d"]) yield* failed(name)
      assert.deepStrictEqual(told, ["0 AlertRaised other"])
      yield* TestClock.adjust("10 minutes")
      yield* times(2, failed("e"))
      assert.deepStrictEqual(told.slice(2), ["600000 AlertRaised e"])
      // The key that failed longest ago makes room, not the one that came first.
      yield* failed("f")
      yield* TestClock.adjust("4 minutes")
      yield* failed("e")
      yield* TestClock.adjust("2 minutes")
      yield* times(2, failed("g"))
      assert.strictEqual(told.at(-1), "960000 AlertRaised g")
    }).pipe(Effect.provide(layer))
  })

  it.effect("onAlert runs in order, and cannot block or change the caller", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const handled: Array<string> = []
      const { told, layer } = telling({
        failures: 1,
        onAlert: (alert) => {
          if (alert.key === "bad") throw new Error("boom")
          return Effect.andThen(
            Deferred.await(gate),
            Effect.sync(() => void handled.push(`${alert._tag} ${alert.key}`))
          )
        }
      })
      yield* Effect.gen(function* () {
        yield* failed("bad")
        yield* failed("good")
        yield* TestClock.adjust("5 minutes")
        // The gate is still closed, but the events are published.
        assert.lengthOf(told, 4)
        assert.deepStrictEqual(handled, [])
        yield* Deferred.succeed(gate, undefined)
        yield* TestClock.adjust(0)
        assert.deepStrictEqual(handled, ["AlertRaised good", "AlertCleared good"])
      }).pipe(Effect.provide(layer))
    })
  )

  it("an invalid option is named in the error", () => {
    const wrong: ReadonlyArray<readonly [Alerts.Options, RegExp]> = [
      [{ failures: 0 }, /Alerts: failures must be an integer of at least 1, got 0/],
      [{ window: 0 }, /Alerts: window/],
      [{ clearBelow: 11 }, /Alerts: clearBelow must be an integer from 1 to 10, got 11/],
      [{ maxKeys: -1 }, /Alerts: maxKeys/]
    ]
    for (const [options, message] of wrong) {
      assert.throws(() => Effect.runSync(Effect.scoped(Layer.build(Alerts.layer(options)))), message)
    }
  })
})

describe("AlertWindow", () => {
  it("agrees with counting all failures of the fullest witness, millisecond by millisecond", () => {
    const witnesses = ["circuit", "name"]
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.nat(4),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 30 }), fc.constantFrom(...witnesses)), { maxLength: 40 }),
        (failures, lower, gaps) => {
          const spec = { failures, window: 50, clearBelow: Math.max(1, failures - lower) }
          const all: Array<readonly [number, string]> = []
          let raised = false
          let state = AlertWindow.empty
          let now = 0
          const live = () =>
            Math.max(
              ...witnesses.map((witness) => all.filter(([at, by]) => by === witness && now - at < 50).length)
            )
          const pass = (gap: number) => {
            for (const end = now + gap; now < end;) {
              now += 1
              const due = AlertWindow.clearAt(spec, state) <= now
              const [transition, next] = AlertWindow.step(spec, state, "Woke", now)
              const clears = raised && live() < spec.clearBelow
              assert.strictEqual(transition, clears ? "Cleared" : undefined)
              assert.strictEqual(due, clears)
              if (clears) raised = false
              state = next
            }
          }
          for (const [gap, witness] of gaps) {
            pass(gap)
            all.push([now, witness])
            const [transition, next] = AlertWindow.step(spec, state, "Failed", now, witness)
            assert.strictEqual(transition, !raised && live() >= failures ? "Raised" : undefined)
            if (transition === "Raised") raised = true
            state = next
            for (const times of state.times.values()) assert.isAtMost(times.length, failures)
          }
          pass(120)
          assert.isFalse(raised)
          assert.isTrue(AlertWindow.isForgotten(spec, state, now))
        }
      )
    )
  })
})
