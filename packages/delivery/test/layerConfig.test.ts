/** Layers of this package whose settings come from the environment. */
import { assert, it } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Layer } from "effect"
import { DeliveryStore, MemoryBus, Outbox } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"

const env = (env: Readonly<Record<string, string>>) => ConfigProvider.layer(ConfigProvider.fromEnv({ env }))

it.effect("Outbox.layerConfig refuses events above the configured size", () =>
  Effect.gen(function* () {
    const layer = Outbox.layerConfig({ maxBytes: Config.Int("MAX_BYTES") }).pipe(
      Layer.provide([MemoryBus.layer(), DeliveryStore.layerMemory()]),
      Layer.provide(env({ MAX_BYTES: "10" }))
    )
    const publish = (bytes: number) => Outbox.publish({ subject: "a", body: new Uint8Array(bytes) })
    yield* Effect.gen(function* () {
      const refused = yield* Effect.flip(publish(1_000))
      assert.strictEqual(refused._tag, "TooLarge")
    }).pipe(Effect.provide(layer))
  })
)

it.effect("NatsBus.layerConfig checks the configured servers, and names a missing variable", () =>
  Effect.gen(function* () {
    const layer = NatsBus.layerConfig({ servers: Config.String("NATS_URL") })
    const missing = yield* Effect.flip(Effect.scoped(Layer.build(layer).pipe(Effect.provide(env({})))))
    assert.include(missing.message, "NATS_URL")
    // Nothing listens there: the layer is built all the same, and the connection is tried again and again.
    yield* Effect.scoped(Layer.build(layer).pipe(Effect.provide(env({ NATS_URL: "nats://127.0.0.1:1" }))))
  })
)
