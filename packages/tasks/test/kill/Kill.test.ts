/** Processes that kill themselves with SIGKILL at eight points of a task, on SQLite. */
import { assert, describe, it } from "vitest"
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Programs from "../../../../test/programs.ts"

const program = Programs.bundled(new URL("program.ts", import.meta.url))

const run = (folder: string, point: string, mode: string) =>
  spawnSync(process.execPath, [program, folder, point, mode], {
    encoding: "utf8",
    timeout: 60_000
  })

const inFolder = (use: (folder: string) => void) => {
  const folder = mkdtempSync(join(tmpdir(), "outlast-tasks-"))
  try {
    use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const effectsOf = (folder: string): ReadonlyArray<string> =>
  readFileSync(join(folder, "effects.log"), "utf8").split("\n").filter(Boolean)

const payments = (folder: string) => effectsOf(folder).filter((line) => line.startsWith("pay "))

/** Points of the task, in their order. */
const points = [
  "submitted",
  "ask:1",
  "look:before",
  "look:after",
  "ask:2",
  "pay:before",
  "pay:after",
  "ask:3"
]

describe("a worker on SQLite", () => {
  it(
    "that is killed eight times ends the task once, and pays once, where the shop can be asked",
    () =>
      inFolder((folder) => {
        for (const point of points) {
          const { signal, stderr } = run(folder, point, "ask")
          // The payment is not repeated, so `pay:after` is not reached a second time.
          assert.strictEqual(signal, "SIGKILL", `${point}: ${stderr}`)
        }
        const { stdout, stderr, status } = run(folder, "never", "ask")
        assert.strictEqual(status, 0, stderr)
        assert.deepStrictEqual(JSON.parse(stdout), { _tag: "Done", status: "completed" })
        assert.lengthOf(payments(folder), 1)
        // Each process asks where it goes on, and no answer that is stored is asked for again.
        assert.deepStrictEqual(
          effectsOf(folder).filter((line) => line.startsWith("ask ")),
          ["ask 1", "ask 1", "ask 2", "ask 2", "ask 3", "ask 3"]
        )
      }),
    240_000
  )

  it(
    "that is killed in a payment never pays again, and stops for a person",
    () =>
      inFolder((folder) => {
        assert.strictEqual(run(folder, "pay:after", "").signal, "SIGKILL")
        const { stdout, stderr } = run(folder, "never", "")
        const state: unknown = JSON.parse(stdout || JSON.stringify(stderr))
        assert.deepInclude(state, { _tag: "InDoubt" })
        assert.lengthOf(payments(folder), 1)
      }),
    120_000
  )

  it(
    "is refused while another one holds the store, with a message that names it",
    () =>
      inFolder((folder) => {
        const { status, said } = JSON.parse(run(folder, "second", "").stdout)
        assert.strictEqual(status, 1)
        assert.match(said, /Store `lock` .*is locked: process \d+/)
      }),
    120_000
  )
})
