/**
 * One program, another Layer per environment: in a test, in development, and in production.
 *
 *     npm run environments -w examples
 *
 * The program asks for `LanguageModel` and knows nothing else. A test plays a script in virtual time.
 * Development has a fake provider over HTTP. Production has real targets, whose cooldowns survive a restart in SQLite,
 * and takes its policy from the environment. Production needs keys, so this example only builds it without one.
 */
import { Config, ConfigProvider, Console, Effect, Layer, Redacted } from "effect"
import { LanguageModel } from "effect/ai"
import { KeyValueStore } from "effect/persistence"
import { TestClock } from "effect/testing"
import { Failover, KeySource } from "@outlast/agent"
import { OutlastConfig } from "@outlast/agent/config"
import { KeyValueChainStore } from "@outlast/agent/stores"
import { SqliteClient } from "@outlast/node/sqlite"
import { Anthropic, OpenAi } from "@outlast/providers"
import { FakeProvider, ScriptedModel, Timeline } from "@outlast/testing"

const program = Effect.gen(function* () {
  const { text } = yield* LanguageModel.generateText({ prompt: "Which river flows north?" })
  return text
})

const plan = {
  answers: [{ text: "The Nile." }],
  faults: [{ fault: { type: "status", status: 429, headers: { "retry-after": "30" } } }]
} as const

const Test = Layer.unwrap(
  Effect.map(ScriptedModel.make({ provider: "anthropic", model: "claude-sonnet-4-5", plan }), (model) =>
    Failover.layer([model])
  )
)

const Development = Layer.unwrap(
  Effect.map(FakeProvider.make({ plan: { answers: plan.answers } }), (server) =>
    Failover.layer([
      Anthropic.model("claude-sonnet-4-5", {
        baseUrl: server.baseUrl("anthropic"),
        keys: [KeySource.value("demo", Redacted.make("demo"))]
      })
    ])
  )
)

const store = KeyValueChainStore.make({
  keyValueStore: KeyValueStore.layerSql().pipe(
    Layer.provide(SqliteClient.layerConfig({ filename: Config.String("OUTLAST_DATABASE") })),
    Layer.orDie
  )
})
const Production = OutlastConfig.layerConfig(
  [
    Anthropic.model("claude-sonnet-4-5", { keys: ["EXAMPLE_ANTHROPIC_KEY"] }),
    OpenAi.model("gpt-5.1", { keys: ["EXAMPLE_OPENAI_KEY"] })
  ],
  { store }
)

const main = Effect.gen(function* () {
  const { lines } = yield* Timeline.record(program.pipe(Effect.provide(Test)))
  yield* Console.log(["test:", ...lines].join("\n"))
}).pipe(Effect.provide(TestClock.layer()))

await Effect.runPromise(main)
console.log(`development: ${await Effect.runPromise(Effect.scoped(Effect.provide(program, Development)))}`)

const env = { OUTLAST_POLICY_PRESET: "background", OUTLAST_DATABASE: ":memory:" }
const Environment = ConfigProvider.layer(ConfigProvider.fromEnv({ env }))
const missing = await Effect.runPromise(
  Effect.flip(program.pipe(Effect.provide(Production), Effect.provide(Environment)))
)
console.log(`production without a key: ${missing._tag}`)
