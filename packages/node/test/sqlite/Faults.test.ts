/** Failures of the disk, the file, another process or the thread, with real files, processes and threads. */
import { assert, describe, it } from "@effect/vitest"
import type { Duration } from "effect"
import { Context, Effect, Exit, Fiber, Layer, Stream } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import {
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  closeSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { join } from "node:path"
import { vi } from "vitest"
import type { Worker } from "node:worker_threads"
import { SqliteClient } from "@outlast/node/sqlite"
import { StoreError } from "@outlast/resilience"
import * as Child from "../support/Child.ts"
import * as Folder from "../support/Folder.ts"
import * as Mount from "../../../../test/services/Mount.ts"

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000 })

const newPath = Effect.map(Folder.make, (folder) => join(folder, "a.db"))
const where = { store: "other name" }

/** A client of a file with a table `t`. */
const on = (filename: string, options?: Partial<SqliteClient.Options>) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(SqliteClient.layer({ filename, store: "notes", ...options }))
    const sql = Context.get(context, SqlClient.SqlClient)
    yield* sql`CREATE TABLE IF NOT EXISTS t (a)`
    return sql
  })

const open = (options: SqliteClient.Options) => Effect.scoped(Layer.build(SqliteClient.layer(options)))

const count = (sql: SqlClient.SqlClient) =>
  Effect.map(sql<{ n: number }>`SELECT count(*) AS n FROM t`, ([row]) => row?.n)

/** Returns the reason that a program sees, and checks that the error names the file. */
const reasonOf = (error: unknown, file: string): StoreError.Reason | undefined => {
  assert.instanceOf(error, SqlError.SqlError)
  assert.include(error.message, `\`notes\` (${file})`)
  return StoreError.fromSqlError(error, where)?.reason
}

describe("a full disk", () => {
  const block = new Uint8Array(64 * 1024)
  const insert = (sql: SqlClient.SqlClient) => sql`INSERT INTO t VALUES (${block})`

  /** Programs on a store that is full after some blocks. `room` frees space. */
  const cases = [
    {
      name: "a file system without space",
      skip: Mount.missing !== undefined,
      make: Effect.gen(function* () {
        const folder = yield* Mount.tmpfs("2m")
        const ballast = join(folder, "ballast")
        writeFileSync(ballast, new Uint8Array(1024 * 1024))
        const file = join(folder, "a.db")
        return { file, sql: yield* on(file), room: Effect.sync(() => rmSync(ballast)) }
      })
    },
    {
      name: "a database at its size limit",
      skip: false,
      make: Effect.gen(function* () {
        const file = yield* newPath
        const sql = yield* on(file)
        yield* sql`PRAGMA max_page_count = 100`
        return { file, sql, room: Effect.asVoid(sql`PRAGMA max_page_count = 10000`) }
      })
    }
  ]
  for (const { make, name, skip } of cases) {
    it.live.skipIf(skip)(`${name}: a statement fails, and succeeds when there is room again`, () =>
      Effect.gen(function* () {
        const { file, room, sql } = yield* make
        const error = yield* Effect.flip(Effect.forever(insert(sql)))
        assert.strictEqual(reasonOf(error, file), "full")
        const before = yield* count(sql)
        yield* room
        yield* insert(sql)
        assert.strictEqual(yield* count(sql), (before ?? 0) + 1)
      })
    )

    it.live.skipIf(skip)(`${name}: a transaction stores nothing, even when its program continues`, () =>
      Effect.gen(function* () {
        const { file, room, sql } = yield* make
        const fill = Effect.flip(Effect.forever(insert(sql)))
        const failed = yield* Effect.flip(sql.withTransaction(Effect.forever(insert(sql))))
        assert.strictEqual(reasonOf(failed, file), "full")
        assert.strictEqual(yield* count(sql), 0)

        // The error is caught inside. A later statement must not be stored alone.
        const caught = yield* sql`INSERT INTO t VALUES ('first')`.pipe(
          Effect.andThen(fill),
          Effect.andThen(room),
          Effect.andThen(Effect.ignore(sql`INSERT INTO t VALUES ('after')`)),
          sql.withTransaction,
          Effect.exit
        )
        const rows = yield* sql`SELECT count(*) FROM t WHERE a IN ('first', 'after')`.values
        // Either SQLite has rolled back everything, or everything is stored.
        if (Exit.isSuccess(caught)) assert.deepStrictEqual(rows, [[2]])
        else assert.deepStrictEqual(rows, [[0]])
        yield* sql.withTransaction(insert(sql))
      })
    )
  }

  it.live("runs no statement after SQLite has rolled back the transaction", () =>
    Effect.gen(function* () {
      const file = yield* newPath
      const sql = yield* on(file)
      const seen: Array<string> = []
      const exit = yield* sql`INSERT OR ROLLBACK INTO t VALUES (1)`.pipe(
        Effect.andThen(Effect.flip(sql`INSERT OR ROLLBACK INTO nothing VALUES (1)`)),
        Effect.andThen(sql`CREATE UNIQUE INDEX u ON t (a)`),
        Effect.andThen(Effect.flip(sql`INSERT OR ROLLBACK INTO t VALUES (1)`)),
        Effect.andThen(Effect.flip(sql`INSERT INTO t VALUES (2)`)),
        Effect.tap((error) => Effect.sync(() => seen.push(error.message))),
        sql.withTransaction,
        Effect.exit
      )
      assert.isTrue(Exit.isFailure(exit))
      assert.deepStrictEqual(seen, [
        "Not run: the transaction was already rolled back with all of its statements. UNIQUE constraint failed: t.a"
      ])
      assert.strictEqual(yield* count(sql), 0)
      yield* sql.withTransaction(sql`INSERT INTO t VALUES (3)`)
      assert.strictEqual(yield* count(sql), 1)
    })
  )
})

