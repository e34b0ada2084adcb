import { assert, describe, it } from "@effect/vitest"
import { Tasks } from "@outlast/tasks"
import type { TaskStatus } from "@outlast/tasks"
import { Effect, Option } from "effect"
import * as Postgres from "../services/Postgres.ts"
import { errand } from "./errand.ts"
import * as Programs from "./taskPrograms.ts"

const takeover = 2_000
const minute = 60_000

/** PostgreSQL, the world, and how to start workers. */
const cluster = Effect.gen(function* () {
  const server = yield* Postgres.running
  const world = yield* Programs.world
  const store = { port: server.port, takeover }
  const worker = (name: string, versions: ReadonlyArray<number> = [1]) =>
    Programs.worker({ name, world: world.url, store, versions })
  return { server, world, store, worker, agent: errand(world.url) }
})

const statusOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) => Effect.map(status(id), Option.getOrThrow))

const until = (id: string, isSo: (status: TaskStatus) => boolean) =>
  Effect.gen(function* () {
    while (true) {
      const status = yield* statusOf(id)
      if (isSo(status)) return status
      yield* Effect.sleep("50 millis")
    }
  })

describe.skipIf(Postgres.missing !== undefined)("tasks on PostgreSQL", () => {
  it.live(
    "are taken over within 1.3 times the option when their worker is killed",
    () =>
      Effect.gen(function* () {
        const { store, worker, agent, world } = yield* cluster
        const workers = [yield* worker("a"), yield* worker("b")]
        yield* Effect.gen(function* () {
          for (const { line } of workers) yield* line((said) => said === "up")
          const id = yield* agent.submit({ params: { before: 0, after: 60_000 }, key: "1" })
          const key = `${id}#1/turn/1/tool/note-1`
          const running = yield* until(id, ({ state }) => state._tag === "Running")
          assert.strictEqual(running.state._tag, "Running")
          yield* Effect.raceAll(workers.map(({ line }) => line((said) => said === `did note ${key}`)))
          const first = workers.find(({ said }) => said.includes(`did note ${key}`))
          const other = workers.find((one) => one !== first)
          const before = performance.now()
          yield* first?.kill ?? Effect.void
          yield* other?.line((said) => said === `begin note ${key}`) ?? Effect.void
          const took = performance.now() - before
          console.log(`takeover after ${Math.round(took)} ms`)
          assert.isBelow(took, 1.3 * takeover)
          console.log(yield* world.effects)
        }).pipe(Effect.provide(Programs.client(store)))
      }).pipe(Effect.scoped),
    minute
  )
})
