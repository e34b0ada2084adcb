import { assert, describe, it } from "@effect/vitest"
import { Tasks } from "@outlast/tasks"
import { Effect } from "effect"
import * as Postgres from "../services/Postgres.ts"
import * as Server from "../services/Server.ts"
import * as Sweeps from "../sweeps.ts"
import { cluster, clusterOf, minute, statusOf, until } from "./cluster.ts"
import { errand } from "./errand.ts"
import * as Programs from "./taskPrograms.ts"

describe.skipIf(Postgres.missing !== undefined)("tasks on PostgreSQL", () => {
  it.live(
    "are taken over within 1.3 times the option when their worker is killed",
    () =>
      Effect.gen(function* () {
        // Long enough that the time in which a busy machine answers does not count.
        const takeover = 5_000
        const { store, worker, agent } = yield* clusterOf(takeover)
        const workers = [yield* worker("a"), yield* worker("b")]
        yield* Effect.gen(function* () {
          for (const { line } of workers) yield* line((said) => said === "up")
          const id = yield* agent.submit({ params: { before: 0, after: 60_000, slow: ["note"] }, key: "1" })
          const running = yield* until(id, ({ state }) => state._tag === "Running")
          assert.strictEqual(running.state._tag, "Running")
          yield* Effect.raceAll(workers.map(({ line }) => line((said) => said.startsWith("did note "))))
          const first = workers.find(({ said }) => said.some((line) => line.startsWith("did note ")))
          const other = workers.find((one) => one !== first)
          const before = performance.now()
          yield* first?.kill ?? Effect.void
          yield* other?.line((said) => said.startsWith("begin note ")) ?? Effect.void
          const took = performance.now() - before
          assert.isBelow(took, 1.3 * takeover)
        }).pipe(Effect.provide(Programs.client(store)))
      }).pipe(Effect.scoped),
    2 * minute
  )

  it.live(
    "go on at once when their only worker was killed and returns to its address",
    () =>
      Effect.gen(function* () {
        // Far longer than the test waits: what goes on does not wait for the lease.
        const { store, world, agent } = yield* clusterOf(2 * minute)
        const own = yield* Server.freePort
        const start = (name: string) =>
          Programs.worker({ name, world: world.url, store: { ...store, own }, versions: [1] })
        const first = yield* start("first")
        yield* first.line((said) => said === "up")
        yield* Effect.gen(function* () {
          const id = yield* agent.submit({ params: { before: 500, after: 0, slow: ["pay"] }, key: "1" })
          yield* first.line((said) => said.startsWith("begin pay "))
          yield* first.kill
          const second = yield* start("second")
          yield* second.line((said) => said.startsWith("did pay "))
          yield* until(id, ({ state }) => state._tag === "InDoubt" || state._tag === "Done")
        }).pipe(Effect.provide(Programs.client(store)), Effect.timeout("1 minute"))
        const paid = [...(yield* world.effects)].filter(([key]) => key.endsWith("/pay-1"))
        assert.deepStrictEqual(
          paid.map(([, times]) => times),
          [1]
        )
      }).pipe(Effect.scoped),
    2 * minute
  )

  it.live(
    "move to a new worker while a handler runs, and get its reply from there",
    () =>
      Effect.gen(function* () {
        const { store, worker, agent, world } = yield* cluster
        const first = yield* worker("a")
        yield* Effect.gen(function* () {
          yield* first.line((said) => said === "up")
          const ids = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8], (n) =>
            agent.submit({
              params: { before: 0, after: Sweeps.full(30_000, 10_000), slow: ["ring"] },
              key: `${n}`
            })
          )
          const begun = () => first.said.filter((said) => said.startsWith("did ring ")).length
          while (begun() < ids.length) yield* Effect.sleep("50 millis")
          const second = yield* worker("b")
          yield* Effect.forEach(ids, (id) => until(id, ({ state }) => state._tag === "Done"), {
            concurrency: "unbounded"
          })
          // Some go on there with the reply of the handler that has run here.
          assert.isAbove(second.said.filter((said) => said === "ask 4").length, 0)
          assert.strictEqual(second.said.filter((said) => said.startsWith("begin ")).length, 0)
          const once = [...(yield* world.effects)].filter(([key]) => !key.includes("note"))
          assert.strictEqual(once.length, 2 * ids.length)
          assert.isTrue(once.every(([, times]) => times === 1))
        }).pipe(Effect.provide(Programs.client(store)))
      }).pipe(Effect.scoped),
    3 * minute
  )

  it.live(
    "wait for a worker that has their agent in their version, and are not lost",
    () =>
      Effect.gen(function* () {
        const { store, world, worker } = yield* cluster
        const old = yield* worker("old")
        yield* Effect.gen(function* () {
          yield* old.line((said) => said === "up")
          const params = { before: 0, after: 120_000, slow: ["pay"] }
          const before = yield* errand(world.url, 1).submit({ params, key: "1" })
          const after = yield* errand(world.url, 2).submit({ params: { ...params, slow: [] }, key: "2" })
          yield* old.line((said) => said.startsWith("did pay "))
          const waits = yield* until(after, ({ state }) => state._tag === "WaitingForWorker")
          assert.deepStrictEqual(waits.state, { _tag: "WaitingForWorker", needs: "errand@2" })
          // The deploy: the new worker has no version 1, and the old one is gone in the middle of a task.
          const next = yield* worker("new", [2])
          yield* next.line((said) => said === "up")
          yield* old.kill
          yield* until(after, ({ state }) => state._tag === "Done")
          yield* until(before, ({ state }) => state._tag === "WaitingForWorker" && state.needs === "errand@1")
          yield* worker("again", [1, 2])
          yield* next.kill
          yield* until(before, ({ state }) => state._tag === "Done")
        }).pipe(Effect.provide(Programs.client(store)))
      }).pipe(Effect.scoped),
    3 * minute
  )

  it.live(
    "end within two seconds when another process cancels a tool of ten minutes",
    () =>
      Effect.gen(function* () {
        const { store, worker, agent } = yield* cluster
        const own = yield* worker("a")
        yield* Effect.gen(function* () {
          const id = yield* agent.submit({ params: { before: 0, after: 599_000, slow: ["pay"] }, key: "1" })
          yield* own.line((said) => said.startsWith("did pay "))
          const { cancel } = yield* Tasks.Tasks
          const before = performance.now()
          yield* cancel(id, "a test")
          const status = yield* until(id, ({ state }) => state._tag === "Cancelled")
          assert.deepInclude(status.state, { _tag: "Cancelled", by: "a test" })
          // The payment was under way: whether it has happened is not known.
          assert.include(JSON.stringify(status.state), `"tool":"pay"`)
          assert.isBelow(performance.now() - before, 2_000)
        }).pipe(Effect.provide(Programs.client(store)))
      }).pipe(Effect.scoped),
    2 * minute
  )

  it.live(
    "begin when the database is there: a worker that was started before waits for it, and says so",
    () =>
      Effect.gen(function* () {
        const { server, store, worker, agent } = yield* cluster
        yield* server.kill
        const own = yield* worker("a")
        yield* own.line((said) => said.includes("the database does not answer"))
        yield* server.start
        yield* own.line((said) => said === "up")
        yield* Effect.gen(function* () {
          const id = yield* agent.submit({ params: { before: 0, after: 60_000, slow: ["note"] }, key: "1" })
          yield* own.line((said) => said === "ask 1")
          assert.strictEqual((yield* statusOf(id)).task, "errand")
        }).pipe(Effect.provide(Programs.client(store)))
      }).pipe(Effect.scoped),
    2 * minute
  )
})
