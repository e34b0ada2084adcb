/** The stores that every contract is run on. */
import { Effect, Exit, Layer, Scope } from "effect"
import type { Context } from "effect"
import type { SqlClient } from "effect/sql"
import { afterAll, beforeAll, describe } from "vitest"
import { SqliteClient } from "@outlast/node/sqlite"
import { DeliveryStore } from "@outlast/delivery"
import * as Postgres from "../../../../test/services/Postgres.ts"

type Store = DeliveryStore.DeliveryStore | SqlClient.SqlClient

export interface Subject {
  /** An empty store, and a client for `publishIn`. Built twice it is another one. */
  readonly layer: (options?: {
    readonly deadLetters?: DeliveryStore.DeadOptions
    /** Prefix of the tables, for a test that opens the same store twice. Stores without tables ignore it. */
    readonly prefix?: string
  }) => Layer.Layer<Store, unknown>
  /** False where the store has no transactions of its own. */
  readonly isSql: boolean
}

let prefixes = 0

const overSql = (client: Layer.Layer<SqlClient.SqlClient, unknown>): Subject => ({
  isSql: true,
  layer: (options) =>
    Layer.suspend(() =>
      DeliveryStore.layerSql({ prefix: `test_${++prefixes}`, ...options }).pipe(Layer.provideMerge(client))
    )
})

/** A client that all tests of a suite share: a thread for each test would take most of the time. */
const shared = (client: Effect.Effect<Layer.Layer<SqlClient.SqlClient, unknown>, unknown, Scope.Scope>) => {
  const scope = Effect.runSync(Scope.make())
  let built: Context.Context<SqlClient.SqlClient> | undefined
  beforeAll(async () => {
    built = await Effect.flatMap(client, Layer.build).pipe(Scope.provide(scope), Effect.runPromise)
  }, 60_000)
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  return Layer.suspend(() => {
    if (built === undefined) throw new Error("The database is not open")
    return Layer.succeedContext(built)
  })
}

const sqlite = Effect.succeed(SqliteClient.layer({ filename: ":memory:" }))

const postgres = Effect.map(Postgres.running, (program) => Postgres.client(program, { maxConnections: 4 }))

/** Runs a suite on memory, SQLite and PostgreSQL. */
export const onEach = (suite: (subject: Subject) => void): void => {
  describe("in memory", () => {
    const client = shared(sqlite)
    suite({
      isSql: false,
      layer: ({ deadLetters } = {}) => Layer.merge(DeliveryStore.layerMemory({ deadLetters }), client)
    })
  })
  describe("on SQLite", () => suite(overSql(shared(sqlite))))
  describe.skipIf(Postgres.missing !== undefined)("on PostgreSQL", () => suite(overSql(shared(postgres))))
}
