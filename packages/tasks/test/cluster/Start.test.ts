/** Workers that start at the same time make the tables of a fresh PostgreSQL database together. */
import { assert, describe, it } from "@effect/vitest"
import { Array as Arr, Context, Duration, Effect, Exit, Layer, Logger } from "effect"
import { ShardingConfig } from "effect/cluster"
import { SqlClient } from "effect/sql"
import { ClusterSockets } from "@outlast/node/cluster"
import { Tasks } from "@outlast/tasks"
import * as Holders from "#tasks/cluster/Holders"
import * as StoreOutage from "#tasks/store/StoreOutage"
import * as Postgres from "../../../../test/services/Postgres.ts"
import type * as Server from "../../../../test/services/Server.ts"

const worker = Tasks.layerCluster().pipe(Layer.provide(ClusterSockets.layer({ host: "127.0.0.1" })))

const store = (prefix: string) =>
  Holders.layer(Duration.seconds(30), { prefix }).pipe(
    Layer.provide([StoreOutage.layer, ShardingConfig.layerDefaults]),
    Layer.provide(Tasks.layerStore({ prefix }))
  )

/** A client whose connection is open. */
const connected = (server: Server.Program, options?: { readonly maxConnections: number }) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(Layer.fresh(Postgres.client(server, options)))
    const sql = Context.get(context, SqlClient.SqlClient)
    yield* sql`SELECT 1`
    return { sql, context }
  })

const opened = (prefix: string) => Effect.scoped(Layer.build(Layer.fresh(store(prefix))))

describe.skipIf(Postgres.missing !== undefined)("on PostgreSQL", () => {
  it.live(
    "twelve workers that start at the same time on a fresh database all start",
    () =>
      Effect.gen(function* () {
        const server = yield* Postgres.running
        const { sql } = yield* connected(server)
        for (const database of ["first", "second"]) {
          yield* sql.unsafe(`CREATE DATABASE ${database}`)
          const waits: Array<string> = []
          const logger = Logger.make(({ message }) => {
            if (String(message).includes("does not answer")) waits.push(String(message))
          })
          // Each worker has connections of its own, as a process has.
          const client = Postgres.client(server, { database, maxConnections: 4 })
          const start = Layer.build(Layer.fresh(worker.pipe(Layer.provide(Layer.fresh(client)))))
          yield* Effect.all(Arr.replicate(start, 12), { concurrency: "unbounded" }).pipe(
            Effect.scoped,
            Effect.provide(Logger.layer([logger]))
          )
          assert.deepStrictEqual(waits, [])
        }
      }).pipe(Effect.scoped, Effect.timeout("2 minutes")),
    150_000
  )

  it.live(
    "processes that make or upgrade the tables of a store at the same time all open it",
    () =>
      Effect.gen(function* () {
        const server = yield* Postgres.running
        const processes = yield* Effect.all(Arr.replicate(connected(server, { maxConnections: 1 }), 12))
        const { sql } = yield* connected(server)
        const allOpen = (prefix: string) =>
          Effect.gen(function* () {
            const starts = yield* Effect.forEach(
              processes,
              ({ context }) => Effect.exit(Effect.provideContext(opened(prefix), context)),
              { concurrency: "unbounded" }
            )
            assert.deepStrictEqual(starts.filter(Exit.isFailure), [])
          })
        for (const prefix of ["first", "second", "third"]) {
          yield* allOpen(prefix)
          // A store of an earlier version.
          yield* sql.unsafe(
            `ALTER TABLE ${prefix}_tasks DROP COLUMN boot, DROP COLUMN deaths, DROP COLUMN runner`
          )
          yield* sql.unsafe(`ALTER TABLE ${prefix}_workers DROP COLUMN address`)
          yield* sql.unsafe(`DROP TABLE ${prefix}_steps`)
          yield* allOpen(prefix)
        }
      }).pipe(Effect.scoped, Effect.timeout("2 minutes")),
    150_000
  )

  it.live(
    "a store opens while a transaction, such as that of a backup, reads its tables",
    () =>
      Effect.gen(function* () {
        const server = yield* Postgres.running
        const { context } = yield* connected(server)
        const open = Effect.provideContext(opened("read"), context)
        yield* open
        const reader = yield* connected(server)
        yield* Effect.gen(function* () {
          for (const table of ["tasks", "steps", "effects", "workers", "replies"])
            yield* reader.sql.unsafe(`SELECT 1 FROM read_${table}`)
          assert.isTrue(Exit.isSuccess(yield* Effect.exit(Effect.timeout(open, "20 seconds"))))
        }).pipe(reader.sql.withTransaction)
      }).pipe(Effect.scoped, Effect.timeout("30 seconds")),
    60_000
  )
})
