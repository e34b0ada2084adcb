/** A store that cannot take events: each publish says why, nothing is lost, and it goes on when the store can. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { SqliteClient } from "@outlast/node/sqlite"
import { ResilienceEvents, StoreError } from "@outlast/resilience"
import { DeliveryMetrics, DeliveryStore, MemoryBus, Outbox } from "@outlast/delivery"
import * as Server from "../../../../test/services/Server.ts"
import { event, onBus, setBus, until } from "../support/outboxes.ts"

const withFile = <A, E>(
  body: (
    file: string
  ) => Effect.Effect<
    A,
    E,
    Outbox.Outbox | MemoryBus.MemoryBus | SqlClient.SqlClient | DeliveryStore.DeliveryStore
  >,
  options: Outbox.OutboxOptions = {}
) =>
  Effect.scoped(
    Effect.flatMap(Server.folder, (folder) => {
      const file = join(folder, "outbox.db")
      return Effect.provide(
        Effect.andThen(setBus("down"), body(file)),
        Outbox.layer({
          ...options,
          retry: { _tag: "Exponential", initial: 5, factor: 1, cap: 5, jitter: 0 } as never
        }).pipe(
          Layer.provideMerge(DeliveryStore.layerSql({ file })),
          Layer.provideMerge(SqliteClient.layer({ filename: file, lockWait: "50 millis" })),
          Layer.provideMerge(MemoryBus.layer())
        )
      )
    })
  )

const refused = (body: string) =>
  Effect.map(Effect.flip(Outbox.publish(event(body))), (error) => {
    assert.instanceOf(error, StoreError.StoreError)
    assert.include(error.message, "outbox.db")
    return error.reason
  })

const delivered = (wanted: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { flush } = yield* Outbox.Outbox
    yield* setBus("up")
    assert.deepStrictEqual(yield* flush("10 seconds"), { left: 0 })
    assert.deepStrictEqual(yield* onBus, wanted)
  })

describe("a store", () => {
  it.live("that is full refuses events as full, and keeps those that it has", () =>
    withFile(() =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* Outbox.publish(event("1"))
        const [pages] = yield* sql<{ readonly page_count: number }>`PRAGMA page_count`
        yield* sql.unsafe(`PRAGMA max_page_count = ${pages?.page_count}`)
        const large = { subject: "orders", body: new Uint8Array(100_000) }
        const error = yield* Effect.flip(Outbox.publish(large))
        assert.instanceOf(error, StoreError.StoreError)
        assert.strictEqual(error.reason, "full")
        yield* sql`PRAGMA max_page_count = 1000000`
        yield* Outbox.publish(event("2"))
        yield* delivered(["1", "2"])
      })
    )
  )
  it.live("that takes no writes refuses events as read-only", () =>
    withFile(() =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* Outbox.publish(event("1"))
        yield* sql`PRAGMA query_only = 1`
        assert.strictEqual(yield* refused("x"), "readOnly")
        yield* sql`PRAGMA query_only = 0`
        yield* delivered(["1"])
      })
    )
  )
  it.live("that another process holds refuses events as locked, and drains when it is free", () =>
    withFile((file) =>
      Effect.gen(function* () {
        yield* Outbox.publish(event("1"))
        const other = new DatabaseSync(file)
        other.exec("BEGIN EXCLUSIVE")
        assert.strictEqual(yield* refused("x"), "locked")
        other.exec("ROLLBACK")
        other.close()
        yield* Outbox.publish(event("2"))
        yield* delivered(["1", "2"])
      })
    )
  )
  it.live("whose file is deleted underneath refuses events as unavailable", () =>
    withFile((file) =>
      Effect.gen(function* () {
        yield* Outbox.publish(event("1"))
        yield* Effect.promise(() => rm(file))
        assert.strictEqual(yield* refused("x"), "unavailable")
      })
    )
  )
  for (const table of ["outlast_outbox", "outlast_publishers"]) {
    it.live(`whose table ${table} is missing for a while is reported, and goes on when it is back`, () => {
      const lines: Array<string> = []
      const logger = Logger.make(({ message }) => lines.push(String(message)))
      return withFile(
        () =>
          Effect.gen(function* () {
            const sql = yield* SqlClient.SqlClient
            const beats = Effect.map(
              sql<{ readonly beat: number }>`SELECT beat FROM outlast_publishers`,
              ([row]) => row?.beat ?? 0
            )
            yield* Outbox.publish(event("1"))
            yield* sql.unsafe(`ALTER TABLE ${table} RENAME TO away`)
            yield* setBus("up")
            yield* until(Effect.sync(() => lines.some((line) => line.includes("cannot use its store"))))
            assert.strictEqual((yield* Metric.value(DeliveryMetrics.storeLost)).value, 1)
            yield* sql.unsafe(`ALTER TABLE away RENAME TO ${table}`)
            // The lease is renewed again.
            const before = yield* beats
            yield* until(Effect.map(beats, (beat) => beat > before))
            yield* delivered(["1"])
            yield* until(
              Effect.map(Metric.value(DeliveryMetrics.storeLost), ({ value: isLost }) => isLost === 0)
            )
          }),
        { sweepEvery: "10 millis", lease: "1 minute" }
      ).pipe(
        Effect.provide([DeliveryMetrics.layer(), Logger.layer([logger])]),
        Effect.provide(Layer.merge(ResilienceEvents.layer(), Layer.succeed(Metric.MetricRegistry, new Map())))
      )
    })
  }
})
