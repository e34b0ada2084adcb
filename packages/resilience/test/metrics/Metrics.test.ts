import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Metric } from "effect"
import { TestClock } from "effect/testing"
import { Alerts, ConnectionMonitor, Metrics, ResilienceEvents } from "@outlast/resilience"
import { series, without } from "../telemetry/support.ts"

const publish = (_tag: string, rest: object = {}) =>
  ResilienceEvents.publish({ _tag, at: 0, ...rest } as ResilienceEvents.ResilienceEvent)

/** Runs a program with separate metrics. */
const counting = <A, E>(program: Effect.Effect<A, E>, layer: Layer.Layer<never> = Metrics.layer()) =>
  program.pipe(
    Effect.provide(Layer.provideMerge(layer, ResilienceEvents.layer())),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )

describe("Metrics", () => {
  it.effect("counts retries, their outcomes, and the attempts of each call", () =>
    counting(
      Effect.gen(function* () {
        yield* publish("Retrying", { name: "mail", attempt: 1, delay: 10 })
        yield* publish("Retrying", { name: "mail", attempt: 2, delay: 10 })
        yield* publish("Retrying", { attempt: 1 })
        yield* publish("Retrying", { attempt: 1, because: "refused" })
        yield* publish("RetriesExhausted", { name: "mail", attempts: 3 })
        yield* publish("RetrySucceeded", { attempts: 0 })
        yield* publish("SomebodyElsesCall", { attempts: 1 })
        assert.deepStrictEqual(without(yield* series, "outlast_events"), {
          "outlast_retries_total{name=mail}": 2,
          outlast_retries_total: 1,
          "outlast_retries_exhausted_total{name=mail}": 1,
          outlast_attempts_per_call: 2
        })
        const { buckets, sum } = yield* Metric.value(Metrics.attemptsPerCall)
        assert.strictEqual(sum, 4)
        assert.deepStrictEqual(buckets.slice(0, 3), [
          [1, 1],
          [2, 1],
          [3, 2]
        ])
      })
    )
  )

  it.effect("has a circuit's state and counts its transitions", () =>
    counting(
      Effect.gen(function* () {
        yield* publish("CircuitTransition", { circuit: "api", from: "closed", to: "open", generation: 1 })
        yield* publish("CircuitTransition", { circuit: "api", from: "open", to: "half-open", generation: 2 })
        yield* publish("CircuitTransition", { name: "db", from: "closed", to: "isolated", generation: 1 })
        yield* publish("CircuitTransition", { circuit: "odd", from: "x", to: "y" })
        assert.deepStrictEqual(without(yield* series, "outlast_events"), {
          "outlast_circuit_transitions_total{circuit=api,from=closed,to=open}": 1,
          "outlast_circuit_transitions_total{circuit=api,from=open,to=half-open}": 1,
          "outlast_circuit_transitions_total{circuit=db,from=closed,to=isolated}": 1,
          "outlast_circuit_transitions_total{circuit=odd,from=other,to=other}": 1,
          "outlast_circuit_state{circuit=api}": 1,
          "outlast_circuit_state{circuit=db}": 3
        })
      })
    )
  )

  it.effect("counts the calls that circuits refused, by reason", () =>
    counting(
      Effect.gen(function* () {
        yield* publish("CircuitRefusal", { circuit: "api", reason: "open", retryAfter: 10 })
        yield* publish("CircuitRefusal", { circuit: "api", reason: "open" })
        yield* publish("CircuitRefusal", { circuit: "api", reason: "half-open" })
        yield* publish("CircuitRefusal", { circuit: "api", reason: "a reason of somebody else" })
        yield* publish("CircuitRefusal", { reason: "open" })
        assert.deepStrictEqual(without(yield* series, "outlast_events"), {
          "outlast_circuit_refusals_total{circuit=api,reason=open}": 2,
          "outlast_circuit_refusals_total{circuit=api,reason=half-open}": 1,
          "outlast_circuit_refusals_total{circuit=api,reason=other}": 1
        })
      })
    )
  )

  it.effect("counts every event of any package, and accepts missing fields", () =>
    counting(
      Effect.gen(function* () {
        for (const tag of [
          "TargetSwitched",
          "TargetSwitched",
          "CircuitTransition",
          "HealthChanged",
          "SessionDied"
        ]) {
          yield* publish(tag)
        }
        yield* publish("RetriesExhausted", { name: 7, attempts: "many" })
        assert.deepStrictEqual(yield* series, {
          "outlast_events_total{event=TargetSwitched}": 2,
          "outlast_events_total{event=CircuitTransition}": 1,
          "outlast_events_total{event=HealthChanged}": 1,
          "outlast_events_total{event=SessionDied}": 1,
          "outlast_events_total{event=RetriesExhausted}": 1,
          outlast_retries_exhausted_total: 1
        })
      })
    )
  )

  it.effect("reads the events of the monitor and of the alerts, in either order of layers", () => {
    const program = Effect.gen(function* () {
      const monitor = yield* ConnectionMonitor.make()
      for (let i = 0; i < 3; i++) yield* monitor.record("api", "failure")
      yield* monitor.died("tab", "closed")
      yield* TestClock.adjust(0)
      const raised = without(yield* series, "outlast_events")
      yield* TestClock.adjust("5 minutes")
      return [raised, without(yield* series, "outlast_events")]
    })
    const expected = [
      {
        "outlast_connection_state{connection=api}": 1,
        "outlast_connection_state{connection=tab}": 2,
        "outlast_alerts_total{alert=api}": 1,
        "outlast_alerts_total{alert=tab}": 1,
        "outlast_alert_raised{alert=api}": 1,
        "outlast_alert_raised{alert=tab}": 1
      },
      {
        "outlast_connection_state{connection=api}": 1,
        "outlast_connection_state{connection=tab}": 2,
        "outlast_alerts_total{alert=api}": 1,
        "outlast_alerts_total{alert=tab}": 1,
        "outlast_alert_raised{alert=api}": 0,
        "outlast_alert_raised{alert=tab}": 0
      }
    ]
    const alerts = Alerts.layer({ failures: 1 })
    return Effect.gen(function* () {
      assert.deepStrictEqual(yield* counting(program, Layer.provideMerge(Metrics.layer(), alerts)), expected)
      assert.deepStrictEqual(yield* counting(program, Layer.provideMerge(alerts, Metrics.layer())), expected)
    })
  })

  it.effect("limits labels: further names are `other`, and have no state", () =>
    counting(
      Effect.gen(function* () {
        for (const circuit of ["a", "b", "c", "d", "a"]) {
          yield* publish("CircuitTransition", { circuit, from: "closed", to: "open" })
        }
        assert.deepStrictEqual(without(yield* series, "outlast_events"), {
          "outlast_circuit_transitions_total{circuit=a,from=closed,to=open}": 2,
          "outlast_circuit_transitions_total{circuit=b,from=closed,to=open}": 1,
          "outlast_circuit_transitions_total{circuit=other,from=closed,to=open}": 2,
          "outlast_circuit_state{circuit=a}": 2,
          "outlast_circuit_state{circuit=b}": 2
        })
      }),
      Metrics.layer({ maxLabels: 2 })
    )
  )

  it("allows a thousand labels by default", () => {
    const label = Metrics.bounded()
    const labels = new Set(Array.from({ length: 5_000 }, (_, i) => label(`name ${i}`)))
    assert.strictEqual(labels.size, 1_001)
    assert.strictEqual(label("name 999"), "name 999")
    assert.strictEqual(label("name 1000"), "other")
    assert.throws(() => Metrics.bounded(0), /Metrics: maxLabels must be an integer of at least 1, got 0/)
  })

  it.effect("the events that end a call can be chosen", () =>
    counting(
      Effect.gen(function* () {
        yield* publish("CallSucceeded", { attempt: 3 })
        assert.strictEqual((yield* Metric.value(Metrics.attemptsPerCall)).sum, 3)
      }),
      Metrics.layer({ attemptsOf: (event) => ("attempt" in event ? Number(event.attempt) : undefined) })
    )
  )

  it.effect("loses no event, however fast they come", () =>
    counting(
      Effect.gen(function* () {
        yield* Effect.repeat(publish("Retrying"), { times: 9_999 })
        assert.strictEqual((yield* Metric.value(Metrics.retries)).count, 10_000)
      })
    )
  )
})
