import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { Registry } from "@outlast/providers"

const found = (values: Record<string, string>) =>
  Effect.provide(Registry.detect, ConfigProvider.layer(ConfigProvider.fromUnknown(values)))

describe("Registry.detect", () => {
  it.effect("has the usual model of each provider whose key is set", () =>
    Effect.gen(function* () {
      const chain = yield* found({ OPENAI_API_KEY: "o", ANTHROPIC_API_KEY: "a" })
      assert.deepStrictEqual(
        chain.map(({ provider }) => provider),
        ["anthropic", "openai"]
      )
      const [only] = yield* found({ OPENAI_API_KEY: "o" })
      assert.strictEqual(only.provider, "openai")
    })
  )

  it.effect("fails with the names of the keys when none is set", () =>
    Effect.gen(function* () {
      const { message } = yield* Effect.flip(found({}))
      assert.include(message, "ANTHROPIC_API_KEY")
      assert.include(message, "OPENAI_API_KEY")
    })
  )
})
