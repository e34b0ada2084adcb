/** A `SqlClient` of a SQLite file over `node:sqlite`: as much of one as a `KeyValueStore` needs. */
import { Effect, Layer, Semaphore, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import type { SqlConnection } from "effect/sql"
import { SqlClient, SqlError, Statement } from "effect/sql"
import type { SQLInputValue } from "node:sqlite"
import { DatabaseSync } from "node:sqlite"

const failed = (cause: unknown) =>
  new SqlError.SqlError({
    reason: SqlError.classifySqliteError(cause, { message: "SQLite failed", operation: "execute" })
  })

const make = (file: string) =>
  Effect.gen(function* () {
    const db = yield* Effect.acquireRelease(
      Effect.try({ try: () => new DatabaseSync(file, { timeout: 5_000 }), catch: failed }),
      (db) => Effect.sync(() => db.close())
    )
    db.exec("PRAGMA journal_mode=WAL")
    // A KeyValueStore binds texts, numbers and bytes only.
    const all = (sql: string, params: ReadonlyArray<unknown>) =>
      Effect.try({
        try: () => db.prepare(sql).all(...(params as ReadonlyArray<SQLInputValue>)),
        catch: failed
      })
    const values = (sql: string, params: ReadonlyArray<unknown>) =>
      Effect.map(all(sql, params), (rows) => rows.map((row) => Object.values(row)))
    const connection: SqlConnection.Connection = {
      execute: all,
      executeRaw: all,
      executeValues: values,
      executeValuesUnprepared: values,
      executeUnprepared: all,
      executeStream: (sql, params) => Stream.fromIterableEffect(all(sql, params))
    }
    return yield* SqlClient.make({
      ...SqlClient.makeSqliteAcquirers({
        connection: Effect.succeed(connection),
        semaphore: yield* Semaphore.make(1),
        isTransaction: () => db.isTransaction
      }),
      compiler: Statement.makeCompilerSqlite(),
      driver: "node-sqlite",
      spanAttributes: []
    })
  })

export const layer = (file: string): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  Layer.effect(SqlClient.SqlClient, make(file)).pipe(Layer.provide(Reactivity.layer))
