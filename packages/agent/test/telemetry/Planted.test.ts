/**
 * Logs, spans, metrics and events of runs under random faults: each retry has a line that explains it, and nothing has a
 * planted secret. The provider quotes the key and the prompt in its errors.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Metric, Redacted, References, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { PrometheusMetrics } from "effect/observability"
import * as fc from "fast-check"
import { Agent, Failover, FailoverMetrics, KeySource, Outlast } from "@outlast/agent"
import type { FailoverEvent } from "@outlast/agent"
import { Alerts, Metrics, ResilienceEvents } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import { inTime, policy } from "../support.ts"
import { tracing } from "./tracing.ts"

const planted = {
  key: "Plant3d-K3y-Zx9Qw8Er7Ty6",
  prompt: "planted-prompt-the-merger-is-on-friday",
  argument: "planted-argument-4711",
  result: "planted-result-0815",
  answer: "planted-answer-1234"
}

const Look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.String }), success: Schema.String })
const Kit = Toolkit.make(Look)
const KitLive = Kit.toLayer({ look: () => Effect.succeed(planted.result) })

/** What providers quote: the key and the request. */
const quoting = `Incorrect API key provided: ${planted.key}. Your request was "${planted.prompt}".`

const fault: fc.Arbitrary<FaultPlan.Fault> = fc.oneof(
  fc.record({
    type: fc.constant("status" as const),
    status: fc.constantFrom(400, 401, 402, 404, 413, 429, 500, 503, 529),
    headers: fc.constantFrom({}, { "retry-after": "2" }),
    body: fc.constantFrom(
      quoting,
      { type: "error", error: { type: "api_error", message: quoting } },
      { error: { code: quoting, message: quoting, param: planted.key } }
    )
  }),
  fc.constant({ type: "reset" as const }),
  fc.record({ type: fc.constant("cut" as const), after: fc.constantFrom(0, 1) }),
  fc.record({
    type: fc.constant("stream-error" as const),
    after: fc.constantFrom(0, 1),
    error: fc.constant({ type: "overloaded_error", message: quoting })
  }),
  fc.constant({ type: "garbage" as const, body: { login: quoting } }),
  fc.constant({ type: "finish" as const, reason: "length" as const, after: 1 })
)

const world = fc.record({
  faults: fc.array(fc.record({ fault, times: fc.constantFrom(1, 2) }), { maxLength: 5 }),
  streams: fc.boolean()
})

/** Everything that a run under these faults gives to logs, exporters and listeners. */
const observed = ({
  faults,
  streams
}: {
  readonly faults: ReadonlyArray<FaultPlan.Step>
  readonly streams: boolean
}) =>
  Effect.gen(function* () {
    const { layer, text } = tracing()
    const lines: Array<string> = []
    const events: Array<FailoverEvent.FailoverEvent> = []
    const logger = Logger.make((line) => lines.push(Logger.formatJson.log(line)))
    const target = (provider: string, name: string, faults: ReadonlyArray<FaultPlan.Step>) =>
      ScriptedModel.make({
        provider,
        model: `${provider}-model`,
        endpoint: `https://${provider}.example/v1`,
        keys: [KeySource.value(name, Redacted.make(planted.key))],
        plan: {
          faults,
          answers: [
            { toolCalls: [{ name: "look", params: { at: planted.argument } }] },
            { text: planted.answer }
          ]
        }
      })
    const chain = Failover.layer(
      [yield* target("anthropic", "KEY_A", faults), yield* target("openai", "KEY_B", faults.slice(1))],
      { policy }
    )
    const options = { prompt: planted.prompt, toolkit: Kit }
    const run = streams ? Stream.runDrain(Agent.stream(options)) : Agent.run(options)
    return yield* Effect.gen(function* () {
      const exit = yield* Effect.exit(run)
      if (exit._tag === "Failure") yield* Effect.logError("The run failed", exit.cause)
      return { lines, events, spans: text(), metrics: yield* PrometheusMetrics.format() }
    }).pipe(
      Effect.provide(
        Layer.mergeAll(KitLive, chain).pipe(
          Layer.provideMerge(Outlast.layerLog()),
          Layer.provideMerge(FailoverMetrics.layer()),
          Layer.provideMerge(Metrics.layer()),
          Layer.provideMerge(Alerts.layer({ failures: 2 })),
          Layer.provideMerge(
            ResilienceEvents.layerHandler((event) =>
              // The record is read by tag.
              Effect.sync(() => void events.push(event as FailoverEvent.FailoverEvent))
            )
          ),
          Layer.provideMerge(layer)
        )
      ),
      Effect.provideService(Metric.MetricRegistry, new Map()),
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(References.MinimumLogLevel, "Trace"),
      inTime
    )
  })

/** Reproduces a failure: `fc.sample` gives the same plans for the same seed. */
const plans = fc.sample(world, { seed: 20_261_123, numRuns: 50 })

describe("a run under random faults", () => {
  it.effect("puts no secret and no content into logs, spans, metrics and events", () =>
    Effect.gen(function* () {
      let failures = 0
      for (const plan of plans) {
        const { lines, events, spans, metrics } = yield* observed(plan)
        failures += events.filter(({ _tag }) => _tag === "AttemptFailed").length
        assert.include(metrics, "outlast_attempts_total")
        const places = { lines: lines.join("\n"), events: JSON.stringify(events), spans, metrics }
        for (const [place, text] of Object.entries(places)) {
          for (const [what, secret] of Object.entries(planted)) {
            assert.notInclude(text, secret, `${what} in ${place} of ${JSON.stringify(plan)}`)
          }
        }
      }
      assert.isAbove(failures, 80)
    })
  )

  it.effect("explains each retry in one line: target, delay, reason and evidence", () =>
    Effect.gen(function* () {
      let retries = 0
      let waits = 0
      for (const plan of plans) {
        const { lines, events } = yield* observed(plan)
        const texts = lines.map((line) => String((JSON.parse(line) as { readonly message: unknown }).message))
        for (const event of events) {
          if (event._tag === "AttemptStarted" && event.after !== undefined) {
            retries++
            const { target, attempt, waited, after, status, rule } = event
            const http = status === undefined ? "" : `HTTP ${status}, `
            const seconds = (waited / 1_000).toFixed(waited < 10_000 ? 1 : 0)
            const line = `→ ${target.id}, attempt ${attempt} after ${seconds} s: ${after} (${http}rule ${rule})`
            assert.include(texts, line)
          }
          if (event._tag === "CallWaiting") {
            waits++
            assert.isTrue(
              texts.some((text) => text.startsWith("… waiting") && text.includes(event.target.id))
            )
          }
        }
        const explained = texts.filter((text) => /^→ .*, attempt \d+ after /.test(text))
        const made = events.filter((event) => event._tag === "AttemptStarted" && event.after !== undefined)
        assert.strictEqual(explained.length, made.length)
      }
      assert.isAbove(retries, 50)
      assert.isAbove(waits, 20)
    })
  )
})
