import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Schema } from "effect"
import { SqlError } from "effect/sql"
import { inspect } from "node:util"
import { StoreError } from "@outlast/resilience"

const where = { store: "outbox", file: "/data/outbox.db" }

/** What node:sqlite throws. */
const nodeSqlite = (errcode: number) =>
  Object.assign(new Error("database failed at VALUES ('secret')"), {
    code: "ERR_SQLITE_ERROR",
    errcode,
    errstr: "?"
  })

const unknown = (cause: unknown) => new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause }) })
const reasonOf = (cause: unknown) => StoreError.fromSqlError(unknown(cause), where)?.reason

describe("StoreError.fromSqlError", () => {
  const none = undefined
  const ofSqlite = [
    [1, none],
    [3, "readOnly"],
    [5, "locked"],
    [6, "locked"],
    [7, "unavailable"],
    [8, "readOnly"],
    [10, "unavailable"],
    [11, "corrupt"],
    [13, "full"],
    [14, "unavailable"],
    [15, "locked"],
    [18, none],
    [19, none],
    [22, "unavailable"],
    [23, "readOnly"],
    [24, "corrupt"],
    [26, "corrupt"],
    [517, "locked"],
    [778, "unavailable"],
    [1032, "unavailable"],
    [1802, "unavailable"],
    [2067, none],
    [4874, "full"],
    [6922, "unavailable"],
    [8202, "corrupt"],
    [8458, "corrupt"]
  ] as const
  for (const [errcode, reason] of ofSqlite) {
    it(`reads SQLite's errcode ${errcode} as ${reason ?? "a fault of the statement"}`, () => {
      assert.strictEqual(reasonOf(nodeSqlite(errcode)), reason)
    })
  }

  it("reads the names of better-sqlite3, with and without a number", () => {
    assert.strictEqual(reasonOf({ code: "SQLITE_FULL" }), "full")
    assert.strictEqual(reasonOf({ code: "SQLITE_BUSY_SNAPSHOT" }), "locked")
    assert.strictEqual(reasonOf({ code: "SQLITE_IOERR_SHMSIZE" }), "full")
    assert.strictEqual(reasonOf({ code: "SQLITE_IOERR_WRITE" }), "unavailable")
    assert.strictEqual(reasonOf({ code: "SQLITE_CONSTRAINT_UNIQUE" }), none)
    assert.strictEqual(reasonOf({ code: "SQLITE_ERROR", errno: 11 }), "corrupt")
  })

  const ofPostgres = [
    ["08006", "unavailable"],
    ["23505", none],
    ["25006", "readOnly"],
    ["28P01", "unavailable"],
    ["3D000", "unavailable"],
    ["40001", "locked"],
    ["40P01", "locked"],
    ["42501", "readOnly"],
    ["42601", none],
    ["42P01", none],
    ["53100", "full"],
    ["53200", "unavailable"],
    ["53300", "unavailable"],
    ["55006", "locked"],
    ["55P03", "locked"],
    ["57014", "unavailable"],
    ["57P01", "unavailable"],
    ["58030", "unavailable"],
    ["58P01", "corrupt"],
    ["F0000", "unavailable"],
    ["XX001", "corrupt"]
  ] as const
  for (const [code, reason] of ofPostgres) {
    it(`reads SQLSTATE ${code} as ${reason ?? "a fault of the statement"}`, () => {
      assert.strictEqual(reasonOf(Object.assign(new Error("x"), { code })), reason)
    })
  }

  it("reads the codes of the system, inside of other errors too", () => {
    assert.strictEqual(reasonOf({ code: "ENOSPC" }), "full")
    assert.strictEqual(reasonOf({ code: "EROFS" }), "readOnly")
    assert.strictEqual(reasonOf({ code: "EPIPE" }), "unavailable")
    assert.strictEqual(reasonOf(new AggregateError([{ code: "ECONNREFUSED" }])), "unavailable")
    assert.strictEqual(reasonOf(new Error("x", { cause: nodeSqlite(13) })), "full")
    // What effect's SQLite client gives for a connection whose COMMIT and ROLLBACK failed.
    assert.strictEqual(reasonOf(Cause.fail(unknown(nodeSqlite(11)))), "corrupt")
    assert.strictEqual(reasonOf(Cause.die(nodeSqlite(11))), "corrupt")
  })

  it("returns the StoreError that a client has put into its SqlError", () => {
    const own = new StoreError.StoreError({ reason: "corrupt", store: "db" })
    assert.strictEqual(StoreError.fromSqlError(unknown(own), where), own)
  })

  it("ends on causes that are a circle", () => {
    const circle: { cause?: unknown } = {}
    circle.cause = circle
    assert.strictEqual(reasonOf(circle), none)
  })

  const tags = [
    [new SqlError.ConnectionError({ cause: "?" }), "unavailable"],
    [new SqlError.AuthenticationError({ cause: "?" }), "unavailable"],
    [new SqlError.AuthorizationError({ cause: "?" }), "readOnly"],
    [new SqlError.DeadlockError({ cause: "?" }), "locked"],
    [new SqlError.SerializationError({ cause: "?" }), "locked"],
    [new SqlError.LockTimeoutError({ cause: "?" }), "locked"],
    [new SqlError.StatementTimeoutError({ cause: "?" }), "unavailable"],
    [new SqlError.SqlSyntaxError({ cause: "?" }), none],
    [new SqlError.ConstraintError({ cause: "?" }), none],
    [new SqlError.UniqueViolation({ cause: "?", constraint: "c" }), none],
    [new SqlError.UnknownError({ cause: "?" }), none]
  ] as const
  for (const [reason, wanted] of tags) {
    it(`without a code, reads effect's ${reason._tag} as ${wanted ?? "a fault of the statement"}`, () => {
      assert.strictEqual(StoreError.fromSqlError(new SqlError.SqlError({ reason }), where)?.reason, wanted)
    })
  }
})

