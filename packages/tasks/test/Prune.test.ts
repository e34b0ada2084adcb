/** Prune and list over rows that are broken, or whose removal was cut off. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks } from "@outlast/tasks"
import * as Dying from "../../../test/services/Dying.ts"
import * as Agents from "../../../test/tasks/Agents.ts"
import * as Sweeps from "../../../test/sweeps.ts"
import { halfSecond, inTime, until } from "../../../test/tasks/Time.ts"

const { Buy } = Agents
const database = SqliteClient.layer({ filename: ":memory:" })
const params = { item: "a book" }

const client = <A, E, R>(program: Effect.Effect<A, E, R>) => Effect.provide(program, Tasks.layerClient())

/** Runs tasks to their ends. */
const worked = (keys: ReadonlyArray<string>) => {
  const own = Agents.world()
  return Effect.gen(function* () {
    for (const key of keys) yield* inTime(Effect.flatMap(Buy.submit({ params, key }), Buy.result))
    for (let i = 0; i < 4; i++) yield* halfSecond
  }).pipe(
    Effect.provide(
      Agents.buying.pipe(
        Layer.provide([Agents.model(own), Agents.handlers(own)]),
        Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void }))
      )
    )
  )
}

const rowsOfEngine = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly n: number }>`SELECT
    (SELECT COUNT(*) FROM cluster_messages) + (SELECT COUNT(*) FROM cluster_replies)
    + (SELECT COUNT(*) FROM outlast_steps) AS n`
  return row?.n
})

it.effect(
  "a prune that died after any statement can be repeated, and leaves neither steps nor rows of the engine",
  () =>
    Effect.gen(function* () {
      for (let at = 1; ; at += Sweeps.full(1, 2)) {
        yield* worked(["1", "2"])
        assert.isAbove((yield* rowsOfEngine) ?? 0, 10)
        const wasKilled = yield* Effect.gen(function* () {
          const { prune } = yield* Tasks.Tasks
          yield* Effect.exit(inTime(prune(0)))
          return (yield* Dying.Life).isDead()
        }).pipe(
          Effect.provide(
            Layer.provideMerge(
              Tasks.layerClient({ create: false }),
              Dying.layer({ at: at + 1, when: "before" })
            )
          ),
          inTime
        )
        yield* client(Effect.flatMap(Tasks.Tasks, ({ prune }) => inTime(prune(0))))
        assert.strictEqual(yield* rowsOfEngine, 0, `died before statement ${at + 1}`)
        if (!wasKilled) {
          assert.isAbove(at, 5)
          return
        }
      }
    }).pipe(Effect.provide(database)),
  120_000
)

it.effect("lists a row that this version cannot read, and the rows behind it", () =>
  client(
    Effect.gen(function* () {
      const { list, status, decide } = yield* Tasks.Tasks
      const sql = yield* SqlClient.SqlClient
      for (let i = 1; i <= 101; i++) yield* Buy.submit({ params, key: `${i}` })
      yield* sql`UPDATE outlast_tasks SET tag = 'Dreaming', state = '{"_tag":"Dreaming"}' WHERE id = 'buy/50'`
      yield* sql`UPDATE outlast_tasks SET restarts = 'many' WHERE id = 'buy/51'`
      const all = yield* Stream.runCollect(list())
      assert.lengthOf(all, 101)
      assert.deepStrictEqual(
        all.flatMap(({ id, task, version, state }) =>
          state._tag === "Unreadable" ? [{ id, task, version, tag: state.tag }] : []
        ),
        [
          { id: "buy/51", task: "buy", version: 1, tag: "Queued" },
          { id: "buy/50", task: "buy", version: 1, tag: "Dreaming" }
        ]
      )
      assert.strictEqual(Option.getOrThrow(yield* status("buy/50")).state._tag, "Unreadable")
      assert.deepInclude(yield* Effect.flip(decide("buy/50", { _tag: "DidNot" })), { _tag: "NotNow" })
    })
  ).pipe(Effect.provide(database))
)

it.effect("a worker leaves a started task alone whose row it cannot read, until it can", () => {
  const own = Agents.world()
  const write = (from: string, to: string) =>
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql`UPDATE outlast_tasks SET state = replace(state, ${from}, ${to}) WHERE id = 'buy/1'`
    )
  const life = <A, E>(program: Effect.Effect<A, E, Tasks.Tasks | SqlClient.SqlClient>) =>
    Effect.provide(
      program,
      Agents.patient.pipe(
        Layer.provide([Agents.model(own), Agents.handlers(own, Effect.sleep("3 seconds"))]),
        Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void }))
      )
    )
  return Effect.gen(function* () {
    const id = yield* life(
      Effect.gen(function* () {
        const id = yield* Buy.submit({ params, key: "1" })
        yield* until(Effect.sync(() => own.asked > 0))
        yield* inTime(Tasks.drain)
        return id
      })
    )
    yield* write('"WaitingForWorker"', '"Dreaming"')
    yield* life(
      Effect.gen(function* () {
        for (let i = 0; i < 40; i++) yield* halfSecond
        assert.strictEqual(own.asked, 1)
        yield* write('"Dreaming"', '"WaitingForWorker"')
        assert.strictEqual((yield* inTime(Buy.result(id))).text, "bought")
      })
    )
    assert.deepStrictEqual([own.asked, own.looked, own.paid.length], [3, [1], 1])
  }).pipe(Effect.provide(database))
})
