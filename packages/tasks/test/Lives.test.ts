/** Tasks that go on in another life of their process, on one SQLite database. */
import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Random, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { SqliteClient } from "@outlast/node/sqlite"
import { ResilienceEvents } from "@outlast/resilience"
import { Tasks } from "@outlast/tasks"
import * as Agents from "../../../test/tasks/Agents.ts"
import { halfSecond, inTime, until } from "../../../test/tasks/Time.ts"

const { Buy } = Agents
const params = { item: "a book" }
const database = SqliteClient.layer({ filename: ":memory:" })

const stateOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) =>
    Effect.map(status(id), (found) => Option.getOrThrow(found).state)
  )

/** A process over the database, until its program ends. */
const life = <A, E>(
  own: Agents.World,
  program: Effect.Effect<A, E, Tasks.Tasks>,
  { before, fails }: { before?: Effect.Effect<void>; fails?: Parameters<typeof Agents.model>[1] } = {}
) =>
  Effect.provide(
    program,
    Agents.patient.pipe(
      Layer.provide([Agents.model(own, fails), Agents.handlers(own, before)]),
      Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void }))
    )
  )

const client = <A, E>(program: Effect.Effect<A, E, Tasks.Tasks>) =>
  Effect.provide(program, Tasks.layerClient())

/** Begins a task and drains its worker while the first tool runs. */
const firstLife = (own: Agents.World) => {
  let isLooking = false
  const before = Effect.andThen(
    Effect.sync(() => {
      isLooking = true
    }),
    Effect.sleep("3 seconds")
  )
  return life(
    own,
    Effect.gen(function* () {
      const id = yield* Buy.submit({ params, key: "1" })
      yield* until(Effect.sync(() => isLooking))
      yield* inTime(Tasks.drain)
      return id
    }),
    { before }
  )
}

it.effect("a drained worker hands its tasks back: the next life goes on behind the last step", () => {
  const own = Agents.world()
  return Effect.gen(function* () {
    const id = yield* firstLife(own)
    assert.deepStrictEqual([own.asked, own.looked], [1, [1]])
    const outcome = yield* life(own, inTime(Buy.result(id)))
    assert.strictEqual(outcome.turns, 3)
    assert.deepStrictEqual([own.asked, own.looked, own.paid.length], [3, [1], 1])
  }).pipe(Effect.provide(database))
})

/** As a version would have stored it that asks a hook first, and as one would that has other events. */
const others = ['"_tag":"Approved","decisions":[],"x":"Started"', '"_tag":"Dreamed","x":"Started"']

it.effect.each(others)("a worker that cannot replay a stored step leaves the task alone: %s", (other) => {
  const own = Agents.world()
  const replace = (from: string, to: string) =>
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql`UPDATE outlast_steps SET reply = replace(reply, ${from}, ${to})`
    )
  return Effect.gen(function* () {
    const id = yield* firstLife(own)
    const mine = '"_tag":"Started"'
    yield* replace(mine, other)
    yield* life(
      own,
      Effect.gen(function* () {
        const isRefused = Effect.map(
          stateOf(id),
          (state) => state._tag === "WaitingForWorker" && state.needs.includes("can replay its stored steps")
        )
        yield* until(isRefused, 100)
        yield* inTime(Tasks.drain)
      })
    )
    assert.strictEqual(own.asked, 1)
    yield* replace(other, mine)
    const outcome = yield* life(own, inTime(Buy.result(id)))
    assert.strictEqual(outcome.turns, 3)
  }).pipe(Effect.provide(database))
})

it.effect("a step is not stored once another process has claimed the task", () => {
  const own = Agents.world()
  let isLooking = false
  const before = Effect.suspend(() => {
    isLooking = true
    return Effect.sleep("3 seconds")
  })
  return Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const steps = Effect.map(sql`SELECT name FROM outlast_steps ORDER BY name`, (rows) => rows.length)
    const outcome = yield* life(
      own,
      Effect.gen(function* () {
        const id = yield* Buy.submit({ params, key: "1" })
        yield* until(Effect.sync(() => isLooking))
        const stored = yield* steps
        yield* sql`UPDATE outlast_tasks SET runner = 'another'`
        yield* until(Effect.sync(() => own.looked.length === 1))
        yield* halfSecond
        assert.strictEqual(yield* steps, stored)
        assert.strictEqual(own.asked, 1)
        // The engine knows of no other process: it begins the task here again, which claims it.
        return yield* inTime(Buy.result(id))
      }),
      { before }
    )
    assert.strictEqual(outcome.turns, 3)
    assert.deepStrictEqual([own.asked, own.looked, own.paid.length], [3, [1, 1], 1])
  }).pipe(Effect.provide(database))
})

