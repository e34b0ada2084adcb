/** Metrics and alerts of what the real breaker, retry and monitor publish, alone and around each other. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Metric } from "effect"
import { TestClock } from "effect/testing"
import {
  Alerts,
  Backoff,
  CircuitBreaker,
  ConnectionMonitor,
  Metrics,
  ResilienceEvents,
  Retry
} from "@outlast/resilience"
import { series, without } from "./support.ts"

/** A breaker that never opens, so that every call is made. */
const closed: CircuitBreaker.Options = { trip: { consecutive: { failures: 1_000_000 } } }
const again = { classify: () => Retry.again(), backoff: Backoff.constant("1 second") }
const down = Effect.fail("down" as const)

type Services = CircuitBreaker.CircuitBreaker | ConnectionMonitor.ConnectionMonitor

/** Runs a program with all services, and returns the alerts published meanwhile, as `time tag key`. */
const alerting = (
  program: (alerts: ReadonlyArray<string>) => Effect.Effect<void, unknown, Services>,
  breaker: CircuitBreaker.Options = closed,
  alerts: Alerts.Options = {}
) => {
  const told: Array<string> = []
  const telling = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      if ("key" in event) told.push(`${event.at} ${event._tag} ${String(event.key)}`)
    })
  )
  const layer = Layer.mergeAll(CircuitBreaker.layer(breaker), ConnectionMonitor.layer()).pipe(
    Layer.provideMerge(
      Alerts.layer(alerts).pipe(Layer.provideMerge(Metrics.layer()), Layer.provideMerge(telling))
    )
  )
  return Effect.suspend(() => program(told)).pipe(
    Effect.provide(layer),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )
}

/** Runs calls one after the other. */
const calls = <E, R>(count: number, call: Effect.Effect<unknown, E, R>) =>
  Effect.gen(function* () {
    for (let i = 0; i < count; i++) {
      const fiber = yield* Effect.forkChild(Effect.exit(call), { startImmediately: true })
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(fiber)
    }
  })

describe("alerts", () => {
  const alone: Readonly<Record<string, Effect.Effect<unknown, unknown, Services>>> = {
    "a breaker alone": CircuitBreaker.execute("api")(down),
    // Unhealthy from the third failure on, the monitor lets one call through in ten seconds.
    "guard alone": Effect.flatMap(ConnectionMonitor.ConnectionMonitor, (monitor) =>
      monitor.guard("api")(down)
    ),
    "record alone": Effect.flatMap(ConnectionMonitor.ConnectionMonitor, (monitor) =>
      monitor.record("api", "failure")
    ),
    "a retry alone": Retry.with({ ...again, name: "api" })(down),
    "a call that is not made again": Retry.with({ classify: () => Retry.stop, name: "api" })(down)
  }
  for (const [name, call] of Object.entries(alone)) {
    it.effect(`${name}: ten failures in five minutes raise one alert, which clears once`, () =>
      alerting((told) =>
        Effect.gen(function* () {
          yield* calls(9, call)
          assert.deepStrictEqual(told, [])
          yield* calls(1, call)
          assert.lengthOf(told, 1)
          yield* TestClock.adjust("1 hour")
          assert.lengthOf(told, 2)
          assert.match(told.join(), /^\d+ AlertRaised api,\d+ AlertCleared api$/)
        })
      )
    )
  }

  it.effect(
    "an open circuit lets few failures through: raised at the fifth, kept while its probes fail",
    () =>
      alerting(
        (told) =>
          Effect.gen(function* () {
            const breaker = yield* CircuitBreaker.CircuitBreaker
            yield* calls(60, breaker.execute("api")(down))
            assert.lengthOf(told, 1)
            yield* TestClock.adjust("1 hour")
            assert.lengthOf(told, 2)
          }),
        {},
        { failures: 5, clearBelow: 1 }
      )
  )

  it.effect("guard: failures of concurrent calls count, later refusals do not", () =>
    alerting((told) =>
      Effect.gen(function* () {
        const monitor = yield* ConnectionMonitor.ConnectionMonitor
        const failing = (count: number) =>
          Effect.all(
            Array.from({ length: count }, () =>
              Effect.exit(monitor.guard("api")(Effect.andThen(Effect.yieldNow, down)))
            ),
            { concurrency: "unbounded" }
          )
        yield* failing(9)
        assert.deepStrictEqual(told, [])
        yield* monitor.record("api", "failure")
        assert.deepStrictEqual(told, ["0 AlertRaised api"])
        // Refused, and therefore not failures.
        yield* failing(50)
        yield* TestClock.adjust("1 hour")
        assert.deepStrictEqual(told, ["0 AlertRaised api", "300000 AlertCleared api"])
      })
    )
  )

  it.effect(
    "guard in a retry around a circuit, all of one name: each failure counts once, and alerts once",
    () =>
      alerting((told) =>
        Effect.gen(function* () {
          const monitor = yield* ConnectionMonitor.make({
            window: { unhealthyAt: 1, minimum: 1_000, size: 1_000 }
          })
          const call = monitor
            .guard("api")(down)
            .pipe(Retry.with({ ...again, name: "api", breaker: { circuit: "api" } }))
          // Three attempts each.
          yield* calls(3, call)
          assert.deepStrictEqual(told, [])
          yield* calls(1, call)
          assert.deepStrictEqual(told, ["30000 AlertRaised api"])
          yield* TestClock.adjust("1 hour")
          assert.lengthOf(told, 2)
        })
      )
  )

  it.effect("a call that succeeded after a retry has not failed", () =>
    alerting((told) =>
      Effect.gen(function* () {
        let attempts = 0
        const flaky = Effect.suspend(() => (++attempts % 2 === 0 ? Effect.void : down))
        yield* calls(20, Retry.with({ ...again, name: "api" })(flaky))
        assert.strictEqual(attempts, 40)
        assert.deepStrictEqual(told, [])
      })
    )
  )

  it.effect("calls refused by a circuit are not failures", () =>
    alerting((told) =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        yield* breaker.trip("api", "1 hour")
        yield* calls(20, breaker.execute("api")(down))
        yield* calls(20, Retry.with({ ...again, breaker: { circuit: "api" } })(down))
        const patient = { circuit: "api", whenRefused: "wait" } as const
        yield* calls(20, Retry.with({ ...again, deadline: "1 minute", breaker: patient })(down))
        assert.deepStrictEqual(told, [])
      })
    )
  )
})

