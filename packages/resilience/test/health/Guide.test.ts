/** The examples of docs/do/health.md. They are type-checked and run here, and the document contains them line by line. */
import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Console, Effect, Layer, Metric } from "effect"
import { TestClock } from "effect/testing"
import { Alerts, ConnectionMonitor, HealthWindow, Metrics, ResilienceEvents } from "@outlast/resilience"

const call = Effect.succeed("answer")
const ping = Effect.sleep("40 millis")
const tab = { isClosed: () => false, onClose: (_listener: () => void) => undefined }

describe("docs/do/health.md", () => {
  it.effect("an endpoint", () => {
    const program = Effect.gen(function* () {
      const monitor = yield* ConnectionMonitor.ConnectionMonitor
      yield* monitor.register("api.example.com", { ping })
      return yield* monitor.guard("api.example.com")(call)
    })

    const main = program.pipe(Effect.scoped, Effect.provide(ConnectionMonitor.layer()))
    return Effect.tap(main, (answer) => Effect.sync(() => assert.strictEqual(answer, "answer")))
  })

  it.effect("a session", () => {
    const program = Effect.gen(function* () {
      const monitor = yield* ConnectionMonitor.ConnectionMonitor
      yield* monitor.register("tab 1", {
        probe: Effect.sync(() => (tab.isClosed() ? "dead" : "alive"))
      })
      // What tells of its end by itself need not be asked.
      tab.onClose(() => Effect.runFork(monitor.died("tab 1", "closed")))
      return yield* monitor
        .guard(["tab 1", "api.example.com"])(call)
        .pipe(
          Effect.catchTag("SessionDead", () => Effect.succeed("open a new tab")),
          Effect.catchTag("Unhealthy", ({ connection }) =>
            Effect.andThen(monitor.awaitHealthy(connection), Effect.succeed("call again"))
          )
        )
    })
    return program.pipe(
      Effect.scoped,
      Effect.provide(ConnectionMonitor.layer()),
      Effect.tap((answer) => Effect.sync(() => assert.strictEqual(answer, "answer")))
    )
  })

  it.effect("telemetry", () => {
    const Telemetry = Alerts.layer({ onAlert: (alert) => Console.error(`${alert._tag}: ${alert.key}`) }).pipe(
      Layer.provideMerge(Metrics.layer()),
      Layer.provideMerge(ResilienceEvents.layer())
    )
    return Effect.gen(function* () {
      yield* ResilienceEvents.publish({ _tag: "Retrying", at: 0 })
      assert.strictEqual((yield* Metric.value(Metrics.retries)).count, 1)
    }).pipe(Effect.provide(Telemetry), Effect.provideService(Metric.MetricRegistry, new Map()))
  })

  it.effect("custom metrics", () => {
    const deliveries = Metric.counter("deliveries_total", { incremental: true })

    const DeliveryMetrics = ResilienceEvents.layerTap(
      Effect.sync(() => {
        const subject = Metrics.bounded()
        return (event) =>
          event._tag === "Delivered" && "subject" in event
            ? Metric.update(Metric.withAttributes(deliveries, { subject: subject(String(event.subject)) }), 1)
            : Effect.void
      })
    )
    const delivered = { _tag: "Delivered", at: 0, subject: "mail" }
    return Effect.gen(function* () {
      yield* ResilienceEvents.publish(delivered)
      const counted = yield* Metric.value(Metric.withAttributes(deliveries, { subject: "mail" }))
      assert.strictEqual(counted.count, 1)
      yield* TestClock.adjust(0)
    }).pipe(Effect.provide(DeliveryMetrics), Effect.provideService(Metric.MetricRegistry, new Map()))
  })

  const text = readFileSync(new URL("../../../../docs/do/health.md", import.meta.url), "utf8")
  const own = linesOf(readFileSync(new URL(import.meta.url), "utf8"))

  it("has the examples of this file", () => {
    const blocks = [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => linesOf(match[1] ?? ""))
    assert.lengthOf(blocks, 4)
    for (const block of blocks) assert.include(own, block)
  })

  it("has the defaults of the code", () => {
    const { interval, timeout, cooldown, maxIdle, idleFor } = ConnectionMonitor.defaults
    const { span, size, minimum, unhealthyAt, recovery } = HealthWindow.defaults
    const rows = {
      interval,
      timeout,
      cooldown,
      maxIdle: maxIdle.toLocaleString("en"),
      idleFor,
      "window.span": span,
      "window.size": size,
      "window.minimum": minimum,
      "window.unhealthyAt": unhealthyAt,
      "window.recovery": recovery
    }
    for (const [option, value] of Object.entries(rows)) {
      assert.match(text, new RegExp(`\\| \`${option}\` +\\| ${value} +\\|`))
    }
    assert.include(text, `${Alerts.defaults.failures} failures in ${Alerts.defaults.window}`)
  })
})

/** Removes indentation, which differs, and empty lines. */
function linesOf(source: string): string {
  return source
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join("\n")
}
