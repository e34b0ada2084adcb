/** Each store keeps the deaths of a task's process. One of an earlier version gets the columns for them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks, TaskStore } from "@outlast/tasks"
import type { Deaths } from "#tasks/restart/Deaths"
import * as MemoryStore from "#tasks/store/MemoryStore"
import * as Postgres from "../../../../test/services/Postgres.ts"

const generation = 1
const approval = { _tag: "WaitingForApproval", calls: [] } as const
const deaths = { boots: ["b0", "b1"], lonely: 0, alone: true, step: "turn/1/ask" }

const submit = Effect.flatMap(TaskStore, (store) =>
  store.submit(
    { id: "a/1", task: "a", version: 1, key: "1", hash: "h", params: "{}", history: undefined, at: 0 },
    9
  )
)

const by = (runner: string) => ({ id: "a/1", generation, runner })

/** A process claims the task, and begins it. */
const takes = (run: ReturnType<typeof by>, deaths: Deaths | undefined) =>
  Effect.flatMap(TaskStore, ({ begin, claim }) =>
    Effect.andThen(claim(run.id, run.generation, run.runner), begin(run, deaths))
  )

const row = Effect.flatMap(TaskStore, ({ get }) => Effect.map(get("a/1"), Option.getOrThrow))

const sqlite = SqliteClient.layer({ filename: ":memory:" })
const postgres = Layer.unwrap(Effect.map(Postgres.running, (server) => Postgres.client(server)))

const stores: ReadonlyArray<readonly [string, Layer.Layer<TaskStore, unknown>]> = [
  ["in memory", MemoryStore.layer],
  ["on SQLite", Tasks.layerStore().pipe(Layer.provide(sqlite))],
  ["on PostgreSQL", Tasks.layerStore().pipe(Layer.provide(postgres))]
]

const databases: ReadonlyArray<readonly [string, Layer.Layer<SqlClient.SqlClient, unknown>]> = [
  ["on SQLite", sqlite],
  ["on PostgreSQL", postgres]
]

const canRun = (name: string) => name !== "on PostgreSQL" || Postgres.missing === undefined

for (const [name, layer] of stores) {
  describe.skipIf(!canRun(name))(`a store ${name}`, () => {
    it.effect(
      "names the process that has a task until it is handed back, and keeps its deaths",
      () =>
        Effect.gen(function* () {
          const { finish, leave, park, resume, setDeaths, started, wait } = yield* TaskStore
          yield* submit
          yield* started("a/1", generation)
          assert.deepInclude(yield* row, { boot: undefined, deaths: undefined })
          yield* takes(by("b2"), deaths)
          assert.deepInclude(yield* row, { boot: "b2", deaths })
          // Another process, and a worker that has lost the task.
          yield* leave("b1")
          yield* setDeaths(by("b1"), undefined)
          assert.deepInclude(yield* row, { boot: "b2", deaths })
          yield* leave("b2")
          assert.deepInclude(yield* row, { boot: undefined, deaths })
          yield* takes(by("b3"), deaths)
          yield* park(by("b3"), { _tag: "WaitingForWorker", needs: "a@1" })
          assert.deepInclude(yield* row, { boot: undefined, deaths })
          yield* takes(by("b4"), deaths)
          yield* setDeaths(by("b4"), undefined)
          assert.deepInclude(yield* row, { boot: "b4", deaths: undefined })
          yield* takes(by("b5"), deaths)
          yield* wait({ ...by("b5"), name: "x", state: approval, at: 1 })
          assert.deepInclude(yield* row, { boot: undefined, deaths: undefined })
          yield* takes(by("b6"), deaths)
          const failed = { _tag: "Failed", reason: "KilledItsProcess", message: "m" } as const
          yield* finish({ ...by("b6"), state: failed, result: "{}", costUsd: undefined, at: 2 })
          yield* takes(by("b7"), undefined)
          assert.deepInclude(yield* row, { boot: "b6", deaths })
          yield* resume({ id: "a/1", generation, history: undefined, at: 3 })
          assert.deepInclude(yield* row, { boot: undefined, deaths: undefined })
        }).pipe(Effect.provide(layer)),
      60_000
    )
  })
}

for (const [name, database] of databases) {
  describe.skipIf(!canRun(name))(`a store of an earlier version ${name}`, () => {
    it.effect(
      "gets the columns that it does not have, also by a tool that makes no tables",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* submit.pipe(Effect.provide(Tasks.layerStore()))
          for (const create of [true, false]) {
            for (const column of ["boot", "deaths"]) {
              yield* sql.unsafe(`ALTER TABLE outlast_tasks DROP COLUMN ${column}`)
            }
            yield* Effect.gen(function* () {
              assert.deepInclude(yield* row, { boot: undefined, deaths: undefined })
              yield* takes(by("b1"), deaths)
              assert.deepInclude(yield* row, { boot: "b1", deaths })
            }).pipe(Effect.provide(Layer.fresh(Tasks.layerStore({ create }))))
          }
        }).pipe(Effect.provide(database)),
      60_000
    )
  })
}
