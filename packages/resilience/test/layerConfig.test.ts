/** Layers whose settings come from the environment. */
import { assert, it } from "@effect/vitest"
import { Config, ConfigProvider, Duration, Effect, Layer } from "effect"
import { Alerts, CircuitBreaker, ConnectionMonitor, ResilienceEvents, RetryBudget } from "@outlast/resilience"

const env = (env: Readonly<Record<string, string>>) => ConfigProvider.layer(ConfigProvider.fromEnv({ env }))

it.effect("CircuitBreaker.layerConfig opens after the configured number of failures", () =>
  Effect.gen(function* () {
    const layer = CircuitBreaker.layerConfig({
      trip: { consecutive: Config.map(Config.Int("FAILURES"), (failures) => ({ failures })) }
    })
    const phases = (failures: string) =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        yield* Effect.ignore(breaker.execute("c")(Effect.fail("down")))
        return (yield* breaker.state("c")).phase
      }).pipe(Effect.provide(layer), Effect.provide(env({ FAILURES: failures })))
    assert.deepStrictEqual([yield* phases("1"), yield* phases("2")], ["open", "closed"])
    const missing = yield* Effect.flip(Layer.build(layer).pipe(Effect.scoped, Effect.provide(env({}))))
    assert.include(missing.message, "FAILURES")
  })
)

it.effect("ConnectionMonitor.layerConfig judges by the configured share", () =>
  Effect.gen(function* () {
    const layer = ConnectionMonitor.layerConfig({ window: { unhealthyAt: Config.Finite("SHARE") } })
    const health = (share: string) =>
      Effect.gen(function* () {
        const monitor = yield* ConnectionMonitor.ConnectionMonitor
        for (const outcome of ["success", "failure", "failure"] as const) yield* monitor.record("c", outcome)
        return (yield* monitor.status("c")).health
      }).pipe(Effect.provide(layer), Effect.provide(env({ SHARE: share })))
    assert.deepStrictEqual([yield* health("0.5"), yield* health("0.9")], ["unhealthy", "healthy"])
  })
)

it.effect("RetryBudget.layerConfig allows the configured burst", () =>
  Effect.gen(function* () {
    const layer = RetryBudget.layerConfig({
      ratio: Config.succeed(0),
      burst: Config.Int("BURST"),
      refillEvery: Config.Duration("REFILL")
    })
    const allowed = (burst: string) =>
      Effect.gen(function* () {
        const budget = yield* RetryBudget.RetryBudget
        const all = yield* Effect.forEach([1, 2, 3], () => budget.withdraw)
        return all.filter((one) => one).length
      }).pipe(Effect.provide(layer), Effect.provide(env({ BURST: burst, REFILL: "1 hour" })))
    assert.deepStrictEqual([yield* allowed("1"), yield* allowed("2")], [1, 2])
  })
)

it.effect("Alerts.layerConfig raises after the configured number of failures", () =>
  Effect.gen(function* () {
    const layer = Alerts.layerConfig({
      failures: Config.Int("FAILURES"),
      window: Config.map(Config.Int("MINUTES"), Duration.minutes)
    })
    const raised = (failures: string) =>
      Effect.gen(function* () {
        const seen: Array<string> = []
        const watch = ResilienceEvents.layerHandler(({ _tag }) => Effect.sync(() => void seen.push(_tag)))
        yield* Effect.forEach([1, 2], () =>
          ResilienceEvents.publishNow<{ readonly _tag: "CircuitFailure"; at: number; circuit: string }>({
            _tag: "CircuitFailure",
            circuit: "c"
          })
        ).pipe(
          Effect.provide(layer.pipe(Layer.provideMerge(watch))),
          Effect.provide(env({ FAILURES: failures, MINUTES: "5" }))
        )
        return seen.includes("AlertRaised")
      })
    assert.deepStrictEqual([yield* raised("2"), yield* raised("3")], [true, false])
  })
)
