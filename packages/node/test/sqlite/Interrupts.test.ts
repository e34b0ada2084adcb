/** Interrupts at any moment leave complete transactions, or none. */
import { assert, it } from "@effect/vitest"
import { Array as Arr, Context, Effect, Fiber, Layer, Random, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { join } from "node:path"
import { SqliteClient } from "@outlast/node/sqlite"
import * as Folder from "../support/Folder.ts"

const rounds = 300
/** Turns of the event loop after which a transaction of three statements is certainly over. */
const mostTurns = 60

it.live("300 interrupts at random moments leave no partial transaction and a working client", () =>
  Effect.gen(function* () {
    const filename = join(yield* Folder.make, "a.db")
    const context = yield* Layer.build(SqliteClient.layer({ filename, synchronous: "normal" }))
    const sql = Context.get(context, SqlClient.SqlClient)
    yield* sql`CREATE TABLE a (id INTEGER PRIMARY KEY)`
    yield* sql`CREATE TABLE b (id INTEGER, part INTEGER)`

    const transaction = (id: number, kind: number) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`INSERT INTO a VALUES (${id})`
          const part = (part: number) => sql`INSERT INTO b VALUES (${id}, ${part})`
          yield* part(1)
          if (kind === 1) yield* sql.withTransaction(part(2))
          else if (kind === 2)
            yield* Stream.runDrain(sql`INSERT INTO b VALUES (${id}, 2) RETURNING id`.stream)
          else yield* part(2)
        })
      )
    let done = 0
    for (let id = 0; id < rounds; id++) {
      const kind = yield* Random.nextIntBetween(0, 3)
      const turns = yield* Random.nextIntBetween(0, mostTurns)
      const running = yield* Effect.forkChild(transaction(id, kind), { startImmediately: true })
      // Another statement waits for the connection, and is interrupted as well.
      const waiting = yield* Effect.forkChild(sql`SELECT count(*) FROM a`)
      yield* Effect.forEach(Arr.range(0, turns), () => Effect.promise(() => new Promise(setImmediate)))
      yield* Fiber.interrupt(waiting)
      const exit = yield* Effect.andThen(Fiber.interrupt(running), Fiber.await(running))
      if (exit._tag === "Success") done++
      const [counts] = yield* sql<{ a: number; b: number }>`SELECT
        (SELECT count(*) FROM a) AS a, (SELECT count(*) FROM b) AS b`
      assert.strictEqual(counts?.b, 2 * (counts?.a ?? NaN), `round ${id}`)
      // A running commit is not interrupted, so more may be stored than was reported.
      assert.isAtLeast(counts?.a ?? 0, done)
    }
  }).pipe(Random.withSeed("interrupts"))
)
