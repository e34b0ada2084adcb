/** Rows of the tasks table, and their columns. */
import { Effect, Predicate, Schema } from "effect"
import { stateJson } from "../../TaskState.ts"
import type { Row } from "../TaskStore.ts"

/** A number as drivers give it: PostgreSQL's bigint comes as text. */
const Number_ = Schema.Union([Schema.Finite, Schema.FiniteFromString, Schema.BigInt])
const Text = Schema.NullOr(Schema.String)

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
  verdict: Text
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
  verdict: row.verdict ?? undefined
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

const unreadable = (row: unknown): string => {
  const id = Predicate.hasProperty(row, "id") ? String(row.id) : "without an id"
  return `Tasks: this version cannot read the row of task ${id}. A newer version may have written it.`
}
