/** Keys that a second copy of effect made: their values cannot be read, and the error says why. */
import { assert, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import { Config, Effect, Layer, Redacted } from "effect"
import { rolldown } from "rolldown"
import { fileURLToPath } from "node:url"
import { answer, played } from "../support.ts"

/** The module of another copy, which has a registry of values of its own. */
const secondCopy = async (): Promise<typeof Redacted> => {
  const bundle = await rolldown({ input: fileURLToPath(import.meta.resolve("effect/Redacted")) })
  const { output } = await bundle.generate({ format: "es" })
  await bundle.close()
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`)
}

const why =
  "comes from a second copy of effect, so its value cannot be read. Run `npm ls effect`, keep one version of it, and install again (`npm dedupe`)."

it.live("is refused with the cause and what to do", () =>
  Effect.gen(function* () {
    const second = yield* Effect.promise(secondCopy)
    const key = second.make("secret-of-a-test")
    assert.isTrue(Redacted.isRedacted(key))
    assert.throws(() => Redacted.value(key), "Unable to get redacted value")

    assert.throws(() => KeySource.value("K", key), `KeySource.value: key ${why}`)
    const sources = {
      config: KeySource.config("K", Config.succeed(key)),
      refreshing: KeySource.refreshing("K", { load: Effect.succeed({ value: key }) })
    }
    for (const [name, source] of Object.entries(sources)) {
      const model = played({ answers: [answer("hi")], keys: [source] })
      const error = yield* Effect.catchDefect(
        Effect.scoped(Layer.build(Failover.layer([model]))),
        Effect.succeed
      )
      assert.include(String(error), `KeySource.${name}: K ${why}`)
      assert.notInclude(String(error), "secret-of-a-test")
    }
  })
)
