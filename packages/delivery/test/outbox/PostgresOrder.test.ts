/** Sequence numbers are not commit order: a transaction that commits late is not skipped. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { DeliveryStore, MemoryBus, Outbox } from "@outlast/delivery"
import * as Postgres from "../../../../test/services/Postgres.ts"
import { event, onBus, turns, until } from "../support/outboxes.ts"

describe.skipIf(Postgres.missing !== undefined)("on PostgreSQL", () => {
  it.live(
    "publishes an event whose transaction commits after later ones were drained",
    () =>
      Effect.gen(function* () {
        const server = yield* Postgres.running
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const written = yield* Deferred.make<void>()
          const commit = yield* Deferred.make<void>()
          const late = yield* Outbox.publishIn(event("late")).pipe(
            Effect.andThen(Deferred.succeed(written, undefined)),
            Effect.andThen(Deferred.await(commit)),
            sql.withTransaction,
            Effect.forkChild
          )
          yield* Deferred.await(written)
          yield* sql.withTransaction(Outbox.publishIn(event("early")))
          yield* until(Effect.map(onBus, (bodies) => bodies.join() === "early"))
          yield* turns
          yield* Deferred.succeed(commit, undefined)
          yield* Fiber.join(late)
          yield* until(Effect.map(onBus, (bodies) => bodies.join() === "early,late"))
          assert.strictEqual((yield* Outbox.publish(event("next"))).id, "next")
        }).pipe(
          Effect.provide(
            Outbox.layer().pipe(
              Layer.provideMerge(DeliveryStore.layerSql()),
              Layer.provideMerge(MemoryBus.layer()),
              Layer.provideMerge(Postgres.client(server, { maxConnections: 4 }))
            )
          )
        )
      }).pipe(Effect.scoped),
    60_000
  )
})
