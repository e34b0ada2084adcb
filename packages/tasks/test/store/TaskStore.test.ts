/** The store in memory and the one on SQLite do the same, whatever is asked of them. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks, TaskStore } from "@outlast/tasks"
import * as MemoryStore from "#tasks/store/MemoryStore"
import type { EffectRecord } from "@outlast/tasks"
import * as Sweeps from "../../../../test/sweeps.ts"

type Store = TaskStore["Service"]
type Call = (store: Store, at: number) => Effect.Effect<unknown, unknown>

const waiting = { _tag: "WaitingUntil", until: 5, restart: 1, of: 3, reason: "Network" } as const
const running = { _tag: "Running", turn: 1, worker: "w" } as const
const id = fc.constantFrom("a/1", "a/2", "b/1")
const generation = fc.constantFrom(1, 2)
const boot = fc.constantFrom("b1", "b2")
const deaths = fc.constantFrom(undefined, { boots: ["b0"], lonely: 0, alone: true, step: "turn/1/ask" })
const wait = fc.constantFrom("x", "y")

const record = (task: string, boot: string): EffectRecord => ({
  key: `${task}/pay`,
  task,
  generation: 1,
  tool: "pay",
  turn: 1,
  callId: "c",
  params: { cents: 1 },
  attempt: 1,
  holder: "w",
  boot,
  at: 0
})

const call: fc.Arbitrary<Call> = fc.oneof(
  fc.tuple(id, fc.constantFrom("h1", "h2")).map(([id, hash]): Call => (store, at) => {
    const [task = "", key = ""] = id.split("/")
    return store.submit({ id, task, version: 1, key, hash, params: "{}", history: undefined, at }, 2)
  }),
  id.map(
    (id): Call =>
      (store) =>
        store.get(id)
  ),
  fc.constantFrom<Call>(
    (store) => store.list({ limit: 2 }),
    (store) => store.list({ limit: 9, state: ["Queued", "Cancelled"], task: "a" }),
    (store) => store.ahead(2),
    (store) => store.queued(["a@1"], 9),
    (store, at) => store.unknown(["a@1"], at, 9),
    (store, at) => store.attention(at, 9),
    (store, at) => Effect.flatMap(store.endedBefore(at - 3, 9), store.remove),
    // A task that was resumed meanwhile stays.
    (store, at) =>
      Effect.flatMap(store.endedBefore(at - 3, 9), (rows) =>
        Effect.andThen(
          Effect.forEach(rows, ({ id, generation }) =>
            Effect.exit(store.resume({ id, generation, history: undefined, at }))
          ),
          store.remove(rows)
        )
      ),
    (store) => store.intents("a/1")
  ),
  fc.tuple(id, generation).map(
    ([id, generation]): Call =>
      (store) =>
        store.started(id, generation)
  ),
  fc.tuple(id, generation, boot).map(
    ([id, generation, runner]): Call =>
      (store) =>
        store.park({ id, generation, runner }, { _tag: "WaitingForWorker", needs: "a@1" })
  ),
  fc.tuple(id, generation, boot).map(
    ([id, generation, runner]): Call =>
      (store) =>
        store.claim(id, generation, runner)
  ),
  fc.tuple(id, generation, boot, fc.constantFrom("s", "t")).map(
    ([task, generation, runner, name]): Call =>
      (store, at) =>
        store.record({ task, generation, name, reply: `${runner} at ${at}`, runner })
  ),
  fc.tuple(id, generation, boot).map(
    ([task, generation, runner]): Call =>
      (store, at) =>
        // At the same time: they share a statement.
        Effect.forEach(
          ["t", "u", "t"],
          (name, n) => store.record({ task, generation, name, reply: `${n} at ${at}`, runner }),
          { concurrency: "unbounded" }
        )
  ),
  fc.tuple(id, generation).map(
    ([id, generation]): Call =>
      (store) =>
        Effect.map(store.steps(id, generation), (steps) => [...steps].toSorted())
  ),
  fc.tuple(id, generation).map(
    ([id, generation]): Call =>
      (store, at) =>
        store.reportQueued([
          { id, generation, state: { _tag: "WaitingForWorker", needs: "a@1" }, since: at, restarts: 0 }
        ])
  ),
  fc.tuple(id, generation, boot).map(
    ([id, generation, runner]): Call =>
      (store, at) =>
        store.report([{ id, generation, runner, state: running, since: at, restarts: 1 }])
  ),
  fc.tuple(id, generation, boot, wait).map(
    ([id, generation, runner, name]): Call =>
      (store, at) =>
        store.wait({ id, generation, runner, name, state: { _tag: "WaitingForApproval", calls: [] }, at })
  ),
  fc.tuple(id, generation, boot, wait).map(
    ([id, generation, runner, name]): Call =>
      (store, at) =>
        store.waitForRestart(
          { id, generation, runner, name, state: waiting, at, dueAt: at + 2, restarts: 1 },
          1
        )
  ),
  fc.tuple(id, generation, wait).map(
    ([id, generation, name]): Call =>
      (store) =>
        store.woken(id, generation, name)
  ),
  fc.tuple(id, generation, boot, fc.boolean()).map(
    ([id, generation, runner, isDone]): Call =>
      (store, at) =>
        store.finish({
          id,
          generation,
          runner,
          state: isDone
            ? { _tag: "Done", status: "completed" }
            : { _tag: "Failed", reason: "Network", message: "m" },
          result: "{}",
          costUsd: isDone ? 0.5 : undefined,
          at
        })
  ),
  fc.tuple(id, generation, boot, deaths).map(
    ([id, generation, boot, deaths]): Call =>
      (store) =>
        store.begin({ id, generation, runner: boot }, deaths)
  ),
  fc.tuple(id, generation, boot, deaths).map(
    ([id, generation, boot, deaths]): Call =>
      (store) =>
        store.setDeaths({ id, generation, runner: boot }, deaths)
  ),
  boot.map(
    (boot): Call =>
      (store) =>
        store.leave(boot)
  ),
  id.map(
    (id): Call =>
      (store, at) =>
        store.cancel({ id, by: "ada", at, result: "{}" })
  ),
  fc.tuple(id, fc.constantFrom(undefined, "", "c")).map(
    ([id, key]): Call =>
      (store) =>
        store.decide(id, { json: "{}", for: ["WaitingForApproval"], key })
  ),
  fc.tuple(id, generation, fc.boolean()).map(
    ([id, generation, hasHistory]): Call =>
      (store, at) =>
        store.resume({ id, generation, history: hasHistory ? "[]" : undefined, at })
  ),
  fc.tuple(id, boot).map(
    ([id, boot]): Call =>
      (store) =>
        store.intend(record(id, boot))
  ),
  id.map(
    (id): Call =>
      (store) =>
        store.takeOver(record(id, "b3"))
  )
)

/** The result of a call, in a form that can be compared. Numbers of rows are compared by their order. */
const shown = (exit: Exit.Exit<unknown, unknown>): string =>
  Exit.isSuccess(exit)
    ? JSON.stringify(exit.value, (name, value: unknown) => (name === "seq" ? undefined : value))
    : String(exit.cause)