it.effect(
  // `test/durability/cluster.test.ts` holds the time of real processes.
  "a client submits, watches and cancels a tool of ten minutes in another process",
  () => {
    const own = Agents.world()
    return Effect.gen(function* () {
      const id = yield* client(Buy.submit({ params, key: "1" }))
      const worker = yield* Effect.forkChild(
        life(own, until(Effect.map(stateOf(id), ({ _tag }) => _tag === "Cancelled")), {
          before: Effect.sleep("10 minutes")
        })
      )
      yield* client(
        Effect.gen(function* () {
          const { cancel } = yield* Tasks.Tasks
          yield* until(Effect.map(stateOf(id), ({ _tag }) => _tag === "Running"))
          yield* cancel(id, "ada")
          yield* until(
            Effect.map(stateOf(id), ({ _tag }) => _tag === "Cancelled"),
            40
          )
          assert.deepStrictEqual(yield* stateOf(id), { _tag: "Cancelled", by: "ada" })
          const outcome = yield* inTime(Buy.result(id))
          assert.strictEqual(outcome.status, "cancelled")
        })
      )
      yield* inTime(Fiber.join(worker))
    }).pipe(Effect.provide(database))
  }
)

it.effect("a worker that does not know the body of a task leaves it alone, and says so", () => {
  const own = Agents.world()
  const replace = (from: string, to: string) =>
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql`UPDATE cluster_messages SET payload = replace(payload, ${from}, ${to})`
    )
  return Effect.gen(function* () {
    const id = yield* firstLife(own)
    // As a later version of the package would have started it.
    yield* replace('"body":2', '"body":3')
    yield* life(
      own,
      Effect.gen(function* () {
        const isRefused = Effect.map(
          stateOf(id),
          (state) => state._tag === "WaitingForWorker" && state.needs === "buy@1 (body 3 of @outlast/tasks)"
        )
        yield* until(isRefused, 100)
        yield* inTime(Tasks.drain)
      })
    )
    assert.strictEqual(own.asked, 1)
    yield* replace('"body":3', '"body":2')
    const outcome = yield* life(own, inTime(Buy.result(id)))
    assert.strictEqual(outcome.turns, 3)
  }).pipe(Effect.provide(database))
})

it.effect(
  "refuses a key that another process has used with other parameters, before and after its end",
  () => {
    const own = Agents.world()
    const again = client(Effect.flip(Buy.submit({ params: { item: "a car" }, key: "1" })))
    return Effect.gen(function* () {
      const id = yield* client(Buy.submit({ params, key: "1" }))
      assert.deepInclude(yield* again, { _tag: "KeyReused", task: "buy", key: "1" })
      yield* life(own, inTime(Buy.result(id)))
      assert.deepInclude(yield* again, { _tag: "KeyReused", task: "buy", key: "1" })
      assert.strictEqual(yield* client(Buy.submit({ params, key: "1" })), id)
      assert.strictEqual(own.asked, 3)
    }).pipe(Effect.provide(database))
  }
)

it.effect("publishes each event once, however often the body runs", () => {
  const own = Agents.world()
  const seen: Array<string> = []
  const events = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      if (event._tag === "AgentTransition" && "transition" in event) seen.push(String(event.transition))
      else if (event._tag.startsWith("Task") || event._tag === "ToolFinished") seen.push(event._tag)
    })
  )
  // The third turn fails twice: two suspensions, and so two replays.
  const fails = (turn: number, asked: number) => (turn === 3 && asked <= 4 ? Agents.network : undefined)
  return life(
    own,
    Effect.flatMap(Buy.submit({ params, key: "1" }), (id) => inTime(Buy.result(id))),
    {
      fails
    }
  ).pipe(
    Effect.map(() =>
      assert.deepStrictEqual(seen, [
        "TaskSubmitted",
        "TaskStarted",
        "ToolFinished",
        "next_turn",
        "ToolFinished",
        "next_turn",
        "TaskRestarting",
        "TaskRestarting",
        "completed",
        "TaskEnded"
      ])
    ),
    Effect.provide([database, events])
  )
})

it.effect("parts shows a task that runs here, and ends with its outcome", () => {
  const own = Agents.world()
  return life(
    own,
    Effect.gen(function* () {
      const { parts } = yield* Tasks.Tasks
      const id = yield* Buy.submit({ params, key: "1" })
      const watching = yield* Effect.forkChild(Stream.runCollect(parts(id)), { startImmediately: true })
      yield* inTime(Buy.result(id))
      yield* halfSecond
      const types = (yield* inTime(Fiber.join(watching))).map(({ type }) => type)
      assert.strictEqual(types.at(-1), "outcome")
      assert.includeMembers([...types], ["transition", "tool-result", "text-delta"])
    }),
    { before: Effect.sleep("1 second") }
  ).pipe(Effect.provide(database))
})

it.effect("loses no task where the clock of the machine was set back between two lives", () => {
  const own = Agents.world()
  // Each life begins at the same moment, so ids that come from the time alone are the same.
  const one = (key: string) =>
    life(
      own,
      Effect.gen(function* () {
        const id = yield* inTime(Buy.submit({ params, key }))
        return yield* inTime(Buy.result(id), 200)
      })
    ).pipe(Random.withSeed(key), Effect.provide(TestClock.layer()))
  return Effect.gen(function* () {
    for (const key of ["1", "2", "3"]) assert.strictEqual((yield* one(key)).turns, 3)
    assert.lengthOf(own.paid, 3)
  }).pipe(Effect.provide(database))
})
