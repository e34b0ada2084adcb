/** Rules of each store of tasks, one by one: those that a random sequence of calls seldom meets. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks, TaskStore } from "@outlast/tasks"
import type { EffectRecord } from "@outlast/tasks"
import * as MemoryStore from "#tasks/store/MemoryStore"

const generation = 1
const runner = "b"
const waiting = { _tag: "WaitingUntil", until: 5, restart: 1, of: 3, reason: "Network" } as const
const approval = { _tag: "WaitingForApproval", calls: [] } as const
const running = { _tag: "Running", turn: 1, worker: "w" } as const
const failed = { _tag: "Failed", reason: "Network", message: "m" } as const

const submit = (id: string, bound = 100) =>
  Effect.flatMap(TaskStore, (store) =>
    store.submit(
      { id, task: "a", version: 1, key: id, hash: "h", params: "{}", history: undefined, at: 0 },
      bound
    )
  )

/** Submits tasks that a worker has begun. */
const begin = (...ids: ReadonlyArray<string>) =>
  Effect.forEach(ids, (id) =>
    Effect.andThen(
      submit(id),
      Effect.flatMap(TaskStore, ({ claim }) => claim(id, generation, runner))
    )
  )

const row = (id: string) => Effect.flatMap(TaskStore, ({ get }) => Effect.map(get(id), Option.getOrThrow))

const end = (id: string, at: number, of = generation) =>
  Effect.flatMap(TaskStore, ({ finish }) =>
    finish({ id, generation: of, runner, state: failed, result: "{}", costUsd: 0.5, at })
  )

const approve = (id: string, json = `"${id}"`) =>
  Effect.flatMap(TaskStore, ({ decide }) => decide(id, { json, for: ["WaitingForApproval"] }))

const intent = (task: string): EffectRecord => ({
  key: `${task}/pay`,
  task,
  generation,
  tool: "pay",
  turn: 1,
  callId: "c",
  params: {},
  attempt: 1,
  holder: "w",
  boot: "b",
  at: 0
})

const stores: ReadonlyArray<readonly [string, Layer.Layer<TaskStore, unknown>]> = [
  ["in memory", MemoryStore.layer],
  ["on SQLite", Tasks.layerStore().pipe(Layer.provide(SqliteClient.layer({ filename: ":memory:" })))]
]

