/** Processes that start at the same time make the tables of a fresh PostgreSQL database together. */
import { assert, describe, it } from "@effect/vitest"
import { Array as Arr, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { DeliveryStore } from "@outlast/delivery"
import * as Postgres from "../../../../test/services/Postgres.ts"

describe.skipIf(Postgres.missing !== undefined)("on PostgreSQL", () => {
  it.live(
    "processes that make the tables of a store at the same time all open it",
    () =>
      Effect.gen(function* () {
        const server = yield* Postgres.running
        const client = Layer.build(Layer.fresh(Postgres.client(server, { maxConnections: 1 })))
        const processes = yield* Effect.all(Arr.replicate(client, 12))
        const each = <A, E>(effect: Effect.Effect<A, E, SqlClient.SqlClient>) =>
          Effect.forEach(processes, (process) => Effect.exit(Effect.provideContext(effect, process)), {
            concurrency: "unbounded"
          })
        yield* each(Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1`))
        for (const round of Arr.range(1, 3)) {
          const store = Layer.fresh(DeliveryStore.layerSql({ prefix: `round_${round}` }))
          const starts = yield* each(Effect.scoped(Layer.build(store)))
          assert.deepStrictEqual(starts.filter(Exit.isFailure), [])
        }
      }).pipe(Effect.scoped, Effect.timeout("2 minutes")),
    150_000
  )
})
