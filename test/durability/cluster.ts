/** Workers of tasks on a PostgreSQL of their own. */
import { Tasks } from "@outlast/tasks"
import type { TaskStatus } from "@outlast/tasks"
import { Effect, Option } from "effect"
import * as Postgres from "../services/Postgres.ts"
import { errand } from "./errand.ts"
import * as Programs from "./taskPrograms.ts"

export const minute = 60_000

/** PostgreSQL, the world, and how to start workers, whose tasks are taken over after these milliseconds. */
export const clusterOf = (takeover: number) =>
  Effect.gen(function* () {
    const server = yield* Postgres.running
    const world = yield* Programs.world
    const store = { port: server.port, takeover }
    const worker = (name: string, versions: ReadonlyArray<number> = [1]) =>
      Programs.worker({ name, world: world.url, store, versions })
    return { server, world, store, worker, agent: errand(world.url) }
  })

export const cluster = clusterOf(2_000)

export const statusOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) => Effect.map(status(id), Option.getOrThrow))

export const until = (id: string, isSo: (status: TaskStatus) => boolean) =>
  Effect.gen(function* () {
    while (true) {
      const status = yield* statusOf(id)
      if (isSo(status)) return status
      yield* Effect.sleep("50 millis")
    }
  })
