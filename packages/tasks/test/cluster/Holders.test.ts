/** A worker finds out whether another one has died, or only lost its lease. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Schedule } from "effect"
import { ShardingConfig } from "effect/cluster"
import { Tasks } from "@outlast/tasks"
import * as Holders from "#tasks/cluster/Holders"
import * as StoreOutage from "#tasks/store/StoreOutage"
import * as Postgres from "../../../../test/services/Postgres.ts"

const lease = 1_000

const holders = Holders.layer(Duration.millis(lease), {}).pipe(
  Layer.provide([StoreOutage.layer, ShardingConfig.layerDefaults]),
  Layer.provide(Tasks.layerStore()),
  Layer.provide(Layer.unwrap(Effect.map(Postgres.running, (server) => Postgres.client(server))))
)

it.live.skipIf(Postgres.missing !== undefined)(
  "a worker that renews its row lives, and one that left or fell silent does not",
  () =>
    Effect.gen(function* () {
      const { beat, hasDied, leave } = yield* Effect.flatMap(Holders.Holders, Effect.fromNullishOr)
      const beating = (boot: string) =>
        Effect.forkChild(Effect.repeat(beat(boot), Schedule.spaced("200 millis")), { startImmediately: true })
      // The worker that asks has reached the database for a lease.
      yield* beating("own")
      const other = yield* beating("other")
      yield* Effect.sleep(lease * 1.5)
      assert.isFalse(yield* hasDied("other"))
      yield* Fiber.interrupt(other)
      assert.isTrue(yield* hasDied("other"))
      yield* beat("third")
      yield* leave("third")
      assert.isTrue(yield* hasDied("third"))
    }).pipe(Effect.provide(holders), Effect.timeout("30 seconds")),
  60_000
)
