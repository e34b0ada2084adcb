/**
 * What a durable task costs beside the engine that it stands on: a task of turns that ask and call a tool, and a raw
 * workflow with as many activities and replies of the same size. In memory, on SQLite, and on PostgreSQL where it is
 * installed, each in one process.
 *
 * A turn is timed inside the run, from one question to the next, so the half second in which a worker finds a task does
 * not count. The median of the runs; 1 is as fast as the raw engine and the agent without it, one after the other.
 *
 * Beside it: the time until a task of many turns goes on in another life of its process, and the fsyncs of a turn on
 * SQLite, where strace is installed.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Agent } from "@outlast/agent"
import { RunEvent, Steps } from "@outlast/agent/loop"
import { SqliteClient } from "@outlast/node/sqlite"
import { Journal, Task, Tasks } from "@outlast/tasks"
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import type { Response } from "effect/ai"
import { ClusterWorkflowEngine, SingleRunner } from "effect/cluster"
import { Digest } from "effect/crypto"
import type { SqlClient } from "effect/sql"
import { Activity, Workflow, WorkflowEngine } from "effect/workflow"
import * as Postgres from "../test/services/Postgres.ts"
import type { Report } from "./measure.ts"
import { median } from "./measure.ts"

const turns = 20
const runs = 12
const warmUp = 4
/** Raw workflows at once, for the activities a second that one process reaches. */
const together = 40
/** Of a turn: the question, and the tool. */
const activities = 2
const reply = "x".repeat(300)

const Look = Journal.effects("none")(Tool.make("look", { success: Schema.String }))
const Toolbox = Toolkit.make(Look)
const Walk = Task.make("walk", { version: 1, params: Schema.Struct({}), toolkit: Toolbox })

const usage = {
  inputTokens: { uncached: undefined, total: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: undefined, reasoning: undefined }
}

/** Times of the questions of the run under way. */
let asked: Array<number> = []

const answer = (turn: number): Array<Response.PartEncoded> => answerOf(turn, turn > turns)

const answerOf = (turn: number, isLast: boolean): Array<Response.PartEncoded> => {
  return [
    isLast
      ? { type: "text", text: "done" }
      : { type: "tool-call", id: `look-${turn}`, name: "look", params: {} },
    { type: "finish", reason: isLast ? "stop" : "tool-calls", usage, response: undefined }
  ]
}

const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: () =>
      Effect.sync(() => {
        asked.push(performance.now())
        return answer(asked.length)
      }),
    streamText: () => Stream.empty
  })
)

const services = Layer.merge(model, Toolbox.toLayer({ look: () => Effect.succeed(reply) }))
const options = { prompt: "Walk.", maxTurns: turns + 5 }
const walking = Walk.toLayer(() => options).pipe(Layer.provide(services))

/** Milliseconds from one question to the next of the last run. */
const turnTime = (): number => ((asked.at(-1) ?? 0) - (asked[0] ?? 0)) / turns

/** A turn of the same agent without tasks and engine. */
const alone = Effect.gen(function* () {
  asked = []
  yield* Agent.run({ ...options, toolkit: Toolbox })
  return turnTime()
}).pipe(Effect.provide(services))

/** What the activities of the task store: the same values, with the same schemas. */
const storedAnswer = (n: number): RunEvent.RunEvent => ({
  _tag: "Answered",
  messages: [
    Prompt.makeMessage("assistant", {
      content: [
        Prompt.makePart("tool-call", { id: `look-${n}`, name: "look", params: {}, providerExecuted: false })
      ]
    })
  ],
  finish: "tool-calls",
  calls: [{ id: `look-${n}`, name: "look" }],
  usage: { inputTokens: 10, cachedInputTokens: 0, outputTokens: 5 }
})
const storedResult = (n: number): Steps.ToolStep => ({
  _tag: "Ran",
  result: {
    part: Prompt.makePart("tool-result", {
      id: `look-${n}`,
      name: "look",
      isFailure: false,
      result: reply,
      providerExecuted: false
    })
  }
})

