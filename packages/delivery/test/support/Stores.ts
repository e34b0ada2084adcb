/** The stores that every contract is run on. */
import { Effect, Exit, Layer, Scope } from "effect"
import type { SqlClient } from "effect/sql"
import { afterAll, beforeAll, describe } from "vitest"
import { SqliteClient } from "@outlast/node/sqlite"
import { DeliveryStore } from "@outlast/delivery"
import * as Postgres from "../../../../test/services/Postgres.ts"
import type { Program } from "../../../../test/services/Server.ts"

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

const sqlite = SqliteClient.layer({ filename: ":memory:" })

/** Runs a suite on memory, SQLite and PostgreSQL. */
export const onEach = (suite: (subject: Subject) => void): void => {
  describe("in memory", () => {
    suite({
      isSql: false,
      layer: ({ deadLetters } = {}) => Layer.merge(DeliveryStore.layerMemory({ deadLetters }), sqlite)
    })
  })
  describe("on SQLite", () => suite(overSql(sqlite)))
  describe.skipIf(Postgres.missing !== undefined)("on PostgreSQL", () => {
    const scope = Effect.runSync(Scope.make())
    let program: Program | undefined
    beforeAll(async () => {
      program = await Effect.runPromise(Scope.provide(Postgres.running, scope))
    }, 60_000)
    afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
    suite(
      overSql(
        Layer.suspend(() => {
          if (program === undefined) throw new Error("PostgreSQL is not running")
          return Postgres.client(program, { maxConnections: 4 })
        })
      )
    )
  })
}
