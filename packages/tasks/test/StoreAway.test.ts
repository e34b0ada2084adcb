/** A real database that refuses writes or is locked while tasks run. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Random, Stream } from "effect"
import type { Duration } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { SqliteClient } from "@outlast/node/sqlite"
import { ResilienceEvents } from "@outlast/resilience"
import { Tasks } from "@outlast/tasks"
import * as Agents from "../../../test/tasks/Agents.ts"
import * as Sweeps from "../../../test/sweeps.ts"

const newFile = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-tasks-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
).pipe(Effect.map((folder) => join(folder, "tasks.db")))

const count = 9
const ids = Array.from({ length: count }, (_, i) => `buy/${i}`)

/** Makes the store fail. The effect that it returns ends the outage. */
type Fault = (file: string) => Effect.Effect<Effect.Effect<void>, unknown, SqlClient.SqlClient>

type NamedFault = readonly [name: string, fault: Fault, length: Duration.Input]

const full: Fault = () =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [pages] = yield* sql<{ readonly page_count: number }>`PRAGMA page_count`
    yield* sql.unsafe(`PRAGMA max_page_count = ${pages?.page_count}`)
    return Effect.orDie(Effect.asVoid(sql`PRAGMA max_page_count = 1000000`))
  })

const readOnly: Fault = () =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`PRAGMA query_only = 1`
    return Effect.orDie(Effect.asVoid(sql`PRAGMA query_only = 0`))
  })

const locked: Fault = (file) =>
  Effect.sync(() => {
    const other = new DatabaseSync(file, { timeout: 5_000 })
    other.exec("BEGIN IMMEDIATE")
    return Effect.sync(() => {
      other.exec("ROLLBACK")
      other.close()
    })
  })

const worker = (own: Agents.World, file: string) =>
  Agents.patient.pipe(
    Layer.provide([
      Agents.handlers(own, Effect.sleep("300 millis")),
      Agents.model(own, undefined, undefined, Effect.sleep("200 millis"))
    ]),
    Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void })),
    Layer.provideMerge(SqliteClient.layer({ filename: file }))
  )

const submitted = Effect.forEach(ids, (_, i) => Agents.Buy.submit({ params: { item: `${i}` }, key: `${i}` }))

const ended = Effect.forEach(ids, (id) => Effect.flatMap(Tasks.Tasks, ({ result }) => result(id))).pipe(
  Effect.timeout("10 seconds")
)

const isPaidOnce = (own: Agents.World): void => {
  assert.strictEqual(own.paid.length, count)
  assert.strictEqual(new Set(own.paid).size, count)
}

describe("a store of tasks", () => {
  const faults: readonly [NamedFault, ...Array<NamedFault>] = [
    ["is full", full, "3 seconds"],
    ["takes no writes", readOnly, "3 seconds"],
    ["is locked", locked, "40 seconds"]
  ]
  it.live.each(Sweeps.everyNth(3, faults))(
    "that %s for a while holds up every task, and ends none",
    ([, fault, length]) =>
      Effect.gen(function* () {
        const file = yield* newFile
        const own = Agents.world()
        const events: Array<string> = []
        const told = ResilienceEvents.layerTap(
          Effect.succeed(({ _tag }: { readonly _tag: string }) =>
            Effect.sync(() => void (_tag.startsWith("TaskStore") && events.push(_tag)))
          )
        )
        yield* Effect.gen(function* () {
          const { list, watch } = yield* Tasks.Tasks
          yield* submitted
          yield* Effect.sleep("400 millis")
          const back = yield* fault(file)
          if (fault !== locked) {
            yield* Stream.runDrain(
              Stream.takeUntil(watch(ids[0] ?? ""), ({ state }) => state._tag === "WaitingForStore")
            )
          }
          yield* Effect.sleep(length)
          yield* back
          const outcomes = yield* ended
          assert.deepStrictEqual(
            outcomes.map(({ text }) => text),
            ids.map(() => "bought")
          )
          isPaidOnce(own)
          const states = yield* Stream.runCollect(list())
          assert.isTrue(states.every(({ state }) => state._tag === "Done"))
          if (fault !== locked) assert.deepStrictEqual(events, ["TaskStoreLost", "TaskStoreBack"])
        }).pipe(Effect.provide(Layer.provide(worker(own, file), told)))
      }).pipe(Effect.scoped),
    60_000
  )

  it.live.each(Array.from({ length: Sweeps.full(20, 2) }, (_, n) => Sweeps.seed + n))(
    "that fails at any time, for up to a minute, ends every task within ten seconds of its return: seed %s",
    (seed) =>
      Effect.gen(function* () {
        const file = yield* newFile
        const own = Agents.world()
        const [, fault] = faults[yield* Random.nextIntBetween(0, faults.length - 1)] ?? faults[0]
        const after = 1_500 * (yield* Random.next)
        const length = 500 * Sweeps.full(120, 6) ** (yield* Random.next)
        yield* Effect.gen(function* () {
          yield* submitted
          yield* Effect.sleep(after)
          const back = yield* fault(file)
          yield* Effect.sleep(length)
          yield* back
          const outcomes = yield* ended
          assert.isTrue(outcomes.every(({ text }) => text === "bought"))
          isPaidOnce(own)
        }).pipe(Effect.provide(worker(own, file)))
      }).pipe(Effect.scoped, Random.withSeed(seed)),
    120_000
  )

  it.live(
    "that is full lets its worker stop, and the next one ends the tasks",
    () =>
      Effect.gen(function* () {
        const file = yield* newFile
        const own = Agents.world()
        yield* Effect.gen(function* () {
          yield* submitted
          yield* Effect.sleep("400 millis")
          yield* full(file)
          yield* Effect.sleep("1 second")
        }).pipe(Effect.provide(worker(own, file)), Effect.timeout("20 seconds"))
        yield* Effect.asVoid(ended).pipe(Effect.provide(worker(own, file)))
        isPaidOnce(own)
      }).pipe(Effect.scoped),
    60_000
  )
})