describe("StoreError", () => {
  it("says what is wrong with which file and what to do, and nothing of the statement", () => {
    const full = StoreError.fromSqlError(unknown(nodeSqlite(13)), where)
    assert.strictEqual(
      full?.message,
      "Store `outbox` (/data/outbox.db) is full: no space is left on its disk, or its size limit is reached (SQLite error 13). Nothing was stored. Free some space, or raise the limit."
    )
    const moved = StoreError.fromSqlError(unknown(nodeSqlite(1802)), { store: "tasks" })
    assert.strictEqual(
      moved?.message,
      "Store `tasks` is unavailable: its file was deleted, moved or replaced while it was open (SQLite error 1802). Check that the file and its folder, or the server, are there."
    )
    assert.notInclude(inspect(full), "secret")
  })

  it("keeps no credentials of an address", () => {
    const file = "postgres://me:hunter2@db.internal:5432/app?password=hunter3"
    const error = StoreError.fromSqlError(unknown({ code: "08006" }), { store: "tasks", file })
    assert.strictEqual(error?.file, "postgres://db.internal:5432/app")
    assert.notInclude(inspect(error), "hunter")
  })

  it("is retryable where nobody has to act", () => {
    const retryable = StoreError.reasons.filter(
      (reason) => new StoreError.StoreError({ reason, store: "s" }).isRetryable
    )
    assert.deepStrictEqual(retryable, ["locked", "unavailable"])
  })

  it.effect("is a Schema: a workflow can store it", () =>
    Effect.gen(function* () {
      const json = Schema.toCodecJson(StoreError.StoreError)
      const error = new StoreError.StoreError({ reason: "corrupt", ...where, code: "SQLite error 26" })
      const back = yield* Schema.decodeEffect(json)(yield* Schema.encodeEffect(json)(error))
      assert.instanceOf(back, StoreError.StoreError)
      assert.strictEqual(back.message, error.message)
    })
  )
})

describe("StoreError.mapSqlError", () => {
  it.effect("fails with the store's error, and dies of a statement's", () =>
    Effect.gen(function* () {
      const map = StoreError.mapSqlError(where)
      const locked = yield* Effect.flip(map(Effect.fail(unknown(nodeSqlite(5)))))
      assert.strictEqual(locked.reason, "locked")
      const syntax = unknown(nodeSqlite(1))
      assert.deepStrictEqual(yield* Effect.exit(map(Effect.fail(syntax))), Exit.die(syntax))
      assert.strictEqual(yield* Effect.flip(map(Effect.fail("other" as const))), "other")
    })
  )
})
