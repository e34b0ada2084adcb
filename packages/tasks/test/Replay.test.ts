/** The cost of a long task: its rows, and the statements that bring it back in another life of its process. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { SqliteClient } from "@outlast/node/sqlite"
import { Task, Tasks } from "@outlast/tasks"
import * as Dying from "../../../test/services/Dying.ts"
import * as Agents from "../../../test/tasks/Agents.ts"
import { inTime, until } from "../../../test/tasks/Time.ts"

const Walk = Task.make("walk", { version: 1, params: Agents.Order, toolkit: Agents.Shop })
const walking = Walk.toLayer(({ item }) => ({ prompt: item, maxTurns: 1_000 }))
const params = { item: "Walk." }

/** Looks at a page in each of `turns` turns, and says that it is done in the next. */
const answers = (turns: number) => (turn: number) =>
  turn > turns
    ? Agents.answer(3)
    : [
        {
          type: "tool-call" as const,
          id: `look-${String(turn).padStart(3, "0")}`,
          name: "look",
          params: { page: 100 }
        },
        Agents.finish("tool-calls")
      ]

const life = (own: Agents.World, turns: number, before?: Effect.Effect<void>) =>
  walking.pipe(
    Layer.provide([Agents.model(own, undefined, answers(turns)), Agents.handlers(own, before)]),
    Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void, worker: "walker" })),
    Layer.provideMerge(Dying.layer({ at: Infinity, when: "before" }))
  )

const database = SqliteClient.layer({ filename: ":memory:" })

/** Rows of the engine and of steps, and the bytes of steps. */
const stored = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly rows: number; readonly bytes: number }>`SELECT
    (SELECT COUNT(*) FROM cluster_messages) + (SELECT COUNT(*) FROM cluster_replies)
      + (SELECT COUNT(*) FROM outlast_steps) AS rows,
    (SELECT SUM(LENGTH(reply)) FROM outlast_steps) AS bytes`
  return { rows: row?.rows ?? 0, bytes: row?.bytes ?? 0 }
})

const afterTurns = (turns: number) => {
  const own = Agents.world()
  return Effect.gen(function* () {
    yield* Effect.flatMap(Walk.submit({ params, key: "1" }), (id) => inTime(Walk.result(id))).pipe(
      Effect.provide(life(own, turns))
    )
    return yield* stored
  }).pipe(Effect.provide(database))
}

it.effect(
  "rows of a task grow linearly with its turns",
  () =>
    Effect.gen(function* () {
      const [short, middle, long] = [yield* afterTurns(10), yield* afterTurns(15), yield* afterTurns(25)]
      assert.strictEqual(long.rows - middle.rows, 2 * (middle.rows - short.rows))
      // Numbers of turns: a few bytes.
      assert.approximately((long.bytes - middle.bytes) / (2 * (middle.bytes - short.bytes)), 1, 0.02)
    }),
  60_000
)

/** Statements of the life that takes a task up behind `turns` turns, until it ends. */
const resumed = (turns: number) => {
  const own = Agents.world()
  return Effect.gen(function* () {
    // Drained during the last tool.
    const before = Effect.suspend(() =>
      own.looked.length < turns - 1 ? Effect.void : Effect.sleep("3 seconds")
    )
    yield* Effect.gen(function* () {
      yield* Walk.submit({ params, key: "1" })
      yield* until(Effect.sync(() => own.asked === turns))
      yield* inTime(Tasks.drain)
    }).pipe(Effect.provide(life(own, turns, before)))
    const statements = yield* Effect.gen(function* () {
      const { statements } = yield* Dying.Life
      yield* until(Effect.sync(() => own.asked > turns))
      return statements()
    }).pipe(Effect.provide(life(own, turns)), inTime)
    assert.deepStrictEqual([own.asked, own.looked.length], [turns + 1, turns])
    return statements
  }).pipe(Effect.provide(database))
}

it.effect(
  "a resumed task reads its stored steps at once, however many there are",
  () =>
    Effect.gen(function* () {
      const [short, long] = [yield* resumed(3), yield* resumed(23)]
      // One by one, the 20 further turns would be at least 80 statements. The looks of the worker are a few.
      assert.isBelow(long - short, 30)
    }),
  60_000
)
