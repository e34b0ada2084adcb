import { assert, describe, it } from "@effect/vitest"
import { Tasks } from "@outlast/tasks"
import type { TaskStatus } from "@outlast/tasks"
import { Effect, Fiber, Schedule, Stream } from "effect"
import * as Postgres from "../services/Postgres.ts"
import * as Sweeps from "../sweeps.ts"
import { cluster, minute, until } from "./cluster.ts"
import * as Programs from "./taskPrograms.ts"

describe.skipIf(Postgres.missing !== undefined)(
  "tasks on PostgreSQL, when a worker or the database is away",
  () => {
    it.live(
      "stay in doubt after a pause beyond the lease, and are not run again without reconcile",
      () =>
        Effect.gen(function* () {
          const { store, worker, agent, world } = yield* cluster
          const workers = [yield* worker("a"), yield* worker("b")]
          yield* Effect.gen(function* () {
            for (const { line } of workers) yield* line((said) => said === "up")
            // `pay` has a reconcile and is paused before its effect, `ring` has none.
            const id = yield* agent.submit({
              params: { before: 2_000, after: 0, slow: ["pay", "ring"] },
              key: "1"
            })
            for (const tool of ["pay", "ring"]) {
              const begins = (said: string) => said.startsWith(`begin ${tool} `)
              yield* Effect.raceAll(workers.map(({ line }) => line(begins)))
              const first = workers.find(({ said }) => said.some(begins))
              yield* first?.signal("SIGSTOP") ?? Effect.void
              if (tool === "pay") {
                const other = workers.find((one) => one !== first)
                yield* other?.line(begins) ?? Effect.void
              } else {
                yield* until(id, ({ state }) => state._tag === "InDoubt")
              }
              yield* first?.signal("SIGCONT") ?? Effect.void
            }
            // The paused handler goes on.
            yield* Effect.sleep("4 seconds")
            const timesOf = (tool: string) =>
              Effect.map(world.effects, (effects) =>
                [...effects].filter(([key]) => key.endsWith(`/${tool}-1`)).map(([, times]) => times)
              )
            // The other side counts a payment once, by its key.
            assert.strictEqual((yield* timesOf("pay")).length, 1)
            assert.deepStrictEqual(yield* timesOf("ring"), [1])
            const { decide } = yield* Tasks.Tasks
            yield* decide(id, { _tag: "Happened", result: "rung" })
            const outcome = yield* agent.result(id)
            assert.strictEqual(outcome.text, "done")
            assert.deepStrictEqual(yield* timesOf("ring"), [1])
          }).pipe(Effect.provide(Programs.client(store)))
        }).pipe(Effect.scoped),
      2 * minute
    )

    it.live(
      "survive a database that is gone for longer than their lease, and no effect of a living worker is in doubt",
      () =>
        Effect.gen(function* () {
          const { server, store, worker, agent, world } = yield* cluster
          const workers = [yield* worker("a"), yield* worker("b")]
          yield* Effect.gen(function* () {
            for (const { line } of workers) yield* line((said) => said === "up")
            const ids = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (n) =>
              agent.submit({ params: { before: 3_000, after: 3_000, slow: ["pay"] }, key: `${n}` })
            )
            const begun = () =>
              workers.flatMap(({ said }) => said).filter((said) => said.startsWith("begin pay ")).length
            while (begun() < 6) yield* Effect.sleep("50 millis")
            yield* server.kill
            yield* Effect.sleep(`${Sweeps.full(30, 8)} seconds`)
            yield* server.start
            const { list } = yield* Tasks.Tasks
            const doubts: Array<TaskStatus> = []
            const watching = yield* Effect.forkChild(
              Stream.runForEach(list({ state: ["InDoubt"] }), (status) =>
                Effect.sync(() => void doubts.push(status))
              ).pipe(Effect.ignore, Effect.delay("200 millis"), Effect.forever)
            )
            const outcomes = yield* Effect.forEach(
              ids,
              (id) => Effect.retry(agent.result(id), { schedule: Schedule.spaced("100 millis"), times: 300 }),
              {
                concurrency: 6
              }
            )
            yield* Fiber.interrupt(watching)
            assert.deepStrictEqual(doubts, [])
            assert.deepStrictEqual(
              outcomes.map(({ text }) => text),
              ids.map(() => "done")
            )
            const repeated = [...(yield* world.effects)].filter(
              ([key, times]) => !key.includes("note") && times !== 1
            )
            assert.deepStrictEqual(repeated, [])
          }).pipe(Effect.provide(Programs.client(store)))
        }).pipe(Effect.scoped),
      2 * minute
    )
  }
)
