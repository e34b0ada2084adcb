/** The agent of `outlast serve` as a durable task, and the engine that runs it: a SQLite file of this process. */
import { Effect, Layer, Schema } from "effect"
import type { SafetyGuard } from "@outlast/agent"
import { Host, StoreLock } from "@outlast/node"
import { SqliteClient } from "@outlast/node/sqlite"
import { Task, Tasks } from "@outlast/tasks"
import * as Workspace from "../chat/Workspace.ts"

/** Keys are part of an address. */
export const Key = Schema.String.check(Schema.isPattern(/^[\w.-]{1,80}$/))

const Params = Schema.Struct({ prompt: Schema.String })

export const PromptTask = Task.make("prompt", { version: 1, params: Params, toolkit: Workspace.kit })

/** Tasks that run at a time, as many as runs. */
const concurrency = 20

/** The tasks of a file, which is made when it is missing. The shutdown hands them back, and the next start goes on. */
export const layer = (file: string, limits: SafetyGuard.Options) =>
  Layer.effectDiscard(
    Effect.flatMap(Tasks.Tasks, ({ drain }) => Host.onShutdown("runs", { name: "tasks", run: drain }))
  ).pipe(
    Layer.merge(PromptTask.toLayer(({ prompt }) => ({ prompt, limits }))),
    Layer.provideMerge(
      Tasks.layerSqlite({
        worker: "outlast serve",
        file,
        concurrency,
        // The lock of `outlast worker`, too.
        lock: StoreLock.acquire(`${file}.lock`)
      })
    ),
    Layer.provide(SqliteClient.layer({ filename: file, store: "tasks" }))
  )
