/** Layers of this package whose settings come from the environment. */
import { assert, it } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Fiber } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Compaction, CompactionPolicy, Failover } from "@outlast/agent"
import { CallLimiter } from "@outlast/agent/limiter"
import { ScriptedModel } from "@outlast/testing"

const env = (env: Readonly<Record<string, string>>) => ConfigProvider.layer(ConfigProvider.fromEnv({ env }))

it.effect("Compaction.layerConfig takes the policy's share", () =>
  Effect.gen(function* () {
    const layer = Compaction.layerConfig({
      policy: Config.map(Config.Finite("ACT"), (act) => ({ ...CompactionPolicy.defaults, act }))
    })
    const { policy } = yield* Compaction.Compaction.pipe(
      Effect.provide(layer),
      Effect.provide(env({ ACT: "0.7" }))
    )
    assert.strictEqual(policy.act, 0.7)
  })
)

it.effect("CallLimiter.layerConfig keeps calls below the configured number of requests", () =>
  Effect.gen(function* () {
    const limits = Config.map(Config.Int("REQUESTS"), (requestsPerMinute) => ({
      "anthropic/m": { requestsPerMinute }
    }))
    const model = yield* ScriptedModel.make({
      provider: "anthropic",
      model: "m",
      plan: { answers: [{ text: "Hello." }] }
    })
    const program = Effect.gen(function* () {
      const limiter = yield* CallLimiter.CallLimiter
      const call = LanguageModel.generateText({ prompt: "?" })
      yield* Effect.forEach([1, 2, 3], () => call, { concurrency: 3 }).pipe(
        Effect.provide(Failover.layer([model], { limiter }))
      )
    }).pipe(Effect.provide(CallLimiter.layerConfig({ limits })), Effect.provide(env({ REQUESTS: "2" })))
    const fiber = yield* Effect.forkChild(program)
    yield* TestClock.adjust("1 second")
    // The third call waits for the next minute.
    assert.lengthOf(yield* model.requests, 2)
    yield* Fiber.interrupt(fiber)
  })
)
