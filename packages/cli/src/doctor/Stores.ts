/**
 * Whether a store can be opened and is whole: a SQLite file, or a `postgres://` address, of which only the host is shown.
 * Nothing is written and nothing is created.
 */
import { Cause, Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { stat } from "node:fs/promises"
import { StoreError } from "@outlast/resilience"
import { UsageError } from "../command/UsageError.ts"
import * as StoreClient from "../dlq/StoreClient.ts"
import type { Check } from "./Checks.ts"
import * as Checks from "./Checks.ts"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"
import * as SystemClock from "./SystemClock.ts"

export const examine = (address: string): Effect.Effect<ReadonlyArray<Check>> =>
  StoreClient.isPostgres(address) ? postgres(address) : sqlite(address)

const sqlite = (file: string): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const found = yield* Effect.option(Effect.tryPromise(() => stat(file)))
    if (found._tag === "None" || !found.value.isFile()) {
      return Checks.of(
        "stores",
        [Problems.error(file, "There is no such file. Start the program once, or name its file.")],
        ""
      )
    }
    const { mode, mtimeMs } = found.value
    const now = yield* Clock.currentTimeMillis
    const clock = SystemClock.ofFile(file, mtimeMs, now)
    const problems = [
      ...(process.platform !== "win32" && (mode & 0o077) !== 0 ? [readable(file, mode)] : []),
      ...(yield* opened(file, (sql) =>
        Effect.map(sql<{ readonly quick_check: string }>`PRAGMA quick_check(1)`, ([row]) =>
          row?.quick_check === "ok"
            ? []
            : [Problems.error(file, "The database is damaged. Stop the program, and restore a backup.")]
        )
      ))
    ]
    return [
      ...Checks.of("stores", problems, "A SQLite database that can be opened and is whole.", file),
      ...(clock.length === 0 ? [] : Checks.of("clock", clock, ""))
    ]
  })

const postgres = (address: string): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const name = StoreClient.nameOf(address)
    let clock: ReadonlyArray<Problem> = []
    const problems = yield* opened(address, (sql) =>
      Effect.gen(function* () {
        const [row] = yield* sql<{
          readonly millis: string
        }>`SELECT (extract(epoch from clock_timestamp()) * 1000)::text AS millis`
        const now = yield* Clock.currentTimeMillis
        clock = SystemClock.ofServer(name, Number(row?.millis ?? now), now)
        return []
      })
    )
    return [
      ...Checks.of("stores", problems, `PostgreSQL at ${name} answers.`),
      ...(clock.length === 0 ? [] : Checks.of("clock", clock, ""))
    ]
  })

const readable = (file: string, mode: number): Problem => ({
  level: "warning",
  file,
  message: `Other users of this machine may open it (mode ${(mode & 0o777).toString(8)}). Run chmod 600.`
})

const opened = <E>(
  address: string,
  ask: (sql: SqlClient.SqlClient) => Effect.Effect<ReadonlyArray<Problem>, E>
): Effect.Effect<ReadonlyArray<Problem>> =>
  Effect.gen(function* () {
    const client = yield* StoreClient.clientOf(address)
    return yield* Effect.flatMap(SqlClient.SqlClient, ask).pipe(Effect.provide(client))
  }).pipe(
    Effect.timeout("10 seconds"),
    Effect.catchCause((cause) => Effect.succeed([wrong(address, cause)]))
  )

/** The errors of drivers may quote an address with its password: only those of our own stores are shown. */
const wrong = (address: string, cause: Cause.Cause<unknown>): Problem => {
  const error = Cause.squash(cause)
  const isOwn = error instanceof StoreError.StoreError || error instanceof UsageError
  const file = StoreClient.isPostgres(address) ? null : address
  return Problems.error(
    file,
    isOwn
      ? error.message
      : file === null
        ? `PostgreSQL at ${StoreClient.nameOf(address)} does not answer. Check its address and user.`
        : "It cannot be read as a SQLite database. Name the file of the program's store."
  )
}
