/** Opens the store that a command names: a SQLite file, or a `postgres://` address. */
import { SqliteClient } from "@outlast/node/sqlite"
import type { StoreError } from "@outlast/resilience"
import { Config, Effect, Layer, Option, Redacted } from "effect"
import type { Config as ConfigModule } from "effect"
import type { SqlClient } from "effect/sql"
import { UsageError } from "./UsageError.ts"

export const isPostgres = (address: string): boolean => /^postgres(?:ql)?:\/\//.test(address)

/** The host of an address, without its credentials; a file as it is. */
export const shown = (address: string): string => (isPostgres(address) ? host(address) : address)

const host = (address: string): string => (URL.canParse(address) ? new URL(address).host : "that address")

/** The address of `--store`, or of the environment. `what` is what the store holds. */
export const addressOf = (
  given: Option.Option<string>,
  what: string
): Effect.Effect<string, UsageError | ConfigModule.ConfigError> =>
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
  /** Name of the store in errors. */
  readonly store: string
  /** Makes a SQLite file that is missing. */
  readonly create: boolean
  /** Connections to PostgreSQL. */
  readonly connections: number
}

/** A client of the store. SQLite files are opened as they are; the driver of PostgreSQL is loaded only here. */
export const clientOf = (
  address: string,
  { store, create, connections }: ClientOptions
): Effect.Effect<Layer.Layer<SqlClient.SqlClient, StoreError.StoreError | UsageError>> => {
  if (!isPostgres(address)) {
    return Effect.succeed(SqliteClient.layer({ filename: address, store, create }))
  }
  return Effect.map(
    Effect.promise(() => import("@effect/sql-pg")),
    ({ PgClient }) =>
      Layer.catchCause(PgClient.layer({ url: Redacted.make(address), maxConnections: connections }), () =>
        Layer.effectContext(
          Effect.fail(new UsageError({ message: `PostgreSQL at ${host(address)} cannot be reached.` }))
        )
      )
  )
}
