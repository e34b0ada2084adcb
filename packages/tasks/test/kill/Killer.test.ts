/** A task that ends its process, under a supervisor that starts the process again, with five good tasks beside it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { join } from "node:path"
import * as Programs from "../../../../test/programs.ts"
import * as Postgres from "../../../../test/services/Postgres.ts"
import * as Sweeps from "../../../../test/sweeps.ts"
import * as Server from "../../../../test/services/Server.ts"

const program = Programs.bundled(new URL("killer.ts", import.meta.url))

interface Found {
  readonly id: string
  readonly deaths: number
  readonly state: { readonly _tag: string; readonly reason?: string; readonly message?: string }
}

interface Life {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** One life of the worker. */
const life = (store: object, how: string, killed = "fail"): Effect.Effect<Life> =>
  Effect.callback<Life>((resume) => {
    const child = spawn(process.execPath, [program, JSON.stringify(store), how, killed])
    let stdout = ""
    let stderr = ""
    child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()))
    child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()))
    child.once("close", (code) => resume(Effect.succeed({ code, stdout, stderr })))
    return Effect.sync(() => void child.kill("SIGKILL"))
  })

/** Starts the worker again until it ends by itself. Returns its lives, and what became of the tasks. */
const supervised = (store: object, how: string, killed?: string) =>
  Effect.gen(function* () {
    let said = ""
    for (let lives = 1; lives <= 15; lives++) {
      const { code, stdout, stderr } = yield* life(store, how, killed)
      if (code === 0) {
        const found: ReadonlyArray<Found> = JSON.parse(stdout)
        return { lives, found }
      }
      said = stderr
    }
    return yield* Effect.die(new Error(`The tasks have not ended in 15 lives. ${said}`))
  })

const othersEnded = (found: ReadonlyArray<Found>): void => {
  assert.lengthOf(found, 6)
  for (const { id, deaths, state } of found) {
    if (id === "buy/0") continue
    assert.strictEqual(state._tag, "Done", id)
    assert.strictEqual(deaths, 0, id)
  }
}

const first = (found: ReadonlyArray<Found>) => found.find(({ id }) => id === "buy/0")?.state

const sqlite = Effect.map(Server.folder, (folder) => ({ file: join(folder, "tasks.db") }))

const ways = [
  { how: "tool", step: "turn/1/tool/look-1", subject: "The tool look" },
  { how: "exit", step: "turn/1/tool/look-1", subject: "The tool look" },
  // The slow one is the first to be alone, and is no suspect any more when it has ended.
  { how: "pair", step: "turn/1/tool/look-1", subject: "The tool look" },
  { how: "ask", step: "turn/2/ask", subject: "The question to the model" }
] as const
type Way = (typeof ways)[number]

describe("a task whose step ends its process", () => {
  // The others end by the same tool: on PostgreSQL below, and where a person is asked.
  for (const { how, step, subject } of Sweeps.full<ReadonlyArray<Way>>(ways, ways.slice(3))) {
    it.live(
      `by ${how} is condemned on SQLite, and the others end`,
      () =>
        Effect.gen(function* () {
          const { found, lives } = yield* supervised(yield* sqlite, how)
          othersEnded(found)
          const state = first(found)
          assert.deepInclude(state, { _tag: "Failed", reason: "KilledItsProcess" })
          assert.include(state?.message, `${subject} ended its process 5 times in a row, in step \`${step}\``)
          // Two deaths, three alone, and the life in which all end.
          assert.isAtMost(lives, how === "pair" ? 10 : 7)
        }).pipe(Effect.scoped),
      120_000
    )
  }

  it.live(
    "waits for a person where its agent asks for that",
    () =>
      Effect.gen(function* () {
        const { found } = yield* supervised(yield* sqlite, "tool", "ask")
        othersEnded(found)
        assert.include(JSON.stringify(first(found)), `"tool":"look"`)
        assert.strictEqual(first(found)?._tag, "InDoubt")
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "is no suspect after three stops in good order at one step",
    () =>
      Effect.gen(function* () {
        const store = yield* sqlite
        // Each takes the ten seconds that steps under way get.
        for (let n = 0; n < 3; n++) assert.notStrictEqual((yield* life(store, "stop")).code, 0)
        const { found, lives } = yield* supervised(store, "never")
        othersEnded(found)
        assert.strictEqual(lives, 1)
        assert.strictEqual(first(found)?._tag, "Done")
      }).pipe(Effect.scoped),
    120_000
  )

  it.live.skipIf(Postgres.missing !== undefined)(
    "is condemned on PostgreSQL, and the others end",
    () =>
      Effect.gen(function* () {
        const { port } = yield* Postgres.running
        const store = { port, own: yield* Server.freePort }
        const { found, lives } = yield* supervised(store, "tool")
        othersEnded(found)
        assert.deepInclude(first(found), { _tag: "Failed", reason: "KilledItsProcess" })
        assert.isAtMost(lives, 7)
      }).pipe(Effect.scoped),
    180_000
  )
})
