/** `Outlast.layerMetrics`: one layer for all metrics. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Metric, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { PrometheusMetrics } from "effect/observability"
import { Agent, Failover, Outlast } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import { key, policy } from "../support.ts"

const Look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.Int }), success: Schema.String })
const Kit = Toolkit.make(Look)

/** The metrics of a run that a guard stops at its second tool call. */
const counted = (telemetry: Layer.Layer<never>) =>
  Effect.gen(function* () {
    const model = yield* ScriptedModel.make({
      provider: "anthropic",
      model: "m",
      keys: [key("A")],
      plan: { answers: ({ turn }) => ({ toolCalls: [{ name: "look", params: { at: turn } }] }) }
    })
    return yield* Effect.gen(function* () {
      const { status } = yield* Agent.run({ prompt: "go", toolkit: Kit, limits: { toolCalls: 2 } })
      assert.strictEqual(status, "guard_stopped")
      return (yield* PrometheusMetrics.format()).split("\n").filter((line) => line.startsWith("outlast_"))
    }).pipe(
      Effect.provide(
        Layer.mergeAll(
          Kit.toLayer({ look: ({ at }) => Effect.succeed(`page ${at}`) }),
          Failover.layer([model], { policy })
        ).pipe(Layer.provideMerge(telemetry))
      )
    )
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

it.effect.each([
  ["without a layer of events", Outlast.layerMetrics()],
  ["over a layer of events", Outlast.layerMetrics().pipe(Layer.provideMerge(ResilienceEvents.layer()))]
] as const)("counts calls, tools, transitions and every event once, %s", ([, telemetry]) =>
  Effect.gen(function* () {
    const lines = yield* counted(telemetry)
    const value = (start: string) =>
      Number(
        lines
          .find((line) => line.startsWith(start))
          ?.split(" ")
          .at(-1)
      )
    const calls = value('outlast_calls_total{outcome="answered"}')
    assert.isAbove(calls, 0)
    assert.strictEqual(value('outlast_events_total{event="CallSucceeded"}'), calls)
    assert.strictEqual(value("outlast_attempts_total{"), calls)
    assert.strictEqual(value('outlast_tool_calls_total{outcome="succeeded"}'), 2)
    assert.strictEqual(value("outlast_tool_seconds_count"), 2)
    assert.strictEqual(value('outlast_run_transitions_total{transition="guard_stopped"}'), 1)
  })
)

it.effect("keeps as many values of a label as it is told", () =>
  Effect.gen(function* () {
    const lines = yield* counted(Outlast.layerMetrics({ maxLabels: 1 }))
    assert.isTrue(lines.some((line) => line.startsWith('outlast_events_total{event="other"}')))
  })
)
