/**
 * DECISION_037's configuration from a file: as the document writes it, the switch of each agent, overrides by hand, and
 * restarts. `test/seeds/decision037.test.ts` has the effect of each setting.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { LanguageModel } from "effect/ai"
import { Presets } from "@outlast/agent"
import { Decision037Config } from "@outlast/agent/config"
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
const off = { enableNetworkResilience: false }

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

const waitsOf = (config: unknown, agent?: string) =>
  Effect.gen(function* () {
    const model = yield* scripted([reset])
    const settings = config === undefined ? undefined : decoded(config)
    const timeline = yield* Timeline.record(
      Effect.ignore(ask).pipe(Effect.provide(Decision037Config.layer([model], settings, { agent })))
    )
    return Timing.waits(timeline).map(({ millis }) => millis)
  })

const exact = { retry: { jitterPercent: 0 } }
const five = [1_000, 2_000, 4_000, 8_000, 16_000]

it("accepts the document as it is written, and gives its preset", () => {
  assert.deepStrictEqual(decoded(document), Presets.decision037.defaults)
  assert.deepStrictEqual(decoded({}), Presets.decision037.defaults)
})

it("names the path of every problem, and the fields that exist", () => {
  const failed = Decision037Config.decode({
    retry: { maxNetworkRetries: -1, maxRetries: 3 },
    agents: { oracle: { enabled: true } }
  })
  assert.deepStrictEqual(Result.isFailure(failed) && failed.failure.problems, [
    {
      path: "retry.maxRetries",
      problem: "is not a field. Fields: maxNetworkRetries, baseDelayMs, maxDelayMs, jitterPercent"
    },
    { path: "retry.maxNetworkRetries", problem: "expected a value between 0 and 100" },
    { path: "agents.oracle.enabled", problem: "is not a field. Fields: enableNetworkResilience" },
    { path: "agents.oracle.enableNetworkResilience", problem: "is required" }
  ])
})

describe("the feature switch", () => {
  it("is off without a configuration and by default, and each agent has its own", () => {
    const { isEnabled } = Decision037Config
    const some = decoded({ agents: { oracle: on } })
    const all = decoded({ ...on, agents: { librarian: off } })
    assert.deepStrictEqual(
      [undefined, decoded(document), some, all].map((config) =>
        [undefined, "oracle", "librarian"].map((agent) => isEnabled(config, agent))
      ),
      [
        [false, false, false],
        [false, false, false],
        [false, true, false],
        [true, true, false]
      ]
    )
  })

  it.effect("gives an agent the retries of the document, and the others one attempt", () =>
    Effect.gen(function* () {
      const config = { ...exact, agents: { oracle: on } }
      assert.deepStrictEqual(yield* waitsOf(config, "oracle"), five)
      assert.deepStrictEqual(yield* waitsOf(config, "librarian"), [])
      assert.deepStrictEqual(yield* waitsOf(undefined), [])
      assert.deepStrictEqual(yield* waitsOf({ ...exact, ...on }), five)
    })
  )
})

it.effect("keepOpen holds the circuit of an endpoint open, so that another target is asked", () =>
  Effect.gen(function* () {
    const asked = (circuitBreaker: unknown) =>
      Effect.gen(function* () {
        const [first, second] = [yield* scripted([]), yield* scripted([], "openai")]
        yield* Effect.provide(
          ask,
          Decision037Config.layer([first, second], decoded({ ...on, circuitBreaker }))
        )
        return [(yield* first.requests).length, (yield* second.requests).length]
      })
    assert.deepStrictEqual(yield* asked({}), [1, 0])
    assert.deepStrictEqual(yield* asked({ keepOpen: ["anthropic"] }), [0, 1])
  })
)

it.effect("restarts a task after failures of the network, and not after others", () =>
  Effect.gen(function* () {
    const config = decoded({ taskRestart: { maxRestarts: 2, restartBackoffBaseMs: 60_000 } })
    const restarts = (faults: ReadonlyArray<FaultPlan.Step>) =>
      Effect.gen(function* () {
        const model = yield* scripted(faults)
        const settings = decoded({ ...on, retry: { maxNetworkRetries: 0 } })
        const task = ask.pipe(Effect.provide(Decision037Config.layer([model], settings)))
        const only = ["Retrying"]
        const timeline = yield* Timeline.record(Effect.ignore(Decision037Config.restarting(config)(task)), {
          only
        })
        return Timing.waits(timeline).map(({ millis }) => millis)
      })
    assert.deepStrictEqual(yield* restarts([reset]), [60_000, 120_000])
    const refused: FaultPlan.Step = { times: "always", fault: { type: "status", status: 401 } }
    assert.deepStrictEqual(yield* restarts([refused]), [])
  })
)
