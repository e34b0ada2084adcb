/** DECISION_037's configuration: as the document writes it, its switch, its overrides, and the effect of each field. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Logger, Result } from "effect"
import { LanguageModel } from "effect/ai"
import { Presets } from "@outlast/agent"
import { Decision037Config } from "@outlast/agent/config"
import { Alerts, CircuitBreaker, ConnectionMonitor } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel, Timeline, Timing } from "@outlast/testing"

/** The schema of the document, with its defaults written out. */
const document = {
  retry: { maxNetworkRetries: 5, baseDelayMs: 1000, maxDelayMs: 30000, jitterPercent: 0.2 },
  circuitBreaker: { failureThreshold: 5, cooldownMs: 300000, healthProbeEnabled: true },
  taskRestart: { maxRestarts: 3, restartBackoffBaseMs: 60000 },
  healthCheck: { pingIntervalMs: 30000, unhealthyThreshold: 0.5 },
  visibility: { logRetries: true, alertThreshold: 10 }
}
const on = { enableNetworkResilience: true }

const decoded = (input: unknown) => Result.getOrThrow(Decision037Config.decode(input))
const ask = LanguageModel.generateText({ prompt: "?" })
const reset: FaultPlan.Step = { times: "always", fault: { type: "reset" } }
const scripted = (faults: ReadonlyArray<FaultPlan.Step>, provider = "anthropic") =>
  ScriptedModel.make({
    provider,
    model: "m",
    plan: { answers: [{ text: "Hello." }], faults },
    endpoint: provider
  })

const waitsOf = (config: unknown, faults: ReadonlyArray<FaultPlan.Step> = [reset]) =>
  Effect.gen(function* () {
    const model = yield* scripted(faults)
    const settings = config === undefined ? undefined : decoded(config)
    const timeline = yield* Timeline.record(
      Effect.ignore(ask).pipe(Effect.provide(Decision037Config.layer([model], settings)))
    )
    return Timing.waits(timeline).map(({ millis }) => millis)
  })

const exact = { jitterPercent: 0 }

describe("NetworkResilienceConfig", () => {
  it("accepts the document as it is written, and gives its preset", () => {
    const { rows, circuits, maxAttempts } = Decision037Config.policyOf(decoded(document))
    assert.deepStrictEqual(
      { rows, maxAttempts },
      {
        rows: Presets.decision037.policy.rows,
        maxAttempts: Presets.decision037.policy.maxAttempts
      }
    )
    assert.deepStrictEqual(circuits, {
      ...Presets.decision037.circuits,
      halfOpen: { successes: 1, permits: 1 }
    })
    assert.deepStrictEqual(Decision037Config.policyOf(decoded({})).rows, rows)
  })

  it("names the path of a problem", () => {
    const failed = Decision037Config.decode({ retry: { maxNetworkRetries: -1, maxRetries: 3 } })
    assert.deepStrictEqual(Result.isFailure(failed) && failed.failure.problems, [
      {
        path: "retry.maxRetries",
        problem: "is not a field. Fields: maxNetworkRetries, baseDelayMs, maxDelayMs, jitterPercent"
      },
      { path: "retry.maxNetworkRetries", problem: "expected a value between 0 and 1000" }
    ])
  })
})

describe("the feature switch", () => {
  it("is off without a configuration and by default, and each agent has its own", () => {
    const some = decoded({ agents: { oracle: on } })
    const all = decoded({ ...on, agents: { librarian: { enableNetworkResilience: false } } })
    const { isEnabled } = Decision037Config
    assert.deepStrictEqual(
      [
        isEnabled(undefined),
        isEnabled(decoded(document)),
        isEnabled(some),
        isEnabled(some, "oracle"),
        isEnabled(some, "x")
      ],
      [false, false, false, true, false]
    )
    assert.deepStrictEqual(
      [isEnabled(all), isEnabled(all, "librarian"), isEnabled(all, "x")],
      [true, false, true]
    )
  })

  it.effect("off or without a configuration, ten repeats follow at 500 ms, as before", () =>
    Effect.gen(function* () {
      const legacy = Array.from({ length: 10 }, () => 500)
      assert.deepStrictEqual(yield* waitsOf(undefined), legacy)
      assert.deepStrictEqual(yield* waitsOf(document), legacy)
      assert.deepStrictEqual(yield* waitsOf({ ...on, retry: exact }), [1_000, 2_000, 4_000, 8_000, 16_000])
    })
  )

  it.effect("agents of one configuration behave differently", () =>
    Effect.gen(function* () {
      const config = decoded({ agents: { oracle: on }, retry: exact })
      const attempts = (agent: string) =>
        Effect.gen(function* () {
          const model = yield* scripted([reset])
          const layer = Decision037Config.layer([model], config, { agent })
          yield* Timeline.record(Effect.ignore(Effect.provide(ask, layer)))
          return (yield* model.requests).length
        })
      assert.deepStrictEqual([yield* attempts("oracle"), yield* attempts("librarian")], [6, 11])
    })
  )
})