const Raw = Workflow.make("Raw", {
  payload: { id: Schema.String },
  idempotencyKey: ({ id }) => id,
  success: Schema.Finite
})
const rawLayer = Raw.toLayer(
  Effect.fnUntraced(function* () {
    const first = performance.now()
    for (let n = 1; n <= turns; n++) {
      yield* Activity.make({
        name: `turn/${n}/ask`,
        success: RunEvent.RunEvent,
        execute: Effect.sync(() => storedAnswer(n))
      })
      yield* Activity.make({
        name: `turn/${n}/tool/look-${n}`,
        success: Steps.ToolStep,
        execute: Effect.sync(() => storedResult(n))
      })
    }
    return (performance.now() - first) / turns
  })
)

const engineOn = <E>(client: Layer.Layer<SqlClient.SqlClient, E>) => {
  const engine = ClusterWorkflowEngine.layer.pipe(
    Layer.provide(SingleRunner.layer({ runnerStorage: "memory", shardingConfig: { shardsPerGroup: 60 } })),
    Layer.provide(Digest.layerWebCrypto)
  )
  return Layer.merge(engine, Tasks.layerStore()).pipe(Layer.provide(client))
}

const measured = <E, E2>(
  ours: Layer.Layer<Tasks.Tasks | Tasks.Workers, E>,
  raw: Layer.Layer<WorkflowEngine.WorkflowEngine, E2>
) =>
  Effect.gen(function* () {
    const own: Array<number> = []
    const base: Array<number> = []
    const agent: Array<number> = []
    for (let n = 0; n < warmUp + runs; n++) {
      asked = []
      yield* Walk.result(yield* Walk.submit({ params: {}, key: String(n) }))
      const turn = turnTime()
      const run = yield* alone
      const same = yield* Raw.execute({ id: String(n) })
      if (n < warmUp) continue
      own.push(turn)
      base.push(same)
      agent.push(run)
    }
    const before = performance.now()
    yield* Effect.forEach(Array.from({ length: together }), (_, n) => Raw.execute({ id: `many-${n}` }), {
      concurrency: "unbounded"
    })
    const rate = (together * turns * activities * 1_000) / (performance.now() - before)
    const ratio = median(own.map((turn, n) => turn / ((base[n] ?? turn) + (agent[n] ?? 0))))
    return { own: median(own), raw: median(base), agent: median(agent), ratio, rate }
  }).pipe(
    Effect.provide(
      Layer.merge(walking.pipe(Layer.provideMerge(ours)), rawLayer.pipe(Layer.provideMerge(raw)))
    )
  )

const overStore = <E>(engine: ReturnType<typeof engineOn<E>>) =>
  measured(Tasks.layerEngine().pipe(Layer.provide(engine)), engine)

/** Turns of the task that is resumed. */
const many = 400

/** Milliseconds from the start of a worker until a task of many turns asks again, and those until the worker stands. */
const resumed = <E>(layer: () => Layer.Layer<Tasks.Tasks | Tasks.Workers, E>) =>
  Effect.gen(function* () {
    const begun = Promise.withResolvers<void>()
    let next = begun
    let isStopped = true
    let turn = 0
    const model = Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: () =>
          Effect.suspend(() => {
            if (turn < many) return Effect.succeed(answerOf(++turn, false))
            next.resolve()
            return isStopped ? Effect.never : Effect.succeed(answerOf(many + 1, true))
          }),
        streamText: () => Stream.empty
      })
    )
    const walker = Walk.toLayer(() => ({ ...options, maxTurns: many + 5 })).pipe(
      Layer.provide([model, Toolbox.toLayer({ look: () => Effect.succeed(reply) })])
    )
    const life = () => walker.pipe(Layer.provideMerge(layer()))
    const key = `resumed-${many}`
    yield* Effect.gen(function* () {
      yield* Walk.submit({ params: {}, key })
      yield* Effect.promise(() => begun.promise)
    }).pipe(Effect.provide(life()))
    next = Promise.withResolvers<void>()
    isStopped = false
    const since = performance.now()
    return yield* Effect.gen(function* () {
      const stands = performance.now() - since
      yield* Effect.promise(() => next.promise)
      const asks = performance.now() - since
      yield* Walk.result(Walk.idOf(key))
      return { stands, asks }
    }).pipe(Effect.provide(life()))
  })

