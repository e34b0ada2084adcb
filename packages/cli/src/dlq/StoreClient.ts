/** The database of a store: a SQLite file, which must exist, or a `postgres://` address. */
import { SqliteClient } from "@outlast/node/sqlite"
import type { StoreError } from "@outlast/resilience"
import { Config, Effect, Layer, Option, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { UsageError } from "../command/UsageError.ts"

export const isPostgres = (address: string): boolean => /^postgres(?:ql)?:\/\//.test(address)

/** The address of `--store`, or of the environment. `what` is what the store holds. */
export const addressOf = (given: Option.Option<string>, what: string) =>
  Effect.gen(function* () {
    const address = Option.isSome(given)
      ? given.value
      : yield* Config.String("OUTLAST_STORE").pipe(Config.withDefault(""))
    if (address !== "") return address
    return yield* new UsageError({
      message: `Which ${what}? Name the SQLite file or the postgres:// address with --store.`
    })
  })

export interface ClientOptions {
  /** Name of the store in errors. Default "outbox". */
  readonly store?: string
  /** Makes a SQLite file that is missing. Default false. */
  readonly create?: boolean
  /** Connections to PostgreSQL, at most. Default 1. */
  readonly connections?: number
}

export const clientOf = (
  address: string,
  { store = "outbox", create = false, connections = 1 }: ClientOptions = {}
): Effect.Effect<Layer.Layer<SqlClient.SqlClient, StoreError.StoreError | UsageError>> => {
  if (!isPostgres(address)) {
    return Effect.succeed(SqliteClient.layer({ filename: address, store, create }))
  }
  // Loaded only here: most stores are files.
  return Effect.map(
    Effect.promise(() => import("@effect/sql-pg")),
    ({ PgClient }) =>
      Layer.catchCause(PgClient.layer({ url: Redacted.make(address), maxConnections: connections }), () =>
        Layer.effectContext(
          Effect.fail(new UsageError({ message: `PostgreSQL at ${nameOf(address)} cannot be reached.` }))
        )
      )
  )
}

/** What may be shown of an address: a path, or the host without user and password. */
export const nameOf = (address: string): string =>
  !isPostgres(address) ? address : URL.canParse(address) ? new URL(address).host : "that address"
