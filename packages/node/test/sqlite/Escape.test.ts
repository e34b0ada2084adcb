import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { SqliteClient } from "@outlast/node"

describe("a fiber that outlives its transaction", () => {
  it.effect("fails its statements instead of joining the transaction of another fiber", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE t (x INTEGER)`
      const other = yield* Deferred.make<void>()
      const fiber = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`INSERT INTO t VALUES (1)`
          return yield* Effect.forkDetach(
            Effect.andThen(
              Deferred.await(other),
              Effect.match(sql`INSERT INTO t VALUES (2)`, {
                onSuccess: () => "stored",
                onFailure: ({ message }) => message
              })
            )
          )
        })
      )
      const joined = yield* Effect.flip(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`INSERT INTO t VALUES (3)`
            yield* Deferred.succeed(other, undefined)
            return yield* Effect.fail({ message: yield* Fiber.join(fiber) })
          })
        )
      )
      assert.include(joined.message, "the transaction that this fiber was started in has ended")
      assert.deepStrictEqual(yield* sql`SELECT x FROM t`, [{ x: 1 }])
    }).pipe(Effect.provide(SqliteClient.layer({ filename: ":memory:" })))
  )
})
