/**
 * Stores events and dead letters by a `SqlClient` of `effect/sql`: SQLite or PostgreSQL.
 *
 * Three tables, made when the layer is built: `<prefix>_outbox`, `<prefix>_publishers` and `<prefix>_dead_letters`. All
 * statements run outside of the caller's transaction, except that of `insertIn`. Several processes may share the
 * tables. Reads of a backlog go by index and page, so they cost the same with a thousand and a million events; only
 * `totals` and `countDead` count rows.
 *
 * **Limits.** Other dialects are refused. `seq` is given when a row is written, not when it is committed: a row of a
 * transaction may become visible behind one with a larger number. So a read always begins at the first row that is
 * there, and never at the last one that was seen.
 */
import { Clock, Duration, Effect, Layer } from "effect"
import { StoreError } from "@outlast/resilience"
import * as Options from "@outlast/resilience/Options"
import { SqlClient } from "effect/sql"
import type { DeadOptions, Service } from "../DeliveryStore.ts"
import { deadChecks, deadDefaults, DeliveryStore } from "../DeliveryStore.ts"
import * as Backlog from "./Backlog.ts"
import * as Letters from "./Letters.ts"
import * as Publishers from "./Publishers.ts"
import * as Tables from "./Tables.ts"

export interface SqlOptions {
  /** First part of the names of the tables: letters, digits and `_`. Default `outlast`. */
  readonly prefix?: string | undefined
  /** The store's name in errors. Default `outbox`. */
  readonly name?: string | undefined
  /** File or address of the database, for errors. Credentials in it are not shown. */
  readonly file?: string | undefined
  /** How many dead letters are kept, and for how long. */
  readonly deadLetters?: DeadOptions | undefined
  /** Makes the tables where they are missing. False: it fails where there are none. Default true. */
  readonly create?: boolean | undefined
}

const defaults = {
  prefix: "outlast",
  name: "outbox",
  deadLetters: deadDefaults,
  create: true
} as const satisfies SqlOptions

const module = "DeliveryStore"

/** The layer of {@link make}. Throws an `InvalidOption` for an option that is not allowed. */
export const layer = (
  options: SqlOptions = {}
): Layer.Layer<DeliveryStore, StoreError.StoreError, SqlClient.SqlClient> =>
  Layer.effect(DeliveryStore, make(options))

/** Makes the tables where they are missing, and the store over them. */
const make = (options: SqlOptions = {}): Effect.Effect<Service, StoreError.StoreError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    Options.fields(module, options, {
      prefix: Options.is.text,
      name: Options.is.text,
      file: Options.is.text,
      deadLetters: Options.is.object(deadChecks),
      create: Options.is.flag
    })
    const { prefix = defaults.prefix, name = defaults.name, file, deadLetters = {} } = options
    const { cap = deadDefaults.cap, ttl = deadDefaults.ttl, whenFull = deadDefaults.whenFull } = deadLetters
    Options.check(/^[a-z_][a-z0-9_]{0,39}$/i.test(prefix), module, "prefix", prefix, "letters, digits and _")
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    const where = { store: name, file }
    yield* (options.create ?? defaults.create)
      ? Tables.migrate(sql, prefix).pipe(StoreError.mapSqlError(where))
      : Tables.exists(sql, prefix, where)
    const tables = Tables.make(sql, prefix, where)
    const limits = { cap, whenFull, ttl: Duration.toMillis(ttl) }
    const { probe, run } = tables
    return {
      probe: Effect.flatMap(Clock.currentTimeMillis, (at) =>
        Effect.asVoid(
          run(
            sql`INSERT INTO ${probe} (id, at) VALUES (1, ${at}) ON CONFLICT (id) DO UPDATE SET at = EXCLUDED.at`
          )
        )
      ),
      ...Backlog.make(tables, limits),
      ...Publishers.make(tables),
      ...Letters.make(tables, limits)
    }
  })
