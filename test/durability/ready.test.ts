import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Outbox, DeliveryStore, MemoryBus } from "@outlast/delivery"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks } from "@outlast/tasks"
import * as Mount from "../services/Mount.ts"

/** The checks of the stores of tasks and of an outbox, in one file. */
const layer = (file: string) =>
  Layer.merge(
    Tasks.layerClient(),
    Outbox.layer().pipe(Layer.provide([MemoryBus.layer(), DeliveryStore.layerSql()]))
  ).pipe(Layer.provideMerge(SqliteClient.layer({ filename: file })))

const ready = Effect.gen(function* () {
  const tasks = yield* Tasks.Tasks
  const outbox = yield* Outbox.Outbox
  return [yield* tasks.ready, yield* outbox.ready] as const
})

const isRefused = (answers: readonly [true | string, true | string], why: string): void => {
  for (const answer of answers) assert.include(String(answer), why)
}

describe("a store is ready", () => {
  it.live("unless it takes no writes", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* ready, [true, true])
      yield* sql`PRAGMA query_only = 1`
      isRefused(yield* ready, "read-only")
      yield* sql`PRAGMA query_only = 0`
      assert.deepStrictEqual(yield* ready, [true, true])
    }).pipe(Effect.provide(layer(":memory:")))
  )

  it.live.skipIf(Mount.missing !== undefined)("unless its disk is full", () =>
    Effect.gen(function* () {
      const folder = yield* Mount.tmpfs("2m")
      yield* Effect.gen(function* () {
        assert.deepStrictEqual(yield* ready, [true, true])
        try {
          writeFileSync(join(folder, "rest"), new Uint8Array(4_000_000))
        } catch {
          // As much as there was room for.
        }
        isRefused(yield* ready, "is full")
      }).pipe(Effect.provide(layer(join(folder, "store.db"))))
    }).pipe(Effect.scoped)
  )
})