describe("a file that cannot be used", () => {
  it.live.skipIf(Mount.missing !== undefined)(
    "a read-only folder fails at once, with and without a file",
    () =>
      Effect.gen(function* () {
        const folder = yield* Mount.tmpfs("1m")
        const filename = join(folder, "a.db")
        yield* Effect.scoped(on(filename))
        yield* Mount.readOnly(folder)
        for (const file of [filename, join(folder, "b.db")]) {
          const error = yield* Effect.flip(open({ filename: file, store: "notes" }))
          assert.deepInclude(error, { _tag: "StoreError", reason: "readOnly", file })
          assert.match(
            error.message,
            /^Store `notes` \(.*\.db\) is read-only: it takes no writes \(EROFS\)\./
          )
        }
      })
  )

  it.live.skipIf(Mount.missing !== undefined)(
    "a writable file in a read-only folder is rejected, because its log cannot be created",
    () =>
      Effect.gen(function* () {
        const folder = yield* Mount.tmpfs("1m")
        const filename = join(folder, "a.db")
        yield* Effect.scoped(on(filename))
        yield* Mount.readOnly(folder)
        const writable = join(yield* Mount.tmpfs("1m"), "a.db")
        writeFileSync(writable, readFileSync(filename))
        yield* Mount.bindFile(writable, filename)
        const error = yield* Effect.flip(open({ filename, store: "notes" }))
        assert.deepInclude(error, { reason: "readOnly", code: "EROFS" })
      })
  )

  it.live("reports a missing folder, and a folder in place of the file, as unavailable", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const missing = yield* Effect.flip(open({ filename: join(path, "..", "no", "a.db") }))
      assert.deepInclude(missing, { reason: "unavailable", code: "ENOENT" })
      mkdirSync(path)
      const folder = yield* Effect.flip(open({ filename: path }))
      assert.deepInclude(folder, { reason: "unavailable", detail: "its path is not a regular file" })
    })
  )

  it.live("rejects a missing file when `create` is false", () =>
    Effect.gen(function* () {
      const filename = yield* newPath
      const error = yield* Effect.flip(open({ filename, create: false }))
      assert.strictEqual(error.reason, "unavailable")
      assert.include(error.message, "its file does not exist")
      assert.isUndefined(statSync(filename, { throwIfNoEntry: false }))
      yield* open({ filename })
      yield* open({ filename, create: false })
    })
  )

  it.live("fails for a corrupt header, names the file and leaves it unchanged", () =>
    Effect.gen(function* () {
      const filename = yield* newPath
      yield* Effect.scoped(on(filename))
      const file = openSync(filename, "r+")
      writeSync(file, "SQLite format 7\0", 0)
      closeSync(file)
      const before = readFileSync(filename)
      const error = yield* Effect.flip(open({ filename, store: "notes" }))
      assert.deepInclude(error, { reason: "corrupt", file: filename, code: "SQLite error 26" })
      assert.deepStrictEqual(readFileSync(filename), before)
      assert.include(error.message, "It was left as it is.")
    })
  )

  it.live("fails the statement that reads damaged pages", () =>
    Effect.gen(function* () {
      const filename = yield* newPath
      yield* Effect.scoped(
        Effect.flatMap(on(filename), (sql) => sql`INSERT INTO t VALUES (${"x".repeat(50_000)})`)
      )
      const { size } = statSync(filename)
      const file = openSync(filename, "r+")
      writeSync(file, new Uint8Array(size - 4096).fill(0xff), 0, size - 4096, 4096)
      closeSync(file)
      const error = yield* on(filename).pipe(
        Effect.flatMap((sql) => sql`SELECT a FROM t`),
        Effect.flip
      )
      assert.strictEqual(reasonOf(error, filename), "corrupt")
    })
  )

  it.live("does not create a new database when the file is missing but its write-ahead log exists", () =>
    Effect.gen(function* () {
      const filename = yield* newPath
      writeFileSync(`${filename}-wal`, "committed, and not in the file yet")
      const error = yield* Effect.flip(open({ filename }))
      assert.strictEqual(error.reason, "corrupt")
      assert.include(error.message, "its file is missing, but its write-ahead log (-wal) exists")
      assert.isUndefined(statSync(filename, { throwIfNoEntry: false }))
    })
  )

  it.live("creates files that only their owner can read", () =>
    Effect.gen(function* () {
      const filename = yield* newPath
      yield* on(filename)
      for (const end of ["", "-wal", "-shm"]) {
        assert.strictEqual(statSync(filename + end).mode & 0o777, 0o600, end)
      }
    })
  )
})