describe("metrics", () => {
  it.effect("count attempts of real calls, including calls that a circuit ends", () =>
    alerting(
      () =>
        Effect.gen(function* () {
          let attempts = 0
          const third = Effect.suspend(() => (++attempts < 3 ? down : Effect.void))
          yield* calls(1, Retry.with({ ...again, name: "mail" })(third))
          yield* calls(1, Retry.with({ ...again, name: "mail" })(down))
          // The second attempt opens the circuit, so there is no third.
          yield* calls(2, Retry.with({ ...again, name: "api", breaker: { circuit: "api" } })(down))
          assert.deepStrictEqual(without(yield* series, "outlast_events"), {
            "outlast_retries_total{name=mail}": 4,
            "outlast_retries_total{name=api}": 2,
            "outlast_retries_exhausted_total{name=mail}": 1,
            "outlast_retries_exhausted_total{name=api}": 2,
            outlast_attempts_per_call: 3,
            "outlast_circuit_state{circuit=api}": 2,
            "outlast_circuit_transitions_total{circuit=api,from=closed,to=open}": 1,
            "outlast_circuit_refusals_total{circuit=api,reason=open}": 2
          })
          const { sum } = yield* Metric.value(Metrics.attemptsPerCall)
          assert.strictEqual(sum, 3 + 3 + 2)
        }),
      { trip: { consecutive: { failures: 2 } }, open: Backoff.constant("1 hour") }
    )
  )

  it.effect("keep the state of a circuit through ten thousand refusals", () =>
    alerting(
      () =>
        Effect.gen(function* () {
          const breaker = yield* CircuitBreaker.CircuitBreaker
          const last = yield* Deferred.make<void>()
          yield* ResilienceEvents.tap((event) =>
            "circuit" in event && event.circuit === "last" ? Deferred.succeed(last, undefined) : Effect.void
          )
          const call = Effect.exit(breaker.execute("api")(down))
          yield* Effect.forEach(Array.from({ length: 10_000 }), () => call, {
            concurrency: "unbounded",
            discard: true
          })
          // Events come in order, so all earlier ones have been read or dropped.
          yield* breaker.trip("last")
          yield* Deferred.await(last)
          const all = yield* series
          assert.strictEqual(all["outlast_circuit_state{circuit=api}"], 2)
          assert.strictEqual(all["outlast_circuit_transitions_total{circuit=api,from=closed,to=open}"], 1)
        }).pipe(Effect.scoped),
      {}
    )
  )
})
