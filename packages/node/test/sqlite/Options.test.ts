/** The effect of each option of the client, and the errors for invalid options. */
import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { existsSync, readdirSync } from "node:fs"
import { isAbsolute, join, relative } from "node:path"
import { SqliteClient } from "@outlast/node/sqlite"
import * as Folder from "../support/Folder.ts"

const pragma = (name: string, options?: Partial<SqliteClient.Options>) =>
  Effect.gen(function* () {
    const filename = join(yield* Folder.make, "a.db")
    const context = yield* Layer.build(SqliteClient.layer({ filename, ...options }))
    const rows = yield* Context.get(context, SqlClient.SqlClient).unsafe(`PRAGMA ${name}`).values
    return rows[0]?.[0]
  })

describe("SqliteClient", () => {
  it.live("layerConfig takes its settings from the environment", () =>
    Effect.gen(function* () {
      const filename = join(yield* Folder.make, "env.db")
      const layer = SqliteClient.layerConfig({
        filename: Config.String("DATABASE"),
        synchronous: Config.Literals(["normal", "full"], "SYNCHRONOUS")
      })
      const env = ConfigProvider.fromEnv({ env: { DATABASE: filename, SYNCHRONOUS: "normal" } })
      const context = yield* Layer.build(layer).pipe(Effect.provide(ConfigProvider.layer(env)))
      const rows = yield* Context.get(context, SqlClient.SqlClient).unsafe("PRAGMA synchronous").values
      assert.strictEqual(rows[0]?.[0], 1)
      assert.isTrue(existsSync(filename))
    })
  )

  it.live("uses a write-ahead log and syncs every commit by default", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* pragma("journal_mode"), "wal")
      assert.strictEqual(yield* pragma("synchronous"), 2)
      assert.strictEqual(yield* pragma("busy_timeout"), 10)
      assert.strictEqual(yield* pragma("foreign_keys"), 1)
    })
  )

  it.live("passes `synchronous` and `busyTimeout` to SQLite", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* pragma("synchronous", { synchronous: "normal" }), 1)
      assert.strictEqual(yield* pragma("synchronous", { synchronous: "extra" }), 3)
      assert.strictEqual(yield* pragma("busy_timeout", { busyTimeout: "20 millis" }), 20)
    })
  )

  it.live("resolves a relative path from the working directory, and shows the absolute one", () =>
    Effect.gen(function* () {
      const path = relative(process.cwd(), join(yield* Folder.make, "no", "a.db"))
      const error = yield* Effect.flip(Effect.scoped(Layer.build(SqliteClient.layer({ filename: path }))))
      assert.isTrue(isAbsolute(error.file ?? ""))
      assert.strictEqual(error.store, SqliteClient.defaults.store)
    })
  )

  it.live("moves the log into the file when its scope closes", () =>
    Effect.gen(function* () {
      const folder = yield* Folder.make
      const opened = Layer.build(SqliteClient.layer({ filename: join(folder, "a.db") }))
      const create = Effect.flatMap(opened, (context) =>
        Effect.map(Context.get(context, SqlClient.SqlClient)`CREATE TABLE t (a)`, () => readdirSync(folder))
      )
      assert.deepStrictEqual(yield* Effect.scoped(create), ["a.db", "a.db-shm", "a.db-wal"])
      assert.deepStrictEqual(readdirSync(folder), ["a.db"])
    })
  )

  it("throws for invalid options", () => {
    const wrong = (options: object, message: RegExp) => {
      // Called as from JavaScript.
      const given = options as SqliteClient.Options
      assert.throws(() => SqliteClient.layer(given), message)
      assert.throws(() => SqliteClient.make(given), message)
    }
    wrong({}, /filename is missing/)
    wrong({ filename: "" }, /filename must be a text that is not empty/)
    wrong({ filename: "a", store: "" }, /store must be/)
    wrong({ filename: "a", synchronous: "off" }, /synchronous must be "normal" or "full" or "extra"/)
    wrong({ filename: "a", create: 1 }, /create must be true or false/)
    wrong({ filename: "a", busyTimeout: "21 millis" }, /busyTimeout must be a duration from 0 to 20ms/)
    wrong({ filename: "a", lockWait: -1 }, /lockWait must be/)
    wrong({ filename: "a", networkFileSystem: "warn" }, /networkFileSystem must be "refuse" or "allow"/)
    wrong({ filename: "a", timeout: 1 }, /"timeout" is not an option/)
  })
})
