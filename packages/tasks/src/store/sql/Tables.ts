/** The tables of a store, and how their statements run. */
import { Effect } from "effect"
import { InvalidOption, StoreError } from "@outlast/resilience"
import type { SqlClient, SqlError } from "effect/sql"

export type Tables = ReturnType<typeof make>

export const make = (sql: SqlClient.SqlClient, prefix: string, where: StoreError.Where) => {
  const names = namesOf(prefix)
  /** Errors of the store become `StoreError`s. Others are defects. */
  const run = StoreError.mapSqlError(where)
  return {
    sql,
    names,
    tasks: sql(names.tasks),
    steps: sql(names.steps),
    effects: sql(names.effects),
    probe: sql(names.probe),
    /** The number of a new row. */
    nextSeq: sql.onDialectOrElse({
      pg: () => sql`nextval(${names.numbers})`,
      orElse: () => sql`(SELECT COALESCE(MAX(seq), 0) + 1 FROM ${sql(names.tasks)})`
    }),
    run,
    /** As `run`, in one transaction. */
    atomic: <A, E>(effect: Effect.Effect<A, E | SqlError.SqlError>) => run(sql.withTransaction(effect))
  }
}

const namesOf = (prefix: string) => ({
  tasks: `${prefix}_tasks`,
  steps: `${prefix}_steps`,
  effects: `${prefix}_effects`,
  probe: `${prefix}_task_probe`,
  numbers: `${prefix}_task_numbers`
})

/**
 * Runs a statement of a start, in one process at a time. Of two processes that make the same table at once, PostgreSQL
 * fails one, in spite of `IF NOT EXISTS`. Each statement is a transaction of its own: a transaction that held the locks
 * of several tables could deadlock with running workers.
 */
export const oneAtATime =
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
    sqlite: () => ({ number: "INTEGER", real: "REAL" }),
    pg: () => ({ number: "BIGINT", real: "DOUBLE PRECISION" }),
    orElse: () => {
      throw new InvalidOption(
        "Tasks",
        "SqlClient",
        undefined,
        "a client of SQLite or PostgreSQL",
        "Tasks: the SqlClient must be one of SQLite or PostgreSQL"
      )
    }
  })
  const { number } = types
  const numbers = sql.onDialectOrElse({
    pg: () => [`CREATE SEQUENCE IF NOT EXISTS ${table.numbers}`],
    orElse: () => []
  })
  const statements = [
    ...numbers,
    `CREATE TABLE IF NOT EXISTS ${table.tasks} (
      id TEXT NOT NULL PRIMARY KEY, seq ${number} NOT NULL, task TEXT NOT NULL, version INTEGER NOT NULL,
      task_key TEXT NOT NULL, hash TEXT NOT NULL, params TEXT NOT NULL, history TEXT, generation INTEGER NOT NULL,
      tag TEXT NOT NULL, state TEXT NOT NULL, since ${number} NOT NULL, submitted_at ${number} NOT NULL,
      restarts INTEGER NOT NULL, cost ${types.real}, result TEXT, is_open INTEGER NOT NULL, started INTEGER NOT NULL,
      parked INTEGER NOT NULL, cancel_by TEXT, wait TEXT, due_at ${number}, verdict TEXT,
      ${added.map((column) => `${column} TEXT`).join(", ")})`,
    `CREATE INDEX IF NOT EXISTS ${table.tasks}_seq ON ${table.tasks} (seq)`,
    `CREATE INDEX IF NOT EXISTS ${table.tasks}_open ON ${table.tasks} (started, seq) WHERE is_open = 1`,
    `CREATE INDEX IF NOT EXISTS ${table.tasks}_due ON ${table.tasks} (due_at) WHERE is_open = 1 AND due_at IS NOT NULL`,
    `CREATE INDEX IF NOT EXISTS ${table.tasks}_asked ON ${table.tasks} (seq)
      WHERE is_open = 1 AND (cancel_by IS NOT NULL OR verdict IS NOT NULL OR parked = 1)`,
    `CREATE INDEX IF NOT EXISTS ${table.tasks}_tag ON ${table.tasks} (tag, seq)`,
    `CREATE INDEX IF NOT EXISTS ${table.tasks}_ended ON ${table.tasks} (since) WHERE is_open = 0`,
    `CREATE TABLE IF NOT EXISTS ${table.effects} (
      effect_key TEXT NOT NULL PRIMARY KEY, task TEXT NOT NULL, record TEXT NOT NULL)`,
    `CREATE INDEX IF NOT EXISTS ${table.effects}_task ON ${table.effects} (task)`,
    stepsOf(prefix),
    `CREATE TABLE IF NOT EXISTS ${table.probe} (id INTEGER NOT NULL PRIMARY KEY, at ${number} NOT NULL)`
  ]
  const alone = oneAtATime(sql, prefix)
  return Effect.forEach(statements, (statement) => alone(sql.unsafe(statement)), { discard: true }).pipe(
    Effect.andThen(upgrade(sql, prefix))
  )
}

/** Columns of the table of tasks that its first version did not have. */
const added = ["boot", "deaths", "runner"]

/** The table that it did not have either. */
const stepsOf = (prefix: string): string => `CREATE TABLE IF NOT EXISTS ${namesOf(prefix).steps} (
  task TEXT NOT NULL, generation INTEGER NOT NULL, name TEXT NOT NULL, reply TEXT NOT NULL,
  PRIMARY KEY (task, generation, name))`

/** Adds what the tables of an earlier version do not have. */
const upgrade = (sql: SqlClient.SqlClient, prefix: string) => {
  const { tasks } = namesOf(prefix)
  const alone = oneAtATime(sql, prefix)
  const has = (columns: string) => sql.unsafe(`SELECT ${columns} FROM ${tasks} LIMIT 1`)
  const add = (column: string) =>
    // Fails if another process has added the column meanwhile.
    Effect.catch(alone(sql.unsafe(`ALTER TABLE ${tasks} ADD COLUMN ${column} TEXT`)), (error) =>
      Effect.mapError(has(column), () => error)
    )
  // `ADD COLUMN` waits for all who read the table, so it runs only where needed.
  const all = Effect.forEach(added, (column) => Effect.catch(has(column), () => add(column)))
  return Effect.catch(has(added.join(", ")), () =>
    has("id").pipe(Effect.andThen(all), Effect.andThen(alone(sql.unsafe(stepsOf(prefix)))))
  )
}

/**
 * Fails unless the tables are there: for a tool that must not make a store of a wrong file. Those of an earlier version
 * get the columns that they do not have.
 */
export const exists = (
  sql: SqlClient.SqlClient,
  prefix: string,
  where: StoreError.Where
): Effect.Effect<void, StoreError.StoreError> =>
  upgrade(sql, prefix).pipe(
    Effect.asVoid,
    Effect.mapError(
      (error) =>
        StoreError.fromSqlError(error, where) ??
        new StoreError.StoreError({
          reason: "unavailable",
          store: where.store,
          ...(where.file === undefined ? {} : { file: where.file }),
          detail: `it has no tables of tasks with the prefix \`${prefix}\``
        })
    )
  )
