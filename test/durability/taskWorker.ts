/**
 * A worker for durable tasks, until it is killed. It reads its job as a line, so that it can be started before it is
 * needed. Each line of its output is a step that begins or ends.
 *
 * Its agent has four turns: it looks and notes, it pays (`once`, with reconcile), it rings (`once`, without), and it says
 * so. How long the tools take stands in the parameters.
 */
import { writeSync } from "node:fs"
import { once } from "node:events"
import { PgClient } from "@effect/sql-pg"
import { ClusterSockets } from "@outlast/node/cluster"
import { StoreLock } from "@outlast/node/lock"
import { SqliteClient } from "@outlast/node/sqlite"
import { Journal, Tasks } from "@outlast/tasks"
import { Effect, Layer, Option, Stream } from "effect"
import type { Response } from "effect/ai"
import { LanguageModel } from "effect/ai"
import type { Pace } from "./errand.ts"
import { errand } from "./errand.ts"

export interface Job {
  readonly name: string
  /** Address of the world. */
  readonly world: string
  readonly store:
    | { readonly file: string }
    /** Port of PostgreSQL, the lease in milliseconds, and the port of this worker, if it is no free one. */
    | { readonly port: number; readonly takeover: number; readonly own?: number }
  /** Versions of the agent that it has. */
  readonly versions: ReadonlyArray<number>
}

const [line] = await once(process.stdin, "data")
const job: Job = JSON.parse(String(line))
// Whoever started it is gone.
process.stdin.on("end", () => process.exit(1))

/** A full pipe refuses a line for a moment. */
const say = (line: string): void => {
  for (;;) {
    try {
      writeSync(1, `${line}\n`)
      return
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error
    }
  }
}

const act = (tool: string, { before, after }: Pace) =>
  Effect.gen(function* () {
    const { key } = Option.getOrThrow(yield* Journal.current)
    say(`begin ${tool} ${key}`)
    yield* Effect.sleep(before)
    yield* Effect.promise(() => fetch(`${job.world}/${encodeURIComponent(key)}`, { method: "POST" }))
    say(`did ${tool} ${key}`)
    yield* Effect.sleep(after)
    say(`end ${tool} ${key}`)
    return key
  })

const handlers = errand(job.world).toolkit.toLayer({
  look: () =>
    Effect.as(
      Effect.sync(() => say("look")),
      "a page"
    ),
  note: (pace) => act("note", pace),
  pay: (pace) => act("pay", pace),
  ring: (pace) => act("ring", pace)
})

const usage = {
  inputTokens: { uncached: undefined, total: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: undefined, reasoning: undefined }
}

const answer = (
  turn: number,
  pace: Pace,
  slow: ReadonlyArray<string>
): ReadonlyArray<Response.PartEncoded> => {
  const call = (name: string): Response.PartEncoded => ({
    type: "tool-call",
    id: `${name}-1`,
    name,
    params: name === "look" ? {} : slow.includes(name) ? pace : { before: 0, after: 0 }
  })
  const calls = [["look", "note"], ["pay"], ["ring"]][turn] ?? []
  return [
    ...(calls.length === 0 ? [{ type: "text" as const, text: "done" }] : calls.map(call)),
    { type: "finish", reason: calls.length === 0 ? "stop" : "tool-calls", usage, response: undefined }
  ]
}

const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) =>
      Effect.sync(() => {
        const turn = prompt.content.filter(({ role }) => role === "assistant").length
        say(`ask ${turn + 1}`)
        const said = JSON.stringify(prompt.content)
        const [, before = "0", after = "0", slow = ""] =
          /before (\d+), after (\d+), ([\w,]*)\./.exec(said) ?? []
        return [...answer(turn, { before: Number(before), after: Number(after) }, slow.split(","))]
      }),
    streamText: () => Stream.empty
  })
)

const workers = job.versions.map((version) =>
  errand(job.world, version).toLayer(({ before, after, slow }) => ({
    prompt: `Run the errand: before ${before}, after ${after}, ${slow.join(",")}.`,
    toolTimeout: "10 minutes"
  }))
)

const { store } = job
const engine =
  "file" in store
    ? Tasks.layerSqlite({ worker: job.name, lock: StoreLock.acquire(`${store.file}.lock`) }).pipe(
        Layer.provide(SqliteClient.layer({ filename: store.file }))
      )
    : Tasks.layerCluster({ worker: job.name, takeover: store.takeover }).pipe(
        Layer.provide([
          ClusterSockets.layer({ host: "127.0.0.1", port: store.own }),
          Tasks.waitFor(
            PgClient.layer({ host: "127.0.0.1", port: store.port, username: "outlast", database: "postgres" })
          )
        ])
      )

const up = Layer.effectDiscard(Effect.sync(() => say("up")))
const main = Layer.mergeAll(up, ...workers).pipe(Layer.provide([handlers, model]), Layer.provide(engine))

await Effect.runPromise(Layer.launch(main))
