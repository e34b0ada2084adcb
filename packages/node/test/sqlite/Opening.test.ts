import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SqliteClient, StoreLock } from "@outlast/node"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-opening-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

const problemOf = (filename: string) =>
  Effect.flip(Effect.scoped(Layer.build(SqliteClient.layer({ filename }))))

describe("opening a path that is not a database", () => {
  it.effect(
    "reports an empty file next to a write-ahead log with content as corrupt, and keeps the log",
    () =>
      Effect.gen(function* () {
        const path = yield* folder
        const filename = join(path, "a.db")
        const other = new DatabaseSync(join(path, "other.db"))
        other.exec("PRAGMA journal_mode=WAL; CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1)")
        copyFileSync(join(path, "other.db-wal"), `${filename}-wal`)
        other.close()
        writeFileSync(filename, "")
        const log = readFileSync(`${filename}-wal`)
        const error = yield* problemOf(filename)
        assert.strictEqual(error.reason, "corrupt")
        assert.include(error.message, "its file is empty, but its write-ahead log (-wal) exists")
        assert.deepStrictEqual(readFileSync(`${filename}-wal`), log)
      })
  )

  it.effect("reports a file of one byte as corrupt, and does not change it", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "a.db")
      writeFileSync(filename, "\n")
      assert.strictEqual((yield* problemOf(filename)).reason, "corrupt")
      assert.strictEqual(readFileSync(filename, "utf8"), "\n")
    })
  )

  it.effect("names a device, a folder, and a file in place of the folder", () =>
    Effect.gen(function* () {
      const path = yield* folder
      mkdirSync(join(path, "folder"))
      writeFileSync(join(path, "file"), "")
      for (const filename of ["/dev/null", join(path, "folder")]) {
        const error = yield* problemOf(filename)
        assert.strictEqual(error.reason, "unavailable")
        assert.include(error.message, `(${filename}) is unavailable: its path is not a regular file`)
      }
      const error = yield* problemOf(join(path, "file", "a.db"))
      assert.strictEqual(error.reason, "unavailable")
      assert.include(error.message, "its parent path is not a folder")
    })
  )

  it.effect("rejects a lock on anything but a regular file", () =>
    Effect.gen(function* () {
      for (const path of ["/dev/null", yield* folder]) {
        const error = yield* Effect.flip(Effect.scoped(StoreLock.acquire(path)))
        assert.strictEqual(error.reason, "unavailable")
        assert.include(error.message, "its path is not a regular file")
      }
    })
  )
})
