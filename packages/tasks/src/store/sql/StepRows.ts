/**
 * Steps and intents: those that are written at the same time go by one statement.
 *
 * A row is written only for the process that has claimed its task, and only the first row of a key counts.
 */
import { Effect, Schema } from "effect"
import type { Option } from "effect"
import type { SqlError } from "effect/sql"
import type { Fragment, Identifier } from "effect/sql/Statement"
import { EffectRecord } from "../../state/TaskState.ts"
import type { Lost, Service } from "../TaskStore.ts"
import { lost } from "../TaskStore.ts"
import { grouped } from "./Grouped.ts"
import type { Tables } from "./Tables.ts"

const recordJson = Schema.fromJsonString(Schema.toCodecJson(EffectRecord))
const encode = Schema.encodeSync(recordJson)
const decode = (json: string): Effect.Effect<EffectRecord> =>
  Effect.orDie(Schema.decodeUnknownEffect(recordJson)(json))

/** A row, and the process that writes it. */
interface Written {
  readonly task: string
  readonly generation: number
  /** Of an effect: its key. Of a step: its name. */
  readonly key: string
  readonly text: string
  readonly runner: string
}

export const make = ({
  sql,
  names,
  tasks,
  steps,
  effects,
  run
}: Tables): Pick<Service, "steps" | "record" | "intend" | "intents" | "takeOver"> => {
  const place = sql.onDialectOrElse({
    pg: () => (n: number) => `$${n}`,
    orElse: () => () => "?"
  })
  /** The values of a group, as a table whose columns are named `column1` to `column5` in both dialects. */
  const valuesOf = (rows: ReadonlyArray<Written>): string =>
    rows
      .map((_, n) => [1, 2, 3, 4, 5].map((column) => place(5 * n + column)))
      .map(([task, generation, ...rest]) => `(${task}, CAST(${generation} AS INTEGER), ${rest.join(", ")})`)
      .join(", ")
  /**
   * Adds the rows of a group. `insert`: the beginning of the statement. `identity`: what tells its rows apart, in SQL and
   * here. Returns for each row what was stored under its key before; undefined if the row is new.
   */
  const adding = (
    insert: string,
    identity: { readonly column: string; readonly of: (row: Written) => string },
    stored: (row: Written) => Effect.Effect<ReadonlyArray<{ readonly text: string }>, SqlError.SqlError>
  ) =>
    grouped((rows: ReadonlyArray<Written>) =>
      run(
        Effect.gen(function* () {
          const added = yield* sql.unsafe<{ readonly identity: string }>(
            `${insert} FROM (VALUES ${valuesOf(rows)}) AS v JOIN ${names.tasks} AS t ON t.id = v.column1
              AND t.generation = v.column2 AND t.is_open = 1 AND t.runner = v.column5
              WHERE 1 = 1 ON CONFLICT DO NOTHING RETURNING ${identity.column} AS identity`,
            rows.flatMap(({ task, generation, key, text, runner }) => [task, generation, key, text, runner])
          )
          const isNew = new Set(added.map((row) => row.identity))
          return yield* Effect.forEach(
            rows,
            (row): Effect.Effect<string | Lost | undefined, SqlError.SqlError> =>
              // The second of two with one key finds the first.
              isNew.delete(identity.of(row))
                ? Effect.undefined
                : Effect.map(stored(row), ([found]) => found?.text ?? lost)
          )
        })
      )
    )
  const select = (column: string, from: Identifier, where: Fragment) =>
    sql<{ readonly text: string }>`SELECT ${sql(column)} AS text FROM ${from} WHERE ${where}`

  const addStep = adding(
    `INSERT INTO ${names.steps} (task, generation, name, reply)
      SELECT v.column1, v.column2, v.column3, v.column4`,
    {
      column: "task || '/' || generation || '/' || name",
      of: ({ task, generation, key }) => `${task}/${generation}/${key}`
    },
    ({ task, generation, key }) =>
      select("reply", steps, sql`task = ${task} AND generation = ${generation} AND name = ${key}`)
  )
  const addEffect = adding(
    `INSERT INTO ${names.effects} (task, effect_key, record)
      SELECT v.column1, v.column3, v.column4`,
    { column: "effect_key", of: ({ key }) => key },
    ({ key }) => select("record", effects, sql`effect_key = ${key}`)
  )

  return {
    steps: (id, generation) =>
      run(
        Effect.map(
          sql<{ readonly name: string; readonly reply: string }>`SELECT name, reply FROM ${steps}
            WHERE task = ${id} AND generation = ${generation}`,
          (rows) => new Map(rows.map(({ name, reply }) => [name, reply]))
        )
      ),
    record: ({ task, generation, name, reply, runner }) =>
      Effect.map(addStep({ task, generation, key: name, text: reply, runner }), (found) => found ?? reply),
    intend: (record) => {
      const { task, generation, key, boot } = record
      return Effect.flatMap(
        addEffect({ task, generation, key, text: encode(record), runner: boot }),
        (found): Effect.Effect<Option.Option<EffectRecord> | Lost> =>
          found === undefined
            ? Effect.succeedNone
            : typeof found === "string"
              ? Effect.asSome(decode(found))
              : Effect.succeed(found)
      )
    },
    intents: (task) =>
      run(
        Effect.flatMap(
          select("record", effects, sql`task = ${task}`),
          Effect.forEach(({ text }) => decode(text))
        )
      ),
    takeOver: (record) =>
      Effect.map(
        run(sql`UPDATE ${effects} SET record = ${encode(record)} WHERE effect_key = ${record.key} AND EXISTS (
          SELECT 1 FROM ${tasks} WHERE id = ${record.task} AND generation = ${record.generation} AND is_open = 1
            AND runner = ${record.boot}) RETURNING effect_key`),
        (changed) => changed.length > 0
      )
  }
}
