// A program of a user, in JavaScript, on what is published: `plain.mjs <path>`. Ends by itself, without closing.
import { Effect, ManagedRuntime } from "effect"
import { SqlClient } from "effect/sql"
import { SqliteClient, StoreLock } from "@outlast/node"

const filename = process.argv[2]
const runtime = ManagedRuntime.make(SqliteClient.layer({ filename }))
const program = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE t (a)`
  yield* sql.withTransaction(sql`INSERT INTO t VALUES ('stored')`)
  return yield* sql`SELECT a FROM t`
})
await Effect.runPromise(Effect.scoped(StoreLock.acquire(`${filename}.lock`)))
console.log(JSON.stringify(await runtime.runPromise(program)))
console.log(import.meta.resolve("@outlast/node").split("/packages/").at(-1))