describe("a file that changes underneath", () => {
  const changes: ReadonlyArray<readonly [name: string, change: (file: string) => void]> = [
    ["deleted", (file) => rmSync(file)],
    ["moved away", (file) => renameSync(file, `${file}.old`)],
    [
      "replaced by another file",
      (file) => {
        writeFileSync(`${file}.new`, "")
        renameSync(`${file}.new`, file)
      }
    ],
    ["without its write-ahead log", (file) => rmSync(`${file}-wal`)]
  ]
  for (const [name, change] of changes) {
    it.live(`${name}: statements and commits fail and report the change`, () =>
      Effect.gen(function* () {
        const file = yield* newPath
        const sql = yield* on(file)
        yield* sql`INSERT INTO t VALUES (1)`
        const during = yield* Effect.flip(
          sql.withTransaction(
            Effect.andThen(
              sql`INSERT INTO t VALUES (2)`,
              Effect.sync(() => change(file))
            )
          )
        )
        const after = yield* Effect.flip(sql`INSERT INTO t VALUES (3)`)
        for (const error of [during, after]) {
          assert.strictEqual(reasonOf(error, file), "unavailable")
          assert.include(error.message, "was deleted, moved or replaced while it was open")
        }
      })
    )
  }
})

describe("a lock of another process", () => {
  const program = new URL("../support/lockingProcess.ts", import.meta.url)

  /** A client, and another process that can lock its file. */
  const withOther = Effect.fnUntraced(function* (lockWait: Duration.Input) {
    const file = yield* newPath
    const sql = yield* on(file, { lockWait })
    const other = yield* Child.start(program, [file])
    yield* other.line("ready")
    return { file, sql, other }
  })

  it.live("makes statements and transactions wait while the event loop continues", () =>
    Effect.gen(function* () {
      const { sql, other } = yield* withOther("1 minute")
      const waiters = [sql`INSERT INTO t VALUES (1)`, sql.withTransaction(sql`INSERT INTO t VALUES (2)`)]
      for (const waiter of waiters) {
        yield* other.send("lock")
        yield* other.line("locked")
        const waiting = yield* Effect.forkChild(waiter, { startImmediately: true })
        // Each answer of the process needs a turn of this event loop.
        for (let ping = 0; ping < 200; ping++) {
          yield* other.send("ping")
          yield* other.line("pong")
        }
        assert.isUndefined(waiting.pollUnsafe())
        // A reader does not wait for the writer.
        yield* sql`SELECT a FROM t`
        yield* other.send("commit")
        yield* Fiber.join(waiting)
      }
      assert.strictEqual(yield* count(sql), 2)
    })
  )

  it.live("ends the wait at once when it is interrupted", () =>
    Effect.gen(function* () {
      const { sql, other } = yield* withOther("1 hour")
      yield* other.send("lock")
      yield* other.line("locked")
      for (const waiter of [
        sql`INSERT INTO t VALUES (1)`,
        sql.withTransaction(sql`INSERT INTO t VALUES (2)`)
      ]) {
        const waiting = yield* Effect.forkChild(waiter, { startImmediately: true })
        yield* sql`SELECT a FROM t`
        yield* Fiber.interrupt(waiting)
      }
      yield* other.send("commit")
      yield* other.line("committed")
      assert.strictEqual(yield* count(sql), 0)
    })
  )

  it.live("fails statements and opening when the wait is over, and names the file", () =>
    Effect.gen(function* () {
      const { file, sql, other } = yield* withOther("20 millis")
      yield* other.send("lock")
      yield* other.line("locked")
      assert.strictEqual(reasonOf(yield* Effect.flip(sql`INSERT INTO t VALUES (1)`), file), "locked")
      const begin = yield* Effect.flip(sql.withTransaction(sql`INSERT INTO t VALUES (1)`))
      assert.strictEqual(reasonOf(begin, file), "locked")
      // Readers continue.
      assert.strictEqual(yield* count(sql), 0)

      const second = yield* newPath
      const owner = yield* Child.start(program, [second])
      yield* owner.line("ready")
      yield* owner.send("exclusive")
      yield* owner.line("locked")
      const error = yield* Effect.flip(open({ filename: second, lockWait: "20 millis" }))
      assert.deepInclude(error, { reason: "locked", file: second })
      const patient = yield* Effect.forkChild(open({ filename: second, lockWait: "1 minute" }))
      yield* owner.send("commit")
      yield* Fiber.join(patient)
    })
  )

  it.live("does not wait for a lock inside a transaction", () =>
    Effect.gen(function* () {
      const { file, sql, other } = yield* withOther("1 hour")
      const error = yield* count(sql).pipe(
        Effect.andThen(other.send("lock")),
        Effect.andThen(other.line("locked")),
        Effect.andThen(sql`INSERT INTO t VALUES (1)`),
        sql.withTransaction,
        Effect.provideService(SqlClient.BeginTransaction, "BEGIN DEFERRED"),
        Effect.flip
      )
      assert.strictEqual(reasonOf(error, file), "locked")
    })
  )
})

