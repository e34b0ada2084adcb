/** A cancellation keeps the conversation, and the knowledge about effects. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { WorkflowEngine } from "effect/workflow"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks, TaskStore } from "@outlast/tasks"
import * as Agents from "../../../test/tasks/Agents.ts"
import { halfSecond, inTime, until } from "../../../test/tasks/Time.ts"

const { Buy } = Agents
const params = { item: "a book" }
const database = SqliteClient.layer({ filename: ":memory:" })

const stateOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) =>
    Effect.map(status(id), (found) => Option.getOrThrow(found).state)
  )

const is = (id: string, tag: string) => Effect.map(stateOf(id), ({ _tag }) => _tag === tag)

const agent = (own: Agents.World, before?: Effect.Effect<void>, fails?: Parameters<typeof Agents.model>[1]) =>
  Agents.patient.pipe(Layer.provide([Agents.model(own, fails), Agents.handlers(own, before)]))

const worker = (options?: Tasks.WorkerOptions) => Tasks.layerSqlite({ lock: Effect.void, ...options })

it.effect("a waiting task that is cancelled while every permit is taken keeps what it has done", () => {
  const own = Agents.world()
  let isDown = true
  const fails = (turn: number) => (turn === 3 && isDown ? Agents.network : undefined)
  const before = Effect.suspend(() => (isDown ? Effect.void : Effect.sleep("20 minutes")))
  return Effect.gen(function* () {
    const { cancel, resume } = yield* Tasks.Tasks
    const id = yield* Buy.submit({ params, key: "1" })
    yield* until(is(id, "WaitingUntil"))
    isDown = false
    const other = yield* Buy.submit({ params, key: "2" })
    yield* until(is(other, "Running"))
    yield* cancel(id, "ada")
    yield* until(is(id, "Cancelled"), 40)
    yield* cancel(other, "ada")
    yield* until(is(other, "Cancelled"), 40)
    yield* resume(id)
    yield* inTime(Buy.result(id))
    assert.deepStrictEqual(own.paid, ["buy/1#0.1/turn/2/tool/pay-1"])
  }).pipe(
    Effect.provide(agent(own, before, fails).pipe(Layer.provideMerge(worker({ concurrency: 1 })))),
    Effect.provide(database)
  )
})

it.effect("a task that is cancelled shortly before its agent is registered keeps what it has done", () => {
  const own = Agents.world()
  let isDown = true
  const buying = agent(own, undefined, (turn) => (turn === 3 && isDown ? Agents.network : undefined))
  return Effect.gen(function* () {
    const { cancel, resume } = yield* Tasks.Tasks
    const id = yield* Effect.scoped(
      Effect.gen(function* () {
        yield* Layer.build(buying)
        const id = yield* Buy.submit({ params, key: "1" })
        yield* until(is(id, "WaitingUntil"))
        return id
      })
    )
    isDown = false
    yield* cancel(id, "ada")
    for (let i = 0; i < 2; i++) yield* halfSecond
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* Layer.build(buying)
        yield* until(is(id, "Cancelled"), 40)
        yield* resume(id)
        yield* inTime(Buy.result(id))
      })
    )
    assert.deepStrictEqual(own.paid, ["buy/1#0.1/turn/2/tool/pay-1"])
  }).pipe(Effect.provide(Tasks.layerMemory()))
})

it.effect(
  "a task that is cancelled while no worker has its agent cannot be resumed from its beginning",
  () => {
    const own = Agents.world()
    const fails = (turn: number) => (turn === 3 ? Agents.network : undefined)
    return Effect.gen(function* () {
      const id = yield* Effect.gen(function* () {
        const id = yield* Buy.submit({ params, key: "1" })
        yield* until(is(id, "WaitingUntil"))
        return id
      }).pipe(Effect.provide(agent(own, undefined, fails).pipe(Layer.provideMerge(worker()))))
      yield* Effect.gen(function* () {
        const { cancel, resume } = yield* Tasks.Tasks
        yield* cancel(id, "ada")
        yield* until(is(id, "Cancelled"), 100)
        const failed = yield* Effect.flip(inTime(Buy.result(id)))
        assert.include(failed.message, "while no worker had its agent")
        assert.deepInclude(yield* Effect.flip(resume(id)), { _tag: "NotNow" })
      }).pipe(Effect.provide(worker()))
    }).pipe(Effect.provide(database))
  }
)

it.effect("a task that is cancelled before the store knows that it began does not run", () => {
  const own = Agents.world()
  const late = Layer.effect(
    TaskStore,
    Effect.map(TaskStore, (store) => ({
      ...store,
      started: (id: string, generation: number) => Effect.delay(store.started(id, generation), "5 seconds"),
      claim: (id: string, generation: number, runner: string) =>
        Effect.delay(store.claim(id, generation, runner), "5 seconds")
    }))
  ).pipe(Layer.provideMerge(Tasks.layerStore()))
  return Effect.gen(function* () {
    const { cancel } = yield* Tasks.Tasks
    const id = yield* Buy.submit({ params, key: "1" })
    yield* halfSecond
    yield* cancel(id, "ada")
    assert.deepStrictEqual(yield* stateOf(id), { _tag: "Cancelled", by: "ada" })
    for (let i = 0; i < 40; i++) yield* halfSecond
    assert.deepStrictEqual([own.asked, own.paid], [0, []])
  }).pipe(
    Effect.provide(
      agent(own).pipe(
        Layer.provideMerge(Tasks.layerEngine()),
        Layer.provide([late, WorkflowEngine.layerMemory])
      )
    ),
    Effect.provide(database)
  )
})

const slowToPay = (own: Agents.World) =>
  Effect.suspend(() => (own.looked.length > 0 ? Effect.sleep("20 minutes") : Effect.void))

const key = "buy/1#0.1/turn/2/tool/pay-1"

it.effect("a payment that a cancellation cut off is named as unknown", () => {
  const own = Agents.world()
  let isPaying = false
  const slow = Effect.andThen(
    Effect.sync(() => {
      isPaying = own.looked.length > 0
    }),
    slowToPay(own)
  )
  return Effect.gen(function* () {
    const { cancel } = yield* Tasks.Tasks
    const id = yield* Buy.submit({ params, key: "1" })
    yield* until(Effect.sync(() => isPaying))
    yield* cancel(id, "ada")
    yield* until(is(id, "Cancelled"), 40)
    const state = yield* stateOf(id)
    assert.isTrue(state._tag === "Cancelled" && state.by === "ada")
    assert.deepStrictEqual(state._tag === "Cancelled" && state.unknown?.map(({ key }) => key), [key])
  }).pipe(Effect.provide(agent(own, slow).pipe(Layer.provideMerge(worker()))), Effect.provide(database))
})

it.effect("a payment in doubt stays unknown when its task is cancelled", () => {
  const own = Agents.world()
  const impatient = Agents.buying.pipe(
    Layer.provide([Agents.model(own), Agents.handlers(own, slowToPay(own))])
  )
  return Effect.gen(function* () {
    const { cancel } = yield* Tasks.Tasks
    const id = yield* Buy.submit({ params, key: "1" })
    yield* until(is(id, "InDoubt"))
    yield* cancel(id, "ada")
    yield* until(is(id, "Cancelled"), 40)
    const state = yield* stateOf(id)
    assert.deepStrictEqual(state._tag === "Cancelled" && state.unknown?.map(({ key }) => key), [key])
  }).pipe(Effect.provide(impatient.pipe(Layer.provideMerge(worker()))), Effect.provide(database))
})

it.effect("a payment that the time limit of the run cut off is named as unknown", () => {
  const own = Agents.world()
  const limited = Buy.toLayer(({ item }) => ({
    prompt: `Buy ${item}.`,
    toolTimeout: "1 hour",
    limits: { time: "1 minute" }
  })).pipe(Layer.provide([Agents.model(own), Agents.handlers(own, slowToPay(own))]))
  return Effect.gen(function* () {
    const id = yield* Buy.submit({ params, key: "1" })
    yield* inTime(Buy.result(id))
    const state = yield* stateOf(id)
    assert.deepStrictEqual(state._tag === "Done" && state.unknown?.map(({ key }) => key), [key])
  }).pipe(Effect.provide(limited.pipe(Layer.provideMerge(worker()))), Effect.provide(database))
})

it.effect("a decision that cannot be read does not hold up the tasks behind it", () => {
  const own = Agents.world()
  const impatient = Agents.buying.pipe(
    Layer.provide([Agents.model(own), Agents.handlers(own, slowToPay(own))])
  )
  return Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { cancel } = yield* Tasks.Tasks
    const first = yield* Buy.submit({ params, key: "1" })
    const second = yield* Buy.submit({ params, key: "2" })
    for (const id of [first, second]) yield* until(is(id, "InDoubt"))
    yield* sql`UPDATE outlast_tasks SET verdict = 'of a newer version' WHERE id = ${first}`
    yield* cancel(second, "ada")
    yield* until(is(second, "Cancelled"), 40)
    assert.isTrue(yield* is(first, "InDoubt"))
  }).pipe(Effect.provide(impatient.pipe(Layer.provideMerge(worker()))), Effect.provide(database))
})
