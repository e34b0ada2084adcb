import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SqliteClient } from "@outlast/node"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-lifetime-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

/** A client, and the scope that closes it. */
const open = (filename: string) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(SqliteClient.layer({ filename }), scope)
    return { sql: Context.get(context, SqlClient.SqlClient), close: Scope.close(scope, Exit.void) }
  })

/** Open files of this process below a folder. */
const openFiles = (path: string): ReadonlyArray<string> =>
  readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`)
      return target.startsWith(path) ? [target] : []
    } catch {
      return [] // The file was closed meanwhile.
    }
  })

describe("the end of a client", () => {
  it.effect("fails a statement after the end of the scope, and opens no file", () =>
    Effect.gen(function* () {
      const path = yield* folder
      const { close, sql } = yield* open(join(path, "a.db"))
      yield* sql`CREATE TABLE t (x INTEGER)`
      yield* close
      const error = yield* Effect.flip(sql`INSERT INTO t VALUES (1)`)
      assert.include(error.message, `${join(path, "a.db")}) is closed`)
      assert.include((yield* Effect.flip(sql.withTransaction(Effect.void))).message, "is closed")
      assert.deepStrictEqual(openFiles(path), [])
    })
  )

  it.effect("rolls back a transaction that outlives the scope, and states the reason", () =>
    Effect.gen(function* () {
      const path = yield* folder
      const first = yield* open(join(path, "a.db"))
      yield* first.sql`CREATE TABLE t (x INTEGER)`
      const transaction = yield* Effect.forkChild(
        first.sql.withTransaction(
          Effect.gen(function* () {
            yield* first.sql`INSERT INTO t VALUES (1)`
            yield* first.close
            yield* first.sql`INSERT INTO t VALUES (2)`
          })
        )
      )
      const error = yield* Effect.flip(Fiber.join(transaction))
      assert.include(error.message, "is closed")
      const second = yield* open(join(path, "a.db"))
      assert.deepStrictEqual(yield* second.sql`SELECT x FROM t`, [])
      yield* second.close
      assert.deepStrictEqual(openFiles(path), [])
    })
  )
})
