/**
 * A worker with five good tasks and one that ends its process, for the tests of real deaths: `node killer.ts STORE HOW`.
 *
 * STORE is `{ "file" }` or `{ "port", "own" }`. HOW is the last thing that the sixth task does: its read-only tool kills
 * the process (`tool`, also beside a slow one: `pair`), exits (`exit`) or asks it to stop (`stop`), the question to the
 * model kills it (`ask`), or nothing does (`never`). The program prints the statuses as JSON when every task has ended or waits for a person.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, References, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { ClusterSockets } from "@outlast/node/cluster"
import { StoreLock } from "@outlast/node/lock"
import { SqliteClient } from "@outlast/node/sqlite"
import { Task, Tasks } from "@outlast/tasks"
import { answer, Order, Shop, turnOf } from "../../../../test/tasks/Agents.ts"

const [given = "{}", how = "never", killed = "fail"] = process.argv.slice(2)
const store: { readonly file: string } | { readonly port: number; readonly own: number } = JSON.parse(given)

const deaths: Readonly<Record<string, () => void>> = {
  ask: () => process.kill(process.pid, "SIGKILL"),
  tool: () => process.kill(process.pid, "SIGKILL"),
  pair: () => process.kill(process.pid, "SIGKILL"),
  exit: () => process.exit(137),
  stop: () => process.kill(process.pid, "SIGTERM")
}
const die = Effect.suspend(() => {
  deaths[how]?.()
  // Nothing goes on until it has worked.
  return how === "never" ? Effect.void : Effect.sleep("1 minute")
})

const Buy = Task.make("buy", {
  version: 1,
  params: Order,
  toolkit: Shop,
  killed: killed === "ask" ? "ask" : "fail"
})

/** The page that kills. */
const deadly = 13

const handlers = Shop.toLayer({
  look: ({ page }) =>
    Effect.as(page === deadly && how !== "ask" ? die : Effect.sleep("200 millis"), `page ${page}`),
  pay: () => Effect.as(Effect.sleep("200 millis"), "paid")
})

const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) =>
      Effect.gen(function* () {
        const turn = turnOf(prompt)
        const isDeadly = JSON.stringify(prompt.content).includes("Buy a bomb")
        yield* isDeadly && turn === 2 && how === "ask" ? die : Effect.sleep("100 millis")
        return answer(turn).flatMap((part) => {
          if (part.type !== "tool-call" || part.name !== "look" || !isDeadly) return [part]
          const own = { ...part, params: { page: deadly } }
          return how === "pair" ? [{ ...part, id: "look-0" }, own] : [own]
        })
      }),
    streamText: () => Stream.empty
  })
)

const engine =
  "file" in store
    ? Tasks.layerSqlite({ lock: StoreLock.acquire(`${store.file}.lock`) }).pipe(
        Layer.provide(SqliteClient.layer({ filename: store.file }))
      )
    : Tasks.layerCluster({ takeover: "5 seconds" }).pipe(
        Layer.provide([
          ClusterSockets.layer({ host: "127.0.0.1", port: store.own }),
          PgClient.layer({ host: "127.0.0.1", port: store.port, username: "outlast", database: "postgres" })
        ])
      )

const layer = Buy.toLayer(({ item }) => ({ prompt: `Buy ${item}.` })).pipe(
  Layer.provide([handlers, model]),
  Layer.provideMerge(engine)
)

const ends = new Set(["Done", "Failed", "InDoubt"])

const program = Effect.gen(function* () {
  const { list } = yield* Tasks.Tasks
  for (const [key, item] of ["a bomb", "1", "2", "3", "4", "5"].entries()) {
    yield* Buy.submit({ params: { item }, key: String(key) })
  }
  while (true) {
    const all = yield* Stream.runCollect(list())
    if (all.every(({ state }) => ends.has(state._tag))) {
      console.log(JSON.stringify(all.map(({ id, deaths, state }) => ({ id, deaths, state }))))
      return
    }
    yield* Effect.sleep("50 millis")
  }
})

NodeRuntime.runMain(
  // A layer that cannot be built fails the program: the main function prints why.
  Effect.provide(program, layer as Layer.Layer<Tasks.Tasks, unknown>).pipe(
    Effect.provideService(References.MinimumLogLevel, "Error")
  )
)
