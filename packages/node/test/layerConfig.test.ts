/** Layers of this package whose settings come from the environment. */
import { assert, it } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import { Host } from "@outlast/node/host"
import { SingleInstance } from "@outlast/node/lock"
import * as Folder from "./support/Folder.ts"

const env = (env: Readonly<Record<string, string>>) => ConfigProvider.layer(ConfigProvider.fromEnv({ env }))

it.live("SingleInstance.layerConfig holds the lock at the configured path, with the configured wait", () =>
  Effect.gen(function* () {
    const path = join(yield* Folder.make, "agent.lock")
    const layer = SingleInstance.layerConfig({
      path: Config.String("LOCK_FILE"),
      whenHeld: Config.map(Config.Duration("LOCK_WAIT"), SingleInstance.wait)
    }).pipe(Layer.provide(env({ LOCK_FILE: path, LOCK_WAIT: "1 milli" })))
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* Layer.build(layer)
        const second = yield* Effect.flip(SingleInstance.acquire(path))
        assert.strictEqual(second._tag, "AlreadyRunning")
        const third = yield* Effect.flip(Layer.build(Layer.fresh(layer)))
        assert.deepInclude(third, { _tag: "AlreadyRunning", reason: "timeout" })
      })
    )
    yield* Effect.scoped(SingleInstance.acquire(path))
  })
)

it.effect("Host.layerConfig limits the shutdown to the configured time", () =>
  Effect.gen(function* () {
    const layer = (total: string) =>
      Host.layerConfig({ wait: Config.succeed("1 second"), total: Config.Duration("SHUTDOWN_TOTAL") }).pipe(
        Layer.provide(env({ SHUTDOWN_TOTAL: total }))
      )
    yield* Effect.gen(function* () {
      yield* Host.onShutdown("runs", { name: "stuck", run: Effect.never })
      const shutdown = yield* Effect.forkChild(Host.shutdown("test"), { startImmediately: true })
      yield* TestClock.adjust("2 seconds")
      assert.isUndefined(shutdown.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      assert.isDefined(shutdown.pollUnsafe())
    }).pipe(Effect.provide(layer("3 seconds")))
    const wrong = yield* Effect.flip(Effect.scoped(Layer.build(layer("soon"))))
    assert.include(wrong.message, "SHUTDOWN_TOTAL")
  })
)
