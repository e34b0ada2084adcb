/** The tables of a store, and how their statements run. */
import type { Array as Arr } from "effect"
import { Effect } from "effect"
import { StoreError } from "@outlast/resilience"
import * as Options from "@outlast/resilience/Options"
import type { SqlClient, SqlError } from "effect/sql"

export type Tables = ReturnType<typeof make>

export const make = (sql: SqlClient.SqlClient, prefix: string, where: StoreError.Where) => {
  const names = namesOf(prefix)
  /** Errors of the store become `StoreError`s. Others are defects. */
  const run = StoreError.mapSqlError(where)
  /** The values of a list of any length as a subquery with one parameter. */
  const values = (type: "TEXT" | "BIGINT") => (list: ReadonlyArray<string | number>) => {
    const json = JSON.stringify(list)
    return sql.onDialectOrElse({
      sqlite: () => sql`(SELECT value FROM json_each(${json}))`,
      orElse: () =>
        sql`(SELECT value::${sql.literal(type)} FROM json_array_elements_text(${json}::json) AS list(value))`
    })
  }
  return {
    sql,
    outbox: sql(names.outbox),
    /** Committed groups of events that are not in the outbox table yet. Only on SQLite. */
    groups: sql.onDialectOrElse({ sqlite: () => sql(names.groups), orElse: () => undefined }),
    publishers: sql(names.publishers),
    dead: sql(names.dead),
    probe: sql(names.probe),
    texts: values("TEXT"),
    integers: values("BIGINT"),
    run,
    /** As `run`, in one transaction. */
    atomic: <A, E>(effect: Effect.Effect<A, E | SqlError.SqlError>) => run(sql.withTransaction(effect))
  }
}

const namesOf = (prefix: string) => ({
  outbox: `${prefix}_outbox`,
  groups: `${prefix}_groups`,
  publishers: `${prefix}_publishers`,
  dead: `${prefix}_dead_letters`,
  probe: `${prefix}_outbox_probe`
})

/**
 * Runs a statement of a start, in one process at a time. Of two processes that make the same table at once, PostgreSQL
 * fails one, in spite of `IF NOT EXISTS`. Each statement is a transaction of its own: a transaction that held the locks
 * of several tables could deadlock with running processes.
 */
const oneAtATime =
  (sql: SqlClient.SqlClient, prefix: string) =>
  (statement: Effect.Effect<unknown, SqlError.SqlError>): Effect.Effect<unknown, SqlError.SqlError> =>
    sql.onDialectOrElse({
      pg: () =>
        sql`SELECT pg_advisory_xact_lock(hashtext(${prefix}))`.pipe(
          Effect.andThen(statement),
          sql.withTransaction
        ),
      orElse: () => statement
    })

/** Creates what is missing. Several processes may do it at once. */
export const migrate = (sql: SqlClient.SqlClient, prefix: string): Effect.Effect<void, SqlError.SqlError> => {
  const table = namesOf(prefix)
  const types = sql.onDialectOrElse({
    sqlite: () => ({ key: "INTEGER PRIMARY KEY AUTOINCREMENT", bytes: "BLOB", number: "INTEGER" }),
    pg: () => ({
      key: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
      bytes: "BYTEA",
      number: "BIGINT"
    }),
    orElse: () => {
      throw new Options.InvalidOption(
        "DeliveryStore",
        "SqlClient",
        undefined,
        "a client of SQLite or PostgreSQL",
        "DeliveryStore: the SqlClient must be one of SQLite or PostgreSQL"
      )
    }
  })
  const groups = `CREATE TABLE IF NOT EXISTS ${table.groups} (
    seq INTEGER PRIMARY KEY, publisher TEXT NOT NULL, events INTEGER NOT NULL, bytes INTEGER NOT NULL,
    fields TEXT NOT NULL, bodies BLOB NOT NULL)`
  const statements = [
    ...sql.onDialectOrElse({ sqlite: () => [groups], orElse: () => [] }),
    `CREATE TABLE IF NOT EXISTS ${table.outbox} (
      seq ${types.key}, id TEXT NOT NULL UNIQUE, publisher TEXT NOT NULL, subject TEXT NOT NULL,
      body ${types.bytes} NOT NULL, headers TEXT NOT NULL, broker_id TEXT NOT NULL, bytes INTEGER NOT NULL,
      born ${types.number} NOT NULL, rejections INTEGER NOT NULL, refusal TEXT NOT NULL)`,
    `CREATE INDEX IF NOT EXISTS ${table.outbox}_lane ON ${table.outbox} (publisher, subject, seq, bytes)`,
    `CREATE TABLE IF NOT EXISTS ${table.publishers} (
      id TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, beat ${types.number} NOT NULL)`,
    `CREATE TABLE IF NOT EXISTS ${table.dead} (
      num ${types.key}, letter TEXT NOT NULL UNIQUE, id TEXT NOT NULL, source TEXT NOT NULL, subject TEXT NOT NULL,
      body ${types.bytes} NOT NULL, headers TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL,
      attempts INTEGER NOT NULL, died ${types.number} NOT NULL, replays INTEGER NOT NULL, state TEXT NOT NULL,
      history TEXT NOT NULL)`,
    `CREATE INDEX IF NOT EXISTS ${table.dead}_died ON ${table.dead} (died)`,
    `CREATE INDEX IF NOT EXISTS ${table.dead}_id ON ${table.dead} (id)`,
    `CREATE TABLE IF NOT EXISTS ${table.probe} (id INTEGER NOT NULL PRIMARY KEY, at ${types.number} NOT NULL)`
  ]
  const alone = oneAtATime(sql, prefix)
  return Effect.forEach(statements, (statement) => alone(sql.unsafe(statement)), { discard: true })
}

/** Fails unless the tables are there: for a tool that must not make a store of a wrong file. */
export const exists = (
  sql: SqlClient.SqlClient,
  prefix: string,
  where: StoreError.Where
): Effect.Effect<void, StoreError.StoreError> =>
  Effect.asVoid(sql.unsafe(`SELECT num FROM ${namesOf(prefix).dead} LIMIT 1`)).pipe(
    Effect.mapError(
      (error) =>
        StoreError.fromSqlError(error, where) ??
        new StoreError.StoreError({
          reason: "unavailable",
          store: where.store,
          ...(where.file === undefined ? {} : { file: where.file }),
          detail: `it has no tables of an outbox with the prefix \`${prefix}\``
        })
    )
  )

/** Rows named in one statement, at most. SQLite takes 32,766 parameters, PostgreSQL 65,535. */
export const chunk = 1_000

/** Runs a statement for each {@link chunk} of a list, in order. */
export const chunks = <A, B, E>(
  all: ReadonlyArray<A>,
  each: (part: ReadonlyArray<A>) => Effect.Effect<B, E>
): Effect.Effect<ReadonlyArray<B>, E> => {
  return Effect.forEach(inChunks(all, chunk), each)
}

export const inChunks = <A>(all: ReadonlyArray<A>, size: number): ReadonlyArray<ReadonlyArray<A>> => {
  const parts: Array<ReadonlyArray<A>> = []
  for (let from = 0; from < all.length; from += size) parts.push(all.slice(from, from + size))
  return parts
}

/** The caller has made sure that there is one. */
export const nonEmpty = <A extends object>(
  records: ReadonlyArray<A>
): Arr.NonEmptyReadonlyArray<Record<string, unknown>> =>
  // A record of columns is a record of unknown values, which an interface does not say.
  records as unknown as Arr.NonEmptyReadonlyArray<Record<string, unknown>>