describe("each field has its effect", () => {
  it.effect("retry", () =>
    Effect.gen(function* () {
      assert.lengthOf(yield* waitsOf({ ...on, retry: { maxNetworkRetries: 2 } }), 2)
      assert.deepStrictEqual(
        yield* waitsOf({ ...on, retry: { ...exact, baseDelayMs: 100, maxDelayMs: 300 } }),
        [100, 200, 300, 300, 300]
      )
      const jittered = yield* waitsOf({ ...on, retry: { jitterPercent: 0.5 } })
      assert.notStrictEqual(jittered[0], 1_000)
      assert.isTrue((jittered[0] ?? 0) >= 500 && (jittered[0] ?? 0) <= 1_500)
    })
  )

  it.effect("circuitBreaker", () =>
    Effect.gen(function* () {
      const { circuits } = Decision037Config.policyOf(
        decoded({ circuitBreaker: { failureThreshold: 2, cooldownMs: 60_000 } })
      )
      const breaker = yield* CircuitBreaker.make(circuits === false ? {} : circuits)
      const fails = Effect.ignore(breaker.execute("e")(Effect.fail("down")))
      yield* fails
      assert.strictEqual((yield* breaker.state("e")).phase, "closed")
      yield* fails
      const state = yield* breaker.state("e")
      assert.strictEqual(state.phase, "open")
      const probes = (healthProbeEnabled: boolean) => {
        const { circuits } = Decision037Config.policyOf(decoded({ circuitBreaker: { healthProbeEnabled } }))
        return circuits === false ? undefined : circuits.halfOpen?.permits
      }
      assert.deepStrictEqual([probes(true), probes(false)], [1, 1_000])
    })
  )

  it.effect("taskRestart: network failures restart the task, other failures do not", () =>
    Effect.gen(function* () {
      const config = decoded({ taskRestart: { maxRestarts: 2, restartBackoffBaseMs: 60_000 } })
      const restarts = (faults: ReadonlyArray<FaultPlan.Step>) =>
        Effect.gen(function* () {
          const model = yield* scripted(faults)
          const task = ask.pipe(
            Effect.provide(
              Decision037Config.layer([model], decoded({ ...on, retry: { maxNetworkRetries: 0 } }))
            )
          )
          const timeline = yield* Timeline.record(Effect.ignore(Decision037Config.restarting(config)(task)), {
            only: ["Retrying"]
          })
          return Timing.waits(timeline).map(({ millis }) => millis)
        })
      assert.deepStrictEqual(yield* restarts([reset]), [60_000, 120_000])
      assert.deepStrictEqual(
        yield* restarts([{ times: "always", fault: { type: "status", status: 401 } }]),
        []
      )
    })
  )

  it.effect("healthCheck", () =>
    Effect.gen(function* () {
      const options = Decision037Config.monitorOf(
        decoded({ healthCheck: { pingIntervalMs: 7_000, unhealthyThreshold: 0.9 } })
      )
      assert.strictEqual(options.interval, 7_000)
      const health = (options: ConnectionMonitor.Options) =>
        Effect.gen(function* () {
          const monitor = yield* ConnectionMonitor.make(options)
          for (const outcome of ["success", "failure", "failure"] as const)
            yield* monitor.record("c", outcome)
          return (yield* monitor.status("c")).health
        })
      assert.deepStrictEqual(
        [yield* health(options), yield* health(Decision037Config.monitorOf(decoded({})))],
        ["healthy", "unhealthy"]
      )
    })
  )

  it.effect("visibility", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(Decision037Config.alertsOf(decoded({ visibility: { alertThreshold: 4 } })), {
        failures: 4,
        window: "5 minutes"
      })
      assert.isDefined(Alerts.layer(Decision037Config.alertsOf(decoded({}))))
      const logged = (logRetries: boolean) =>
        Effect.gen(function* () {
          const lines: Array<string> = []
          const logger = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
          const model = yield* scripted([{ times: 1, fault: { type: "reset" } }])
          const config = decoded({ ...on, retry: exact, visibility: { logRetries } })
          yield* Timeline.record(
            ask.pipe(Effect.provide(Decision037Config.layer([model], config)), Effect.provide(logger))
          )
          return lines
        })
      assert.deepStrictEqual(yield* logged(true), ["Retry of anthropic/m after Network, in 1000 ms."])
      assert.deepStrictEqual(yield* logged(false), [])
    })
  )

  it.effect("manualOverrides hold a circuit open, and close one that is stuck open", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make(Presets.decision037.circuits)
      const asked = (manualOverrides: unknown) =>
        Effect.gen(function* () {
          const first = yield* scripted([])
          const second = yield* scripted([], "openai")
          const config = decoded({ ...on, manualOverrides })
          const layer = Decision037Config.layer([first, second], config, { breaker })
          yield* Effect.provide(ask, layer)
          return [(yield* first.requests).length, (yield* second.requests).length]
        })
      assert.deepStrictEqual(yield* asked({}), [1, 0])
      assert.deepStrictEqual(yield* asked({ anthropic: "open" }), [0, 1])
      yield* breaker.trip("anthropic", Duration.hours(1))
      assert.deepStrictEqual(yield* asked({}), [0, 1])
      assert.deepStrictEqual(yield* asked({ anthropic: "closed" }), [1, 0])
    })
  )
})
