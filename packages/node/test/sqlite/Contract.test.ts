/** The contract of effect's `SqlClient`. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Queue, Scope, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { Migrator, SqlClient, SqlError } from "effect/sql"
import { join } from "node:path"
import { SqliteClient } from "@outlast/node/sqlite"
import * as Folder from "../support/Folder.ts"

const Memory = SqliteClient.layer({ filename: ":memory:" }).pipe(Layer.provideMerge(Reactivity.layer))

const table = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)`
  return sql
})

const count = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(sql<{ n: number }>`SELECT count(*) AS n FROM notes`, ([row]) => row?.n)
)

describe("statements", () => {
  it.effect("returns rows, values, changes, and rows of RETURNING", () =>
    Effect.gen(function* () {
      const sql = yield* table
      assert.deepStrictEqual(yield* sql`INSERT INTO notes ${sql.insert([{ text: "a" }, { text: "b" }])}`, [])
      assert.deepStrictEqual(yield* sql`SELECT * FROM notes`, [
        { id: 1, text: "a" },
        { id: 2, text: "b" }
      ])
      assert.deepStrictEqual(yield* sql`SELECT * FROM notes`.values, [
        [1, "a"],
        [2, "b"]
      ])
      assert.deepStrictEqual(yield* sql`SELECT id FROM notes`.unprepared, [{ id: 1 }, { id: 2 }])
      assert.deepStrictEqual(yield* sql`SELECT id FROM notes`.valuesUnprepared, [[1], [2]])
      assert.deepStrictEqual(yield* sql`UPDATE notes SET text = 'c'`.raw, { changes: 2, lastInsertRowid: 2 })
      assert.deepStrictEqual(yield* sql`SELECT id FROM notes`.raw, [{ id: 1 }, { id: 2 }])
      assert.deepStrictEqual(yield* sql`INSERT INTO notes (text) VALUES ('d') RETURNING id`, [{ id: 3 }])
      assert.deepStrictEqual(
        yield* sql`SELECT * FROM notes`.withoutTransform,
        yield* sql`SELECT * FROM notes`
      )
    }).pipe(Effect.provide(Memory))
  )

  it.effect("stores the types that SQLite knows, and names the parameter that it cannot store", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const stored = (value: unknown) =>
        Effect.map(sql.unsafe("SELECT ? AS v", [value]).values, ([row]) => row?.[0])
      assert.strictEqual(yield* stored("ä"), "ä")
      assert.strictEqual(yield* stored(1.5), 1.5)
      assert.strictEqual(yield* stored(null), null)
      assert.strictEqual(yield* stored(undefined), null)
      assert.strictEqual(yield* stored(true), 1)
      assert.strictEqual(yield* stored(false), 0)
      assert.strictEqual(yield* stored(12n), 12)
      assert.strictEqual(yield* stored(new Date(0)), "1970-01-01T00:00:00.000Z")
      assert.deepStrictEqual(yield* stored(Buffer.from("xyz").subarray(1)), new Uint8Array([121, 122]))
      assert.deepStrictEqual(yield* stored(new Uint16Array([1]).buffer), new Uint8Array([1, 0]))
      for (const value of [{ secret: "s3" }, () => "s3", Symbol("s3")]) {
        const error = yield* Effect.flip(stored(value))
        assert.match(error.message, /^Parameter 1 is an? (object|function|symbol): SQLite stores text, /)
        assert.notInclude(error.message, "s3")
      }
    }).pipe(Effect.provide(Memory))
  )

  it.effect("returns large integers as bigint with SafeIntegers, and fails without it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const large = sql`SELECT ${2n ** 60n} AS n`
      const safe = Effect.provideService(SqlClient.SafeIntegers, true)
      assert.deepStrictEqual(yield* safe(large), [{ n: 2n ** 60n }])
      assert.deepStrictEqual(yield* safe(Stream.runCollect(large.stream)), [{ n: 2n ** 60n }])
      assert.match((yield* Effect.flip(large)).message, /too large to be represented/)
      // The statement stays prepared, but its setting is not kept.
      assert.deepStrictEqual(yield* sql`SELECT 1 AS n`, [{ n: 1 }])
      assert.deepStrictEqual(yield* safe(sql`SELECT 1 AS n`), [{ n: 1n }])
      assert.deepStrictEqual(yield* sql`SELECT 1 AS n`, [{ n: 1 }])
    }).pipe(Effect.provide(Memory))
  )

  it.effect("runs no statement when text follows the first one, and allows comments", () =>
    Effect.gen(function* () {
      const sql = yield* table
      const two = "INSERT INTO notes (text) VALUES ('a'); INSERT INTO notes (text) VALUES ('b')"
      assert.match((yield* Effect.flip(sql.unsafe(two))).message, /^One statement at a time/)
      assert.strictEqual(yield* count, 0)
      assert.deepStrictEqual(yield* sql.unsafe("SELECT ';' AS a; -- b\n/* c; */ ;"), [{ a: ";" }])
    }).pipe(Effect.provide(Memory))
  )

  it.effect("fails with effect's reasons for constraints, and with SQLite's message for a syntax error", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE t (a TEXT UNIQUE, b TEXT NOT NULL)`
      yield* sql`INSERT INTO t VALUES ('x', 'y')`
      const unique = (yield* Effect.flip(sql`INSERT INTO t VALUES ('x', 'y')`)).reason
      assert.deepInclude(unique, { _tag: "UniqueViolation", constraint: "t.a" })
      const missing = (yield* Effect.flip(sql`INSERT INTO t VALUES ('z', NULL)`)).reason
      assert.strictEqual(missing._tag, "ConstraintError")
      assert.strictEqual((yield* Effect.flip(sql`SELEC`)).message, 'near "SELEC": syntax error')
    }).pipe(Effect.provide(Memory))
  )

  it.effect("supports more statements than it keeps prepared", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let round = 0; round < 2; round++) {
        for (let n = 0; n < 250; n++) {
          assert.deepStrictEqual(yield* sql.unsafe(`SELECT ${n} AS n`), [{ n }])
        }
      }
    }).pipe(Effect.provide(Memory))
  )
})

describe("transactions", () => {
  it.effect("commits on success, and rolls back on failure, defect and interruption", () =>
    Effect.gen(function* () {
      const sql = yield* table
      const insert = sql`INSERT INTO notes (text) VALUES ('a')`
      yield* sql.withTransaction(insert)
      assert.strictEqual(yield* count, 1)
      const ends: ReadonlyArray<Effect.Effect<never, string>> = [
        Effect.fail("no"),
        Effect.die("no"),
        Effect.interrupt
      ]
      for (const end of ends) {
        const exit = yield* Effect.exit(sql.withTransaction(Effect.andThen(insert, end)))
        assert.isTrue(Exit.isFailure(exit))
        assert.strictEqual(yield* count, 1)
      }
    }).pipe(Effect.provide(Memory))
  )

  it.effect("rolls back only the savepoint", () =>
    Effect.gen(function* () {
      const sql = yield* table
      const insert = (text: string) => sql`INSERT INTO notes (text) VALUES (${text})`
      yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* insert("outer")
          yield* Effect.ignore(sql.withTransaction(Effect.andThen(insert("lost"), Effect.fail("no"))))
          yield* sql.withTransaction(insert("inner"))
        })
      )
      assert.deepStrictEqual(yield* sql`SELECT text FROM notes`.values, [["outer"], ["inner"]])
    }).pipe(Effect.provide(Memory))
  )

  it.effect("gives a transaction the connection to itself: other statements wait", () =>
    Effect.gen(function* () {
      const sql = yield* table
      const go = yield* Deferred.make<void>()
      const inside = yield* Deferred.make<void>()
      const transaction = yield* sql`INSERT INTO notes (text) VALUES ('a')`.pipe(
        Effect.andThen(Deferred.succeed(inside, undefined)),
        Effect.andThen(Deferred.await(go)),
        Effect.andThen(Effect.fail("rolled back")),
        sql.withTransaction,
        Effect.ignore,
        Effect.forkChild
      )
      yield* Deferred.await(inside)
      const other = yield* Effect.forkChild(count)
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual(yield* Fiber.join(other), 0)
      yield* Fiber.join(transaction)
    }).pipe(Effect.provide(Memory))
  )

  it.effect("runs the effects that wait for the commit after it, and not after a rollback", () =>
    Effect.gen(function* () {
      const sql = yield* table
      const seen: Array<number | undefined> = []
      const tell = sql.afterCommit(Effect.ignore(Effect.map(count, (n) => seen.push(n))))
      const body = Effect.andThen(tell, sql`INSERT INTO notes (text) VALUES ('a')`)
      yield* sql.withTransaction(body)
      yield* Effect.ignore(sql.withTransaction(Effect.andThen(body, Effect.fail("no"))))
      assert.deepStrictEqual(seen, [1])
    }).pipe(Effect.provide(Memory))
  )

  it.effect("interrupts a statement that waits, and frees the connection of an interrupted transaction", () =>
    Effect.gen(function* () {
      const sql = yield* table
      const inside = yield* Deferred.make<void>()
      const holder = yield* Deferred.succeed(inside, undefined).pipe(
        Effect.andThen(Effect.never),
        sql.withTransaction,
        Effect.forkChild
      )
      yield* Deferred.await(inside)
      const waiting = yield* Effect.forkChild(sql`SELECT 1`)
      const waitingToBegin = yield* Effect.forkChild(sql.withTransaction(sql`SELECT 1`))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(waiting)
      yield* Fiber.interrupt(waitingToBegin)
      yield* Fiber.interrupt(holder)
      assert.strictEqual(yield* count, 0)
    }).pipe(Effect.provide(Memory))
  )

  it.effect("reserves the connection for a scope", () =>
    Effect.gen(function* () {
      const sql = yield* table
      const scope = yield* Scope.make()
      const connection = yield* Scope.provide(sql.reserve, scope)
      yield* connection.execute("INSERT INTO notes (text) VALUES ('a')", [], undefined)
      const other = yield* Effect.forkChild(count)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(yield* Fiber.join(other), 1)
    }).pipe(Effect.provide(Memory))
  )
})

describe("streams", () => {
  const many = Effect.gen(function* () {
    const sql = yield* table
    yield* sql`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
      INSERT INTO notes (id, text) SELECT i, 'x' FROM n`
    return sql
  })

  it.effect("streams all rows in order, and no rows of an empty table", () =>
    Effect.gen(function* () {
      const sql = yield* many
      const ids = yield* Stream.runCollect(
        Stream.map(sql<{ id: number }>`SELECT id FROM notes`.stream, ({ id }) => id)
      )
      assert.deepStrictEqual(
        ids,
        Array.from({ length: 1000 }, (_, index) => index + 1)
      )
      assert.deepStrictEqual(yield* Stream.runCollect(sql`SELECT 1 AS a WHERE 0`.stream), [])
    }).pipe(Effect.provide(Memory))
  )

  it.effect("frees the connection of a stream that ends early or fails", () =>
    Effect.gen(function* () {
      const sql = yield* many
      const stream = sql`SELECT id FROM notes`.stream
      assert.strictEqual((yield* Stream.runCollect(Stream.take(stream, 300))).length, 300)
      assert.strictEqual(yield* Effect.flip(Stream.runForEach(stream, () => Effect.fail("no"))), "no")
      assert.instanceOf(yield* Effect.flip(Stream.runDrain(sql`SELECT nothing`.stream)), SqlError.SqlError)
      // No cursor is open, so the table can be dropped.
      yield* sql`DROP TABLE notes`
    }).pipe(Effect.provide(Memory))
  )

  it.effect("streams rows inside the transaction that wrote them", () =>
    Effect.gen(function* () {
      const sql = yield* many
      const rows = yield* sql.withTransaction(
        Effect.andThen(
          sql`DELETE FROM notes WHERE id > 2`,
          Stream.runCollect(sql`SELECT id FROM notes`.stream)
        )
      )
      assert.deepStrictEqual(rows, [{ id: 1 }, { id: 2 }])
    }).pipe(Effect.provide(Memory))
  )

  it.effect("reads a long list in pages by key, while other statements write between the pages", () =>
    Effect.gen(function* () {
      const sql = yield* many
      const pages = Stream.paginate(0, (after) =>
        Effect.map(
          sql<{ id: number }>`SELECT id FROM notes WHERE id > ${after} ORDER BY id LIMIT 300`,
          (rows) => [rows, Option.map(Option.fromNullishOr(rows.at(-1)), ({ id }) => id)] as const
        )
      )
      const ids = yield* Stream.runCollect(
        Stream.mapEffect(pages, ({ id }) =>
          Effect.as(
            id === 100 ? Effect.asVoid(sql`INSERT INTO notes (text) VALUES ('later')`) : Effect.void,
            id
          )
        )
      )
      assert.strictEqual(ids.length, 1001)
    }).pipe(Effect.provide(Memory))
  )
})

describe("reactive queries", () => {
  it.effect("reruns a query after a mutation of its key, and after the commit of a transaction", () =>
    Effect.gen(function* () {
      const sql = yield* table
      const results = yield* sql.reactiveMailbox(["notes"], count)
      assert.strictEqual(yield* Queue.take(results), 0)
      const insert = Reactivity.mutation(sql`INSERT INTO notes (text) VALUES ('a')`, ["notes"])
      yield* insert
      assert.strictEqual(yield* Queue.take(results), 1)
      yield* sql.withTransaction(Effect.andThen(insert, insert))
      assert.strictEqual(yield* Queue.take(results), 3)
      const streamed = yield* Stream.runHead(sql.reactive(["notes"], count))
      assert.deepStrictEqual(streamed, Option.some(3))
    }).pipe(Effect.scoped, Effect.provide(Memory))
  )
})

describe("migrations", () => {
  const migrate = (ran: Array<string>) =>
    Migrator.make({})({
      table: "app_migrations",
      loader: Migrator.fromRecord({
        "1_notes": Effect.andThen(
          table,
          Effect.sync(() => ran.push("notes"))
        ),
        "2_title": Effect.flatMap(SqlClient.SqlClient, (sql) =>
          Effect.andThen(
            sql`ALTER TABLE notes ADD COLUMN title TEXT`,
            Effect.sync(() => ran.push("title"))
          )
        )
      })
    })

  // Live, because the client that finds the file locked waits by the real clock.
  it.live("runs each migration once, even when two clients of a file start together", () =>
    Effect.gen(function* () {
      const filename = join(yield* Folder.make, "a.db")
      const ran: Array<string> = []
      const one = Effect.provide(migrate(ran), SqliteClient.layer({ filename }))
      yield* Effect.all([one, one], { concurrency: 2 })
      assert.deepStrictEqual(yield* one, [])
      assert.deepStrictEqual(ran, ["notes", "title"])
    })
  )

  it.effect("leaves no changes of a migration that fails", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const loader = Migrator.fromRecord({
        "1_notes": table,
        "2_wrong": Effect.flatMap(SqlClient.SqlClient, (sql) => sql`ALTER TABLE nothing ADD COLUMN a`)
      } as Record<string, Effect.Effect<void, unknown, SqlClient.SqlClient>>)
      yield* Effect.flip(Migrator.make({})({ loader }))
      assert.deepStrictEqual(yield* sql`SELECT name FROM sqlite_master WHERE name = 'notes'`, [])
    }).pipe(Effect.provide(Memory))
  )
})