describe("a worker thread that ends", () => {
  /** A client and its most recent thread. */
  const withThread = (filename: string) =>
    Effect.gen(function* () {
      const threads: Array<Worker> = []
      const listener = (worker: Worker) => threads.push(worker)
      yield* Effect.acquireRelease(
        Effect.sync(() => process.on("worker", listener)),
        () => Effect.sync(() => process.off("worker", listener))
      )
      const sql = yield* on(filename)
      // Terminating twice would only add listeners.
      const kill = Effect.sync(() => void threads.splice(0).at(-1)?.terminate())
      return { sql, kill, newThreads: () => threads.length }
    })

  it.live("fails the running statement, and the next one reopens the file", () =>
    Effect.gen(function* () {
      const file = yield* newPath
      const { kill, newThreads, sql } = yield* withThread(file)
      yield* sql`INSERT INTO t VALUES (1)`
      yield* kill
      const error = yield* Effect.flip(sql`INSERT INTO t VALUES (2)`)
      assert.strictEqual(reasonOf(error, file), "unavailable")
      assert.include(error.message, "SQLite's worker thread ended")
      assert.strictEqual(yield* count(sql), 1)
      assert.strictEqual(newThreads(), 1)
    })
  )

  it.live("does not create a new file when the old one was deleted before reopening", () =>
    Effect.gen(function* () {
      const file = yield* newPath
      const { kill, sql } = yield* withThread(file)
      yield* kill
      yield* Effect.flip(sql`SELECT 1`)
      for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true })
      const error = yield* Effect.flip(sql`SELECT 1`)
      assert.strictEqual(StoreError.fromSqlError(error, where)?.reason, "unavailable")
      assert.include(error.message, "its file does not exist, and is not created")
      assert.isUndefined(statSync(file, { throwIfNoEntry: false }))
    })
  )

  it.live(
    "rolls back the open transaction, runs none of its later statements, and fails without a defect",
    () =>
      Effect.gen(function* () {
        const file = yield* newPath
        const { kill, sql } = yield* withThread(file)
        const insert = sql`INSERT INTO t VALUES (1)`
        const caught = Effect.andThen(kill, Effect.ignore(insert))
        const program = Effect.andThen(Effect.andThen(insert, caught), insert)
        const error = yield* Effect.flip(sql.withTransaction(program))
        assert.strictEqual(reasonOf(error, file), "unavailable")
        assert.strictEqual(yield* count(sql), 0)
        yield* sql.withTransaction(insert)
        assert.strictEqual(yield* count(sql), 1)
      })
  )

  it.live("fails a running stream", () =>
    Effect.gen(function* () {
      const file = yield* newPath
      const { kill, sql } = yield* withThread(file)
      yield* sql`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
        INSERT INTO t SELECT i FROM n`
      const error = yield* Effect.flip(Stream.runForEach(sql`SELECT a FROM t`.stream, () => kill))
      assert.strictEqual(reasonOf(error, file), "unavailable")
      assert.strictEqual(yield* count(sql), 1000)
    })
  )

  it.live("loses an in-memory database, and reports it with every statement", () =>
    Effect.gen(function* () {
      const { kill, sql } = yield* withThread(":memory:")
      yield* kill
      yield* Effect.flip(sql`SELECT 1`)
      const error = yield* Effect.flip(sql`SELECT 1`)
      assert.match(error.message, /^Store `notes` was in memory and is lost: SQLite's worker thread ended/)
      assert.strictEqual(StoreError.fromSqlError(error, where)?.reason, "unavailable")
    })
  )
})
