/** Promises of the request that began Outlast. */
import { existsSync, globSync, readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import type { Layer } from "effect"
import { Context, Effect, FileSystem, Schema } from "effect"
import { Chat, LanguageModel } from "effect/ai"
import { HttpClient } from "effect/http"
import { Failover, Presets, RecoveryPolicy } from "@outlast/agent"
import { Backoff } from "@outlast/resilience"
import { always, ask, inTime, model, status, timesOf } from "./support.ts"

const json = (file: string): Record<string, unknown> => JSON.parse(readFileSync(file, "utf8"))

describe("the repository", () => {
  const things: ReadonlyArray<readonly [string, string]> = [
    ["user-top-package", "package.json"],
    ["user-top-tsconfig", "tsconfig.json"],
    ["user-top-packages", "packages"],
    ["user-top-examples", "examples"],
    ["user-top-test", "test"],
    ["user-top-readme", "README.md"]
  ]
  for (const [id, name] of things) it(`${id}: has ${name}`, () => assert.isTrue(existsSync(name)))

  it("user-kind, user-pkg-effect: needs effect in every package", () => {
    for (const file of globSync("packages/*/package.json")) {
      const { peerDependencies = {}, dependencies = {}, devDependencies = {} } = json(file)
      const all = { ...Object(peerDependencies), ...Object(dependencies), ...Object(devDependencies) }
      assert.property(all, "effect", file)
    }
  })

  it("user-pkg-vitest: tests with @effect/vitest", () => {
    assert.property(json("package.json")["devDependencies"], "@effect/vitest")
  })

  it("user-pkg-platform, user-pkg-schema: has neither, because their modules are in effect since version 4", () => {
    const replaced = ["@effect/platform", "@effect/schema"]
    const { packages } = json("package-lock.json")
    for (const name of replaced) assert.notProperty(packages, `node_modules/${name}`)
    for (const file of ["package.json", "examples/package.json", ...globSync("packages/*/package.json")]) {
      const { dependencies, devDependencies, peerDependencies } = json(file)
      const names = Object.keys({
        ...Object(dependencies),
        ...Object(devDependencies),
        ...Object(peerDependencies)
      })
      assert.deepStrictEqual(
        names.filter((name) => replaced.includes(name)),
        [],
        file
      )
    }
    // What they had.
    assert.isFunction(Schema.Struct)
    assert.isTrue(Context.isKey(FileSystem.FileSystem) && Context.isKey(HttpClient.HttpClient))
    assert.match(readFileSync("README.md", "utf8"), /replaces `@effect\/platform`, `@effect\/schema`/)
  })
})

describe("the layers", () => {
  it.effect("user-shape-services: are Effect services, and waits are Schedules", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [{ times: 2, fault: status(503) }])
      const program = Effect.flatMap(LanguageModel.LanguageModel, (llm) => llm.generateText({ prompt: "x" }))
      const response = yield* inTime(Effect.provide(program, Failover.layer([target])))
      assert.strictEqual(response.text, "hello")
      let attempts = 0
      const flaky = Effect.suspend(() => (++attempts < 3 ? Effect.fail("no") : Effect.succeed("yes")))
      const schedule = Backoff.schedule(Backoff.exponential({ jitter: 0 }))
      assert.strictEqual(yield* inTime(Effect.retry(flaky, schedule)), "yes")
    })
  )

  it.effect("user-used-compose: compose into programs that know nothing of them", () =>
    Effect.gen(function* () {
      const program = Effect.gen(function* () {
        const chat = yield* Chat.empty
        yield* chat.generateText({ prompt: "one" })
        return (yield* chat.generateText({ prompt: "two" })).text
      })
      const chain = [yield* model("a", "m1", [always(status(401))]), yield* model("b", "m2")] as const
      assert.strictEqual(yield* Effect.provide(program, Presets.interactive.layer(chain)), "hello")
    })
  )

  it.effect("user-used-swap: are swapped without a change of the program", () =>
    Effect.gen(function* () {
      const target = yield* model("a", "m1", [{ times: 2, fault: status(503) }])
      const layers: ReadonlyArray<Layer.Layer<LanguageModel.LanguageModel, unknown>> = [
        Failover.layer([yield* model("b", "m2")]),
        Presets.background.layer([target]),
        Failover.layer([target], { policy: RecoveryPolicy.background })
      ]
      for (const layer of layers) {
        assert.strictEqual((yield* inTime(Effect.provide(ask, layer))).text, "hello")
      }
      assert.lengthOf(yield* timesOf(target), 4)
    })
  )
})
