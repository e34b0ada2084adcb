/** Programs in which SQLite cannot run: an old Node, and a bundle without the file of the thread. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { rolldown } from "rolldown"
import { StoreLock } from "@outlast/node/lock"
import { SqliteClient } from "@outlast/node/sqlite"
import * as Folder from "../support/Folder.ts"

const withVersion = (node: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const { versions } = process
      Object.defineProperty(process, "versions", { value: { ...versions, node }, configurable: true })
      return versions
    }),
    (versions) =>
      Effect.sync(() => Object.defineProperty(process, "versions", { value: versions, configurable: true }))
  )

it.live.each(["20.20.2", "22.15.1", "23.11.1"])(
  "Node %s: the error names the version, and not the file",
  (version) =>
    Effect.gen(function* () {
      const filename = join(yield* Folder.make, "a.db")
      yield* withVersion(version)
      const error = yield* Effect.flip(Layer.build(SqliteClient.layer({ filename })))
      assert.strictEqual(
        error.message,
        `Store \`sqlite\` is unavailable: SQLite needs Node 22.16 or newer, and this is Node ${version}. Use Node 22.16, or Node 24 or newer (Node 23 has no such SQLite).`
      )
      assert.isFalse(error.isRetryable)

      const locked = yield* Effect.flip(StoreLock.acquire(join(yield* Folder.make, "a.lock")))
      assert.include(
        locked.message,
        `SQLite needs Node 22.16 or newer, and this is Node ${version}. Use Node 22.16,`
      )
      assert.notInclude(locked.message, "a.lock")
    })
)

it.live.each(["22.16.0", "24.0.0", "26.1.0"])("Node %s can run it", (version) =>
  Effect.gen(function* () {
    yield* withVersion(version)
    const built = yield* Effect.exit(Layer.build(SqliteClient.layer({ filename: ":memory:" })))
    assert.strictEqual(built._tag, "Success")
  })
)

const program = `
import { Effect, Layer } from "effect"
import { StoreLock } from "@outlast/node/lock"
import { SqliteClient } from "@outlast/node/sqlite"

Effect.runPromise(Effect.flip(Effect.scoped(Layer.build(SqliteClient.layer({ filename: "a.db" }))))).then((error) =>
  console.log(error.message)
)
`

// CommonJS has no `import.meta.url`.
it.live.each(["es", "cjs"] as const)(
  "a bundle (%s): the error says to keep the package out of it",
  (format) =>
    Effect.gen(function* () {
      const folder = yield* Folder.make
      const file = join(folder, `program.${format === "es" ? "mjs" : "cjs"}`)
      yield* Effect.promise(async () => {
        const bundle = await rolldown({
          input: "program",
          platform: "node",
          resolve: { conditionNames: ["@outlast/source", "node", "import", "default"] },
          logLevel: "silent",
          plugins: [
            {
              name: "program",
              resolveId: (id, importer) =>
                id === "program"
                  ? id
                  : importer === "program"
                    ? { id: fileURLToPath(import.meta.resolve(id)) }
                    : undefined,
              load: (id) => (id === "program" ? program : undefined)
            }
          ]
        })
        await bundle.write({ file, format, codeSplitting: false })
        await bundle.close()
      })
      const output = execFileSync(process.execPath, [file], { cwd: folder, encoding: "utf8" })
      assert.strictEqual(
        output,
        "Store `sqlite` is unavailable: the file of its worker thread (SqliteWorker.js) is missing, as in a bundle. Keep @outlast/node out of the bundle: mark it as external, and install it where the program runs.\n"
      )
    })
)
