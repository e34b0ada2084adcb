/** Rows of the tasks table, and their columns. */
import { Effect, Predicate, Schema } from "effect"
import { stateJson } from "../../state/TaskState.ts"
import { Deaths } from "../../restart/Deaths.ts"
import type { Row } from "../TaskStore.ts"

/** A number as drivers give it: PostgreSQL's bigint comes as text. */
const Number_ = Schema.Union([Schema.Finite, Schema.FiniteFromString, Schema.BigInt])
const Text = Schema.NullOr(Schema.String)

/** A column that the tables of earlier versions do not have. */
const added = <S extends Schema.Top>(column: S) => Schema.optional(Schema.NullOr(column))

export const deathsJson = Schema.fromJsonString(Schema.toCodecJson(Deaths))

const Columns = Schema.Struct({
  id: Schema.String,
  seq: Number_,
  task: Schema.String,
  version: Number_,
  task_key: Schema.String,
  hash: Schema.String,
  params: Schema.String,
  history: Text,
  generation: Number_,
  state: stateJson,
  since: Number_,
  submitted_at: Number_,
  restarts: Number_,
  cost: Schema.NullOr(Number_),
  result: Text,
  started: Number_,
  parked: Number_,
  cancel_by: Text,
  wait: Text,
  due_at: Schema.NullOr(Number_),
  verdict: Text,
  boot: added(Schema.String),
  deaths: added(deathsJson)
})

const decode = Schema.decodeUnknownEffect(Columns)

const rowOf = (row: typeof Columns.Type): Row => ({
  id: row.id,
  seq: Number(row.seq),
  task: row.task,
  version: Number(row.version),
  key: row.task_key,
  hash: row.hash,
  params: row.params,
  history: row.history ?? undefined,
  generation: Number(row.generation),
  state: row.state,
  since: Number(row.since),
  submittedAt: Number(row.submitted_at),
  restarts: Number(row.restarts),
  costUsd: row.cost === null ? undefined : Number(row.cost),
  result: row.result ?? undefined,
  started: Number(row.started) === 1,
  parked: Number(row.parked) === 1,
  cancelBy: row.cancel_by ?? undefined,
  wait: row.wait ?? undefined,
  dueAt: row.due_at === null ? undefined : Number(row.due_at),
  verdict: row.verdict ?? undefined,
  boot: row.boot ?? undefined,
  deaths: row.deaths ?? undefined
})

/** The rows that this version can read. One that it cannot is left to a newer version, and does not stop the others. */
export const rowsOf = (found: ReadonlyArray<unknown>): Effect.Effect<ReadonlyArray<Row>> =>
  Effect.map(
    Effect.forEach(found, (row) =>
      decode(row).pipe(
        Effect.map((columns) => [rowOf(columns)]),
        Effect.catch(() => Effect.as(Effect.logWarning(unreadable(row)), []))
      )
    ),
    (rows) => rows.flat()
  )

/** All rows, for people. One that this version cannot read has the state `Unreadable`. */
export const allRowsOf = (found: ReadonlyArray<unknown>): Effect.Effect<ReadonlyArray<Row>> =>
  Effect.forEach(found, (row) =>
    decode(row).pipe(
      Effect.map(rowOf),
      Effect.catch(() => Effect.succeed(unreadableRow(row)))
    )
  )

const unreadable = (row: unknown): string =>
  `Tasks: this version cannot read the row of task ${text(row, "id")}. A newer version may have written it.`

const field = (row: unknown, name: string): unknown =>
  Predicate.hasProperty(row, name) ? row[name] : undefined
const text = (row: unknown, name: string): string => String(field(row, name) ?? "")
const number = (row: unknown, name: string): number => {
  const found = Number(field(row, name) ?? 0)
  return Number.isFinite(found) ? found : 0
}

/** The columns by which people find a task. Nothing acts on the others. */
const unreadableRow = (row: unknown): Row => ({
  id: text(row, "id"),
  seq: number(row, "seq"),
  task: text(row, "task"),
  version: number(row, "version"),
  key: text(row, "task_key"),
  hash: text(row, "hash"),
  params: "",
  history: undefined,
  generation: number(row, "generation"),
  state: { _tag: "Unreadable", tag: text(row, "tag") },
  since: number(row, "since"),
  submittedAt: number(row, "submitted_at"),
  restarts: number(row, "restarts"),
  costUsd: undefined,
  result: undefined,
  started: number(row, "started") === 1,
  parked: false,
  cancelBy: undefined,
  wait: undefined,
  dueAt: undefined,
  verdict: undefined,
  boot: undefined,
  deaths: undefined
})