/** Empties the database: starting a thread with a database of its own for each run would take most of the time. */
const wiped = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ readonly name: string }>`SELECT name FROM sqlite_master
    WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
  for (const { name } of tables) yield* sql`DROP TABLE ${sql(name)}`
}).pipe(Effect.orDie)

describe("TaskStore", () => {
  it.effect(
    "does the same in memory and on SQLite",
    () =>
      Effect.gen(function* () {
        const database = yield* Effect.context<SqlClient.SqlClient>()
        const run = Effect.runPromiseWith(database)
        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(fc.array(call, { maxLength: 40 }), (calls) =>
              Effect.gen(function* () {
                const stores = [
                  Context.get(yield* Layer.build(MemoryStore.layer), TaskStore),
                  Context.get(yield* Layer.build(Layer.fresh(Tasks.layerStore())), TaskStore)
                ]
                for (const [at, call] of calls.entries()) {
                  const [memory, sql] = yield* Effect.forEach(stores, (store) =>
                    Effect.map(Effect.exit(call(store, at)), shown)
                  )
                  assert.strictEqual(memory, sql, `call ${at}`)
                }
              }).pipe(Effect.scoped, Effect.ensuring(wiped), run)
            ),
            { numRuns: Sweeps.runs(60) }
          )
        )
      }).pipe(Effect.provide(SqliteClient.layer({ filename: ":memory:" }))),
    120_000
  )

  it.effect("a row of a newer version does not hide the others", () =>
    Effect.gen(function* () {
      const { submit, queued } = yield* TaskStore
      const sql = yield* SqlClient.SqlClient
      for (const key of ["1", "2"]) {
        const id = `a/${key}`
        yield* submit(
          { id, task: "a", version: 1, key, hash: "h", params: "{}", history: undefined, at: 0 },
          9
        )
      }
      yield* sql`UPDATE outlast_tasks SET state = '{"_tag":"Dreaming"}' WHERE id = 'a/1'`
      assert.deepStrictEqual(
        (yield* queued(["a@1"], 9)).map(({ id }) => id),
        ["a/2"]
      )
    }).pipe(
      Effect.provide(Layer.provideMerge(Tasks.layerStore(), SqliteClient.layer({ filename: ":memory:" })))
    )
  )

  it.effect("without `create` it fails where there are no tables, and names them", () =>
    Effect.gen(function* () {
      const failed = yield* Effect.flip(
        Effect.scoped(Layer.build(Tasks.layerClient({ create: false, prefix: "other" })))
      )
      assert.deepInclude(failed, { _tag: "StoreError", reason: "unavailable" })
      assert.include(failed.message, "no tables of tasks with the prefix `other`")
    }).pipe(Effect.provide(SqliteClient.layer({ filename: ":memory:" })))
  )

  it("refuses options that are not allowed", () => {
    assert.throws(() => Tasks.layerClient({ prefix: "a b" }), /prefix must be letters, digits and _/)
    assert.throws(() => Tasks.layerMemory({ concurrency: 0 }), /concurrency must be an integer of at least 1/)
    assert.throws(() => Tasks.layerMemory({ queue: 0 }), /queue must be an integer of at least 1/)
    assert.throws(() => Tasks.layerMemory({ restarting: -1 }), /restarting must be an integer of at least 0/)
  })
})