/** Fsyncs of a turn on SQLite, by strace: two tasks that differ in their turns only. */
const fsyncsOf = (folder: string, kind: "none" | "once"): number => {
  const [short, long] = [20, 120].map((turns) => {
    const name = join(folder, `${kind}-${turns}`)
    const program = join(import.meta.dirname, "tasksFsyncs.ts")
    const node = [
      process.execPath,
      "--conditions=@outlast/source",
      program,
      `${name}.db`,
      String(turns),
      kind
    ]
    spawnSync("strace", ["-f", "-e", "trace=fsync,fdatasync", "-o", `${name}.log`, ...node], {
      stdio: "ignore"
    })
    const log = readFileSync(`${name}.log`, "utf8")
    return { turns, calls: log.split(/f(?:data)?sync\(/).length - 1 }
  })
  return ((long?.calls ?? NaN) - (short?.calls ?? NaN)) / ((long?.turns ?? 0) - (short?.turns ?? 0))
}

const line = (name: string, figures: Effect.Success<ReturnType<typeof overStore>>) => {
  const [own, raw, agent] = [figures.own, figures.raw, figures.agent].map((ms) => ms.toFixed(2).padStart(7))
  return `  ${name.padEnd(11)}${own} ms a turn; raw engine ${raw} ms + agent alone ${agent} ms; ratio ${figures.ratio.toFixed(2)}, beside the raw engine only ${(figures.own / figures.raw).toFixed(2)}; ${together} at once ${figures.rate.toFixed(0)} activities/s`
}

export const tasks = async ({ say }: Report): Promise<void> => {
  say(
    `Durable tasks beside the raw engine: ${turns} turns of ${activities} activities, ${runs} runs, Node ${process.version}`
  )
  const folder = mkdtempSync(join(tmpdir(), "outlast-bench-"))
  try {
    const memory = measured(Tasks.layerMemory(), WorkflowEngine.layerMemory)
    say(line("memory", await Effect.runPromise(memory)))
    if (spawnSync("strace", ["-V"]).status === 0) {
      for (const kind of ["none", "once"] as const) {
        say(
          `  SQLite, a turn of a question and a tool \`${kind}\`: ${fsyncsOf(folder, kind).toFixed(2)} fsyncs (strace)`
        )
      }
    } else say("  no strace: fsyncs were not counted")
    const spent = ({ stands, asks }: { readonly stands: number; readonly asks: number }): string =>
      `${asks.toFixed(0)} ms until a task of ${many} turns goes on, ${stands.toFixed(0)} ms of it until the worker stands`
    const filename = join(folder, "resumed.db")
    const onFile = () =>
      Tasks.layerSqlite({ lock: Effect.void }).pipe(Layer.provide(SqliteClient.layer({ filename })))
    say(`  SQLite: ${spent(await Effect.runPromise(resumed(onFile)))}`)
    const onSqlite = engineOn(SqliteClient.layer({ filename: join(folder, "tasks.db") }))
    say(line("SQLite", await Effect.runPromise(overStore(onSqlite))))
    if (Postgres.missing !== undefined) return
    const onPostgres = Effect.scoped(
      Effect.flatMap(Postgres.running, (server) => overStore(engineOn(Postgres.client(server))))
    )
    say(line("PostgreSQL", await Effect.runPromise(onPostgres)))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
