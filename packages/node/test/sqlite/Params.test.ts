import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { SqliteClient } from "@outlast/node"

describe("parameters", () => {
  it.effect("stores whole numbers and booleans as integers, other numbers as reals", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE t (text TEXT, any)`
      yield* sql`INSERT INTO t VALUES (${5}, ${true})`
      assert.deepStrictEqual(yield* sql`SELECT text, any, typeof(any) AS type FROM t WHERE text = ${5}`, [
        { text: "5", any: 1, type: "integer" }
      ])
      assert.deepStrictEqual(
        yield* sql`SELECT json_array(${1}, ${-2}, ${0.5}, ${Number.MAX_SAFE_INTEGER}) AS json, typeof(${2 ** 53}) AS big`,
        [{ json: "[1,-2,0.5,9007199254740991]", big: "real" }]
      )
      const [row] = yield* sql<{ x: number }>`SELECT ${-0} AS x`
      assert.isTrue(Object.is(row?.x, -0))
    }).pipe(Effect.provide(SqliteClient.layer({ filename: ":memory:" })))
  )

  it.effect("fails for an invalid date with the number of the parameter, not with a defect", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const error = yield* Effect.flip(sql`SELECT ${new Date(Number.NaN)} AS x`)
      assert.include(error.message, "Parameter 1 is an invalid date")
    }).pipe(Effect.provide(SqliteClient.layer({ filename: ":memory:" })))
  )
})
