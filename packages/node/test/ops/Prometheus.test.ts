/** The text format, read back by a strict parser. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import * as fc from "fast-check"
import * as Prometheus from "#node/ops/Prometheus"
import { parse } from "../support/strictPrometheus.ts"

const fresh = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.provideService(effect, Metric.MetricRegistry, new Map())

const encoded = (record: Effect.Effect<unknown>) =>
  fresh(
    Effect.andThen(
      record,
      Effect.map(Metric.snapshot, (snapshot) => Prometheus.encode(snapshot))
    )
  )

const value = (text: string, name: string) => parse(text).find((sample) => sample.name === name)?.value

describe("Prometheus", () => {
  it.effect("writes all kinds of metrics", () =>
    Effect.gen(function* () {
      const text = yield* encoded(
        Effect.gen(function* () {
          yield* Metric.update(
            Metric.counter("calls_total", { description: "Calls\nthat \\ ended", incremental: true }),
            3
          )
          yield* Metric.update(Metric.gauge("open"), -2)
          yield* Metric.update(Metric.frequency("words"), "a")
          const waits = Metric.histogram("wait_seconds", { boundaries: [0.1, 1, 10] })
          yield* Metric.update(waits, 0.5)
          yield* Metric.update(waits, 100)
          yield* Metric.update(
            Metric.summary("size", { maxAge: "1 minute", maxSize: 10, quantiles: [0.5, 0.99] }),
            7
          )
        })
      )
      assert.strictEqual(value(text, "calls_total"), 3)
      assert.strictEqual(value(text, "open"), -2)
      assert.deepStrictEqual(
        parse(text)
          .filter(({ name }) => name === "wait_seconds_bucket")
          .map(({ labels, value }) => [labels.get("le"), value]),
        [
          ["0.1", 0],
          ["1", 1],
          ["10", 1],
          ["+Inf", 2]
        ]
      )
      assert.strictEqual(value(text, "size_count"), 1)
      assert.include(text, "# HELP calls_total Calls\\nthat \\\\ ended\n# TYPE calls_total counter\n")
      // promtool wants a help text of every metric.
      assert.include(text, "# HELP wait_seconds wait seconds\n# TYPE wait_seconds histogram\n")
    })
  )

  it.effect("calls a counter that may fall a gauge", () =>
    Effect.gen(function* () {
      const text = yield* encoded(Metric.update(Metric.counter("backlog"), -3))
      assert.include(text, "# TYPE backlog gauge\nbacklog -3\n")
    })
  )

  it.effect("leaves out what would make Prometheus drop the scrape", () =>
    Effect.gen(function* () {
      const text = yield* encoded(
        Effect.gen(function* () {
          yield* Metric.update(Metric.counter("a.b", { incremental: true }), 1)
          yield* Metric.update(Metric.gauge("a-b"), 2)
          yield* Metric.update(Metric.gauge("a_b", { attributes: { "x.y": "1", "x-y": "2" } }), 3)
          yield* Metric.update(Metric.counter("c", { incremental: true, attributes: { "x.y": "1" } }), 4)
          yield* Metric.update(Metric.counter("c", { incremental: true, attributes: { "x-y": "1" } }), 5)
          yield* Metric.update(Metric.gauge("0 digits", { attributes: { "0": "first", __own: "2" } }), 6)
        })
      )
      const samples = parse(text)
      assert.deepStrictEqual(
        samples.map(({ name, value }) => [name, value]),
        [
          ["a_b", 1],
          ["c", 4],
          ["_0_digits", 6]
        ]
      )
    })
  )

  it("is valid for any name, label, text and number", () => {
    const name = fc.string({ minLength: 1, maxLength: 8, unit: "binary" })
    const sample = fc.record({
      id: fc.oneof(name, fc.constantFrom("a", "b")),
      type: fc.constantFrom("counter", "gauge", "histogram"),
      description: fc.string({ unit: "binary", maxLength: 12 }),
      attributes: fc.dictionary(name, fc.string({ unit: "binary", maxLength: 12 }), { maxKeys: 4 }),
      value: fc.double({ min: 0 })
    })
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 8 }), (samples) => {
        const record = Effect.forEach(samples, ({ attributes, description, id, type, value }) => {
          switch (type) {
            case "counter":
              return Metric.update(Metric.counter(id, { description, attributes, incremental: true }), value)
            case "gauge":
              return Metric.update(Metric.gauge(id, { description, attributes }), value)
            default:
              return Metric.update(
                Metric.histogram(id, { description, attributes, boundaries: [1, 2] }),
                value
              )
          }
        })
        const text = Effect.runSync(encoded(record))
        assert.doesNotThrow(() => parse(text))
      }),
      { numRuns: 50 }
    )
  })

  it("writes gauges of the process beside the metrics", () => {
    const text = Prometheus.encode([], [{ name: "up", help: "Up", value: 1, labels: { version: "1.0" } }])
    assert.strictEqual(text, '# HELP up Up\n# TYPE up gauge\nup{version="1.0"} 1\n')
  })
})