describe.each(stores)("a store %s", (_, layer) => {
  it.effect("takes as many tasks as the queue has room for", () =>
    Effect.gen(function* () {
      yield* begin("a/0")
      yield* submit("a/1", 3)
      yield* submit("a/2", 3)
      assert.deepInclude(yield* Effect.flip(submit("a/3", 2)), { _tag: "QueueFull", queued: 3, bound: 2 })
      assert.deepInclude(yield* Effect.flip(submit("a/3", 3)), { _tag: "QueueFull", queued: 3, bound: 3 })
      assert.deepStrictEqual(yield* submit("a/3", 4), { isNew: true })
    }).pipe(Effect.provide(layer))
  )

  it.effect("has no room for another task while one waits for a worker of its agent", () =>
    Effect.gen(function* () {
      const { reportQueued } = yield* TaskStore
      yield* submit("a/1", 1)
      const state = { _tag: "WaitingForWorker", needs: "a@1" } as const
      yield* reportQueued([{ id: "a/1", generation, state, since: 1, restarts: 0 }])
      assert.deepInclude((yield* row("a/1")).state, state)
      assert.deepInclude(yield* Effect.flip(submit("a/2", 1)), { _tag: "QueueFull", queued: 1 })
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps the place of a task that asks again for the restart that it waits for", () =>
    Effect.gen(function* () {
      const { waitForRestart } = yield* TaskStore
      yield* begin("a/1", "a/2")
      const ask = (id: string) =>
        waitForRestart(
          { id, generation, runner, name: "restart/1", state: waiting, at: 1, dueAt: 5, restarts: 1 },
          1
        )
      assert.isTrue(yield* ask("a/1"))
      assert.isFalse(yield* ask("a/2"))
      // A step whose reply was lost in a crash is carried out again.
      assert.isTrue(yield* ask("a/1"))
      assert.deepInclude(yield* row("a/1"), { wait: "restart/1", dueAt: 5, restarts: 1 })
      assert.deepInclude(yield* row("a/2"), { wait: undefined, restarts: 0 })
    }).pipe(Effect.provide(layer))
  )

  it.effect("wakes a task when it is due, and only from the wait that has ended", () =>
    Effect.gen(function* () {
      const { attention, wait, woken } = yield* TaskStore
      yield* begin("a/1")
      yield* wait({ id: "a/1", generation, runner, name: "x", state: waiting, at: 1, dueAt: 5 })
      assert.deepStrictEqual(yield* attention(4, 9), [])
      assert.lengthOf(yield* attention(5, 9), 1)
      yield* woken("a/1", generation, "y")
      assert.strictEqual((yield* row("a/1")).wait, "x")
      yield* woken("a/1", generation, "x")
      assert.deepInclude(yield* row("a/1"), { wait: undefined, dueAt: undefined })
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps the state of a task that waits or runs, whatever is reported late", () =>
    Effect.gen(function* () {
      const { report, reportQueued, wait } = yield* TaskStore
      yield* begin("a/1", "a/2")
      const late = { generation, state: running, since: 9, restarts: 7 }
      yield* wait({ id: "a/1", generation, runner, name: "x", state: approval, at: 1 })
      yield* report([{ ...late, id: "a/1", runner }])
      yield* reportQueued([{ ...late, id: "a/2" }])
      assert.deepInclude(yield* row("a/1"), { state: approval, since: 1, restarts: 0 })
      assert.deepInclude(yield* row("a/2"), { since: 0, restarts: 0 })
    }).pipe(Effect.provide(layer))
  )

  it.effect("counts the first decision and the first cancellation, and none from an earlier wait", () =>
    Effect.gen(function* () {
      const { cancel, wait } = yield* TaskStore
      yield* begin("a/1")
      yield* wait({ id: "a/1", generation, runner, name: "x", state: approval, at: 1 })
      yield* approve("a/1")
      // The same decision again is the same; another one comes too late.
      yield* approve("a/1")
      assert.deepInclude(yield* Effect.flip(approve("a/1", '"other"')), { _tag: "NotNow", asked: "decide" })
      // Nothing is left to decide, and the worker has not gone on yet.
      assert.deepInclude((yield* row("a/1")).state, { _tag: "WaitingForWorker", needs: "a@1" })
      yield* wait({ id: "a/1", generation, runner, name: "y", state: approval, at: 2 })
      assert.strictEqual((yield* row("a/1")).verdict, undefined)
      yield* approve("a/1")
      for (const by of ["ada", "bob"]) yield* cancel({ id: "a/1", by, at: 3, result: "{}" })
      yield* end("a/1", 4)
      assert.deepInclude(yield* row("a/1"), { cancelBy: "ada", wait: undefined, verdict: undefined })
    }).pipe(Effect.provide(layer))
  )

  it.effect("takes nothing from a process once another one has claimed the task", () =>
    Effect.gen(function* () {
      const store = yield* TaskStore
      yield* begin("a/1")
      const step = { task: "a/1", generation, name: "s", reply: "1", runner }
      yield* store.record(step)
      yield* store.intend(intent("a/1"))
      yield* store.claim("a/1", generation, "c")
      const before = yield* row("a/1")
      const run = { id: "a/1", generation, runner }
      yield* store.report([{ ...run, state: running, since: 9, restarts: 7 }])
      yield* store.wait({ ...run, name: "x", state: approval, at: 9 })
      yield* store.waitForRestart({ ...run, name: "x", state: waiting, at: 9, dueAt: 10 }, 9)
      yield* store.park(run, { _tag: "WaitingForWorker", needs: "a@1" })
      yield* store.begin(run, undefined)
      assert.isFalse(yield* store.finish({ ...run, state: failed, result: "{}", costUsd: 1, at: 9 }))
      assert.isFalse(yield* store.takeOver({ ...intent("a/1"), attempt: 2 }))
      assert.deepStrictEqual(yield* store.record({ ...step, name: "t" }), { _tag: "Lost" })
      assert.deepStrictEqual(yield* store.intend({ ...intent("a/1"), key: "a/1/other" }), { _tag: "Lost" })
      assert.deepStrictEqual(yield* row("a/1"), before)
      assert.deepStrictEqual([...(yield* store.steps("a/1", generation))], [["s", "1"]])
      assert.deepStrictEqual(yield* store.intents("a/1"), [intent("a/1")])
      assert.isTrue(yield* store.takeOver({ ...intent("a/1"), boot: "c" }))
      // The result that is stored already, also for a process that has lost the task.
      assert.strictEqual(yield* store.record({ ...step, reply: "2" }), "1")
    }).pipe(Effect.provide(layer))
  )

  it.effect("says that a task has ended to the process that ended it, also when it asks again", () =>
    Effect.gen(function* () {
      yield* begin("a/1")
      assert.deepStrictEqual([yield* end("a/1", 4), yield* end("a/1", 5)], [true, true])
      assert.strictEqual((yield* row("a/1")).since, 4)
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps a decision when the wait begins again that it is about", () =>
    Effect.gen(function* () {
      const { wait } = yield* TaskStore
      yield* begin("a/1")
      const asked = { id: "a/1", generation, runner, name: "x", state: approval, at: 1 }
      yield* wait(asked)
      yield* approve("a/1")
      yield* wait({ ...asked, at: 2 })
      assert.strictEqual((yield* row("a/1")).verdict, '"a/1"')
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps that a task is handed back, whatever is reported late, until a process claims it", () =>
    Effect.gen(function* () {
      const { attention, claim, park, report } = yield* TaskStore
      yield* begin("a/1")
      const run = { id: "a/1", generation, runner }
      yield* park(run, { _tag: "WaitingForWorker", needs: "a@1" })
      yield* report([{ ...run, state: running, since: 9, restarts: 0 }])
      assert.lengthOf(yield* attention(9, 9), 1)
      yield* claim("a/1", generation, "c")
      assert.lengthOf(yield* attention(9, 9), 0)
    }).pipe(Effect.provide(layer))
  )

  it.effect("stores the first of two results of one step that come at once", () =>
    Effect.gen(function* () {
      const { record } = yield* TaskStore
      yield* begin("a/1")
      const step = { task: "a/1", generation, name: "s", runner }
      const found = yield* Effect.forEach(["1", "2"], (reply) => record({ ...step, reply }), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(found, ["1", "1"])
    }).pipe(Effect.provide(layer))
  )

  it.effect("begins a resumed task anew, behind those that are queued, and only once", () =>
    Effect.gen(function* () {
      const { cancel, queued, report, resume } = yield* TaskStore
      yield* begin("a/1")
      yield* report([{ id: "a/1", generation, runner, state: running, since: 1, restarts: 2 }])
      yield* cancel({ id: "a/1", by: "ada", at: 2, result: "{}" })
      yield* end("a/1", 3)
      assert.deepInclude(yield* row("a/1"), { restarts: 2, costUsd: 0.5, result: "{}", cancelBy: "ada" })
      yield* submit("a/2")
      const again = resume({ id: "a/1", generation, history: undefined, at: 4 })
      yield* again
      const anew = { restarts: 0, costUsd: undefined, result: undefined, cancelBy: undefined, started: false }
      assert.deepInclude(yield* row("a/1"), { ...anew, generation: 2, since: 4 })
      assert.deepStrictEqual(
        (yield* queued(["a@1"], 9)).map(({ id }) => id),
        ["a/2", "a/1"]
      )
      yield* end("a/1", 5, 2)
      // A request that has read the generation before.
      yield* again
      assert.deepInclude(yield* row("a/1"), { generation: 2, state: failed })
    }).pipe(Effect.provide(layer))
  )

  it.effect("removes what ended first, with its effects, and no task that is open", () =>
    Effect.gen(function* () {
      const { endedBefore, intend, intents, remove, resume } = yield* TaskStore
      yield* begin("a/1", "a/2", "a/3")
      for (const id of ["a/1", "a/2"]) yield* intend(intent(id))
      yield* end("a/1", 20)
      yield* end("a/2", 10)
      yield* end("a/3", 30)
      const [oldest] = yield* endedBefore(30, 1)
      assert.strictEqual(oldest?.id, "a/2")
      const all = yield* endedBefore(31, 9)
      yield* resume({ id: "a/3", generation, history: undefined, at: 40 })
      assert.strictEqual(yield* remove([...all, yield* row("a/3")]), 2)
      assert.lengthOf([...(yield* intents("a/1")), ...(yield* intents("a/2"))], 0)
      assert.strictEqual((yield* row("a/3")).generation, 2)
    }).pipe(Effect.provide(layer))
  )
})
