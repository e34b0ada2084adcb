/** The database of a store: a SQLite file, which must exist, or a `postgres://` address. */
import { SqliteClient } from "@outlast/node/sqlite"
import type { StoreError } from "@outlast/resilience"
import { Effect, Layer, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { UsageError } from "../UsageError.ts"

export const isPostgres = (address: string): boolean => /^postgres(?:ql)?:\/\//.test(address)

export const clientOf = (
  address: string
): Effect.Effect<Layer.Layer<SqlClient.SqlClient, StoreError.StoreError | UsageError>> => {
  if (!isPostgres(address)) {
    return Effect.succeed(SqliteClient.layer({ filename: address, store: "outbox", create: false }))
  }
  // Loaded only here: most stores are files.
  return Effect.map(
    Effect.promise(() => import("@effect/sql-pg")),
    ({ PgClient }) =>
      Layer.catchCause(PgClient.layer({ url: Redacted.make(address), maxConnections: 1 }), () =>
        Layer.effectContext(
          Effect.fail(new UsageError({ message: `PostgreSQL at ${nameOf(address)} cannot be reached.` }))
        )
      )
  )
}

/** What may be shown of an address: a path, or the host without user and password. */
export const nameOf = (address: string): string =>
  !isPostgres(address) ? address : URL.canParse(address) ? new URL(address).host : "that address"
