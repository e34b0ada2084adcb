/**
 * Durable runs beside those of DBOS, each over a PostgreSQL of its own with fsync, and over SQLite.
 *
 * A run asks a model ten times and calls a tool after each question; both take 3 ms. A step is a question or a tool: the
 * last question of our runs is not counted, and DBOS does not ask it. The tool is of the kind `once`, the default: its
 * intent is stored before it runs. DBOS has no such guarantee and runs an interrupted step again. DBOS stores answers of the same size.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ClusterSockets } from "@outlast/node/cluster"
import { SqliteClient } from "@outlast/node/sqlite"
import { Task, Tasks } from "@outlast/tasks"
import { DBOS } from "@dbos-inc/dbos-sdk"
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Response } from "effect/ai"
import { SqlClient } from "effect/sql"
import * as Postgres from "../test/services/Postgres.ts"
import type { Program } from "../test/services/Server.ts"
import type { Report } from "./measure.ts"
import { median } from "./measure.ts"

const turns = 10
const steps = 2 * turns
const work = 3
const rounds = 3
const many = { runs: 60, atOnce: 20 }
const single = { runs: 10, atOnce: 1 }
const reply = "x".repeat(300)

const Step = Tool.make("step", { success: Schema.String })
const Toolbox = Toolkit.make(Step)
const Walk = Task.make("walk", { version: 1, params: Schema.Struct({}), toolkit: Toolbox })

const usage = {
  inputTokens: { uncached: undefined, total: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: undefined, reasoning: undefined }
}

const answer = (asked: number): Array<Response.PartEncoded> => {
  const isLast = asked > turns
  return [
    isLast
      ? { type: "text", text: "done" }
      : { type: "tool-call", id: `step-${asked}`, name: "step", params: {} },
    { type: "finish", reason: isLast ? "stop" : "tool-calls", usage, response: undefined }
  ]
}

const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) =>
      Effect.delay(
        Effect.sync(() => answer(1 + prompt.content.filter(({ role }) => role === "assistant").length)),
        work
      ),
    streamText: () => Stream.empty
  })
)
const tools = Toolbox.toLayer({ step: () => Effect.delay(Effect.succeed(reply), work) })
const walking = Walk.toLayer(() => ({ prompt: "Walk." })).pipe(Layer.provide([model, tools]))

/** Steps a second. */
type Rate = (load: typeof many, round: string) => Effect.Effect<number>

const rateOf =
  (run: (key: string) => Effect.Effect<void>): Rate =>
  (load, round) =>
    Effect.gen(function* () {
      const since = performance.now()
      yield* Effect.forEach(
        Array.from({ length: load.runs }, (_, n) => `${round}-${n}`),
        run,
        {
          concurrency: load.atOnce,
          discard: true
        }
      )
      return (load.runs * steps * 1_000) / (performance.now() - since)
    })

const ours = Effect.gen(function* () {
  const services = yield* Effect.context<Tasks.Tasks>()
  return rateOf((key) =>
    Walk.submit({ params: {}, key }).pipe(
      Effect.flatMap(Walk.result),
      Effect.orDie,
      Effect.provideContext(services),
      Effect.asVoid
    )
  )
})

const wait = (): Promise<void> => new Promise((done) => setTimeout(done, work))

const theirs = (url: string) =>
  Effect.gen(function* () {
    DBOS.setConfig({ name: "bench", systemDatabaseUrl: url, logLevel: "error" })
    const asked = JSON.stringify(answer(1))
    const walk = DBOS.registerWorkflow(
      async () => {
        for (let n = 1; n <= turns; n++) {
          await DBOS.runStep(
            async () => {
              await wait()
              return asked
            },
            { name: `ask-${n}` }
          )
          await DBOS.runStep(
            async () => {
              await wait()
              return reply
            },
            { name: `tool-${n}` }
          )
        }
      },
      { name: "walk" }
    )
    yield* Effect.acquireRelease(
      Effect.promise(() => DBOS.launch()),
      () => Effect.promise(() => DBOS.shutdown())
    )
    return rateOf((key) =>
      Effect.promise(async () => {
        const handle = await DBOS.startWorkflow(walk, { workflowID: key })()
        await handle.getResult()
      })
    )
  })

/** Bytes of WAL and commits since the last call. */
const wal = (server: Program) => {
  let last = { bytes: 0, commits: 0 }
  return Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.sleep("1200 millis")
    const [row] = yield* sql<{ readonly bytes: string; readonly commits: string }>`
      SELECT pg_current_wal_lsn() - '0/0' AS bytes, sum(xact_commit) AS commits FROM pg_stat_database`
    const now = { bytes: Number(row?.bytes), commits: Number(row?.commits) }
    const since = { bytes: now.bytes - last.bytes, commits: now.commits - last.commits }
    last = now
    return since
  }).pipe(Effect.provide(Postgres.client(server)), Effect.orDie)
}

export const durable = async ({ say }: Report): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), "outlast-bench-"))
  const program = Effect.gen(function* () {
    const sqlite = yield* Effect.provide(
      ours,
      yield* Layer.build(
        walking.pipe(
          Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void })),
          Layer.provide(SqliteClient.layer({ filename: join(folder, "tasks.db") }))
        )
      )
    )
    const own = yield* Postgres.started({ fsync: true })
    const other = yield* Postgres.started({ fsync: true })
    const postgres = yield* Effect.provide(
      ours,
      yield* Layer.build(
        walking.pipe(
          Layer.provideMerge(Tasks.layerCluster()),
          Layer.provide([ClusterSockets.layer({ host: "127.0.0.1" }), Postgres.client(own)])
        )
      )
    )
    const dbos = yield* theirs(`postgresql://outlast@127.0.0.1:${other.port}/postgres`)
    const systems = [
      { name: "Outlast, SQLite", rate: sqlite, spent: undefined },
      { name: "Outlast, PostgreSQL", rate: postgres, spent: wal(own) },
      { name: "DBOS, PostgreSQL", rate: dbos, spent: wal(other) }
    ].map((system) => ({ ...system, together: [] as Array<number>, alone: [] as Array<number> }))
    for (let round = 0; round <= rounds; round++) {
      for (const { name, rate, spent, together, alone } of systems) {
        if (spent !== undefined) yield* spent
        const fast = yield* rate(many, `many-${round}`)
        const used = spent === undefined ? undefined : yield* spent
        const slow = yield* rate(single, `single-${round}`)
        // The first round warms up.
        if (round === 0) continue
        together.push(fast)
        alone.push(slow)
        if (used !== undefined && round === rounds) {
          const all = many.runs * steps
          say(
            `  ${name}: ${(used.bytes / all).toFixed(0)} bytes of WAL and ${(used.commits / all).toFixed(2)} commits a step`
          )
        }
      }
    }
    for (const { name, together, alone } of systems) {
      say(
        `  ${name.padEnd(22)}${median(together).toFixed(0).padStart(5)} steps/s with ${many.atOnce} at once, ${median(alone).toFixed(0)} one at a time (${together.map((n) => n.toFixed(0)).join(", ")}; ${alone.map((n) => n.toFixed(0)).join(", ")})`
      )
    }
  })
  try {
    await Effect.runPromise(Effect.scoped(program))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
