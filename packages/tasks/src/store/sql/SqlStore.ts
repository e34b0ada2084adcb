/**
 * Stores tasks by a `SqlClient` of `effect/sql`: SQLite or PostgreSQL.
 *
 * Tables, made when the layer is built: `<prefix>_tasks`, `<prefix>_steps` and `<prefix>_effects`. Several processes may share them.
 * What workers ask every half second goes by partial indexes over open tasks, so it costs the same with a thousand and
 * a million tasks that have ended.
 *
 * **Limits.** Other dialects are refused. On PostgreSQL two submissions at once may exceed the bound of the queue by one.
 */
import { Clock, Effect, Layer, Option, Schema } from "effect"
import type { StoreError } from "@outlast/resilience"
import { Options, StoreError as StoreErrors } from "@outlast/resilience"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { KeyReused, NoSuchTask, NotNow, QueueFull, StaleDecision } from "../../state/TaskErrors.ts"
import type { TaskState } from "../../state/TaskState.ts"
import { decisionKey, stateJson } from "../../state/TaskState.ts"
import type { Deaths } from "../../restart/Deaths.ts"
import { allRowsOf, deathsJson, rowsOf } from "./Rows.ts"
import * as StepRows from "./StepRows.ts"
import * as Tables from "./Tables.ts"
import type { Report, Row, Run, Service, Wait } from "../TaskStore.ts"
import { agentOf, TaskStore, waitingFor } from "../TaskStore.ts"

export interface SqlOptions {
  /** First part of the names of the tables: letters, digits and `_`. Default `outlast`. */
  readonly prefix?: string | undefined
  /** File or address of the database, for errors. Credentials in it are not shown. */
  readonly file?: string | undefined
  /** Makes the tables where they are missing. False: it fails where there are none. Default true. */
  readonly create?: boolean | undefined
}

export const defaults = { prefix: "outlast", create: true } as const satisfies SqlOptions

export const checks: Options.Checks<SqlOptions> = {
  prefix: (module, field, value) =>
    Options.check(
      typeof value === "string" && /^[a-z_][a-z0-9_]{0,39}$/i.test(value),
      module,
      field,
      value,
      "letters, digits and _"
    ),
  file: Options.is.text,
  create: Options.is.flag
}

export const layer = (
  options: SqlOptions = {}
): Layer.Layer<TaskStore, StoreError.StoreError, SqlClient.SqlClient> =>
  Layer.effect(
    TaskStore,
    Effect.gen(function* () {
      const { prefix = defaults.prefix, create = defaults.create, file } = options
      const sql = (yield* SqlClient.SqlClient).withoutTransforms()
      const where = { store: "tasks", file }
      yield* create
        ? Tables.migrate(sql, prefix).pipe(StoreErrors.mapSqlError(where))
        : Tables.exists(sql, prefix, where)
      return make(Tables.make(sql, prefix, where))
    })
  )

const written = (state: TaskState): { readonly tag: string; readonly state: string } => ({
  tag: state._tag,
  state: Schema.encodeSync(stateJson)(state)
})

const queued = written({ _tag: "Queued", position: 0 })

const textOf = (deaths: Deaths | undefined): string | null =>
  deaths === undefined ? null : Schema.encodeSync(deathsJson)(deaths)

/** As `agentOf`. */
const agent = "task || '@' || version"

const notNow = ({ id, state }: Row, asked: string) =>
  Effect.fail(new NotNow({ task: id, state: state._tag, asked }))

const make = (tables: Tables.Tables): Service => {
  const { sql, tasks, steps, effects, probe, nextSeq, run, atomic } = tables
  const found = (rest: Fragment) => sql`SELECT * FROM ${tasks} ${rest}`
  const select = (rest: Fragment) => Effect.flatMap(found(rest), rowsOf)
  const selectAll = (rest: Fragment) => Effect.flatMap(found(rest), allRowsOf)
  const one = (id: string) => Effect.map(selectAll(sql`WHERE id = ${id}`), ([row]) => row)
  const live = (id: string, generation: number) =>
    sql`id = ${id} AND generation = ${generation} AND is_open = 1`
  /** For the process that has claimed it. */
  const own = ({ id, generation, runner }: Run) => sql`${live(id, generation)} AND runner = ${runner}`
  const count = (where: Fragment) =>
    Effect.map(sql<{ readonly n: unknown }>`SELECT COUNT(*) AS n FROM ${tasks} WHERE ${where}`, ([row]) =>
      Number(row?.n ?? 0)
    )
  const wait = ({ name, state, at, dueAt, restarts, ...run }: Wait) => {
    const { tag, state: json } = written(state)
    const counted = restarts === undefined ? sql`restarts` : sql`${restarts}`
    // A step that died before it was recorded waits again: the decision of a person stays.
    return sql`UPDATE ${tasks} SET tag = ${tag}, state = ${json}, since = ${at}, wait = ${name},
      verdict = CASE WHEN wait = ${name} THEN verdict END, due_at = ${dueAt ?? null}, parked = 0, boot = NULL,
      deaths = NULL, restarts = ${counted} WHERE ${own(run)}`
  }
  const report = <R extends Omit<Report, "runner">>(
    reports: ReadonlyArray<R>,
    where: (report: R) => Fragment
  ) =>
    reports.length === 0
      ? Effect.void
      : atomic(
          Effect.forEach(
            reports,
            (report) => {
              const { tag, state } = written(report.state)
              return sql`UPDATE ${tasks} SET tag = ${tag}, state = ${state}, since = ${report.since},
                restarts = ${report.restarts} WHERE ${where(report)} AND wait IS NULL`
            },
            { discard: true }
          )
        )
  const existing = (id: string) =>
    Effect.flatMap(one(id), (row) =>
      row === undefined ? Effect.fail(new NoSuchTask({ task: id })) : Effect.succeed(row)
    )

  return {
    probe: Effect.flatMap(Clock.currentTimeMillis, (at) =>
      Effect.asVoid(
        run(
          sql`INSERT INTO ${probe} (id, at) VALUES (1, ${at}) ON CONFLICT (id) DO UPDATE SET at = EXCLUDED.at`
        )
      )
    ),
    submit: (task, bound) => {
      const { id, version, key, hash, params, history, at } = task
      const compared = (known: Row) =>
        known.hash === hash
          ? Effect.succeed({ isNew: false })
          : Effect.fail(new KeyReused({ task: task.task, key }))
      return atomic(
        Effect.gen(function* () {
          const known = yield* one(id)
          if (known !== undefined) return yield* compared(known)
          const waiting = yield* count(sql`is_open = 1 AND (started = 0 OR tag = 'Queued')`)
          if (waiting >= bound) return yield* Effect.fail(new QueueFull({ queued: waiting, bound }))
          const added =
            yield* sql`INSERT INTO ${tasks} (id, seq, task, version, task_key, hash, params, history,
              generation, tag, state, since, submitted_at, restarts, is_open, started, parked)
            VALUES (${id}, ${nextSeq}, ${task.task}, ${version}, ${key}, ${hash}, ${params}, ${history ?? null},
              1, ${queued.tag}, ${queued.state}, ${at}, ${at}, 0, 1, 0, 0)
            ON CONFLICT (id) DO NOTHING RETURNING id`
          if (added.length > 0) return { isNew: true }
          const other = yield* one(id)
          return other === undefined ? { isNew: false } : yield* compared(other)
        })
      )
    },
    get: (id) => run(Effect.map(one(id), Option.fromUndefinedOr)),
    list: ({ state, task, limit, before }) => {
      const rules = [
        state === undefined ? undefined : sql.in("tag", state),
        task === undefined ? undefined : sql`task = ${task}`,
        before === undefined ? undefined : sql`seq < ${before}`
      ].filter((rule) => rule !== undefined)
      return run(selectAll(sql`WHERE ${sql.and([sql`1 = 1`, ...rules])} ORDER BY seq DESC LIMIT ${limit}`))
    },
    ahead: (seq) => run(count(sql`tag = 'Queued' AND seq < ${seq}`)),

    queued: (known, limit) =>
      known.length === 0
        ? Effect.succeed([])
        : run(
            select(
              sql`WHERE is_open = 1 AND started = 0 AND ${sql`${sql.literal(agent)} IN ${sql.in(known)}`} ORDER BY seq LIMIT ${limit}`
            )
          ),
    unknown: (known, before, limit) => {
      const isUnknown =
        known.length === 0 ? sql`1 = 1` : sql`NOT ${sql`${sql.literal(agent)} IN ${sql.in(known)}`}`
      return run(
        select(sql`WHERE is_open = 1 AND started = 0 AND tag = 'Queued' AND since < ${before} AND ${isUnknown}
          ORDER BY seq LIMIT ${limit}`)
      )
    },
    attention: (now, limit) =>
      run(
        select(sql`WHERE is_open = 1 AND started = 1 AND id IN (
          SELECT id FROM ${tasks} WHERE is_open = 1 AND (cancel_by IS NOT NULL OR verdict IS NOT NULL OR parked = 1)
          UNION SELECT id FROM ${tasks} WHERE is_open = 1 AND due_at IS NOT NULL AND due_at <= ${now})
          ORDER BY seq LIMIT ${limit}`)
      ),
    started: (id, generation) =>
      Effect.asVoid(run(sql`UPDATE ${tasks} SET started = 1 WHERE ${live(id, generation)}`)),
    claim: (id, generation, runner) =>
      run(
        Effect.map(
          Effect.flatMap(
            sql`UPDATE ${tasks} SET started = 1, parked = 0, runner = ${runner} WHERE ${live(id, generation)} RETURNING *`,
            allRowsOf
          ),
          ([row]) => Option.fromUndefinedOr(row)
        )
      ),
    report: (reports) => report(reports, own),
    reportQueued: (reports) =>
      report(
        reports,
        ({ id, generation }) => sql`${live(id, generation)} AND started = 0 AND tag = 'Queued'`
      ),

    begin: (by, deaths) =>
      Effect.asVoid(
        run(sql`UPDATE ${tasks} SET boot = ${by.runner}, deaths = ${textOf(deaths)} WHERE ${own(by)}`)
      ),
    setDeaths: (by, deaths) =>
      Effect.asVoid(
        run(sql`UPDATE ${tasks} SET deaths = ${textOf(deaths)} WHERE ${own(by)} AND boot = ${by.runner}`)
      ),
    leave: (boot) =>
      Effect.asVoid(run(sql`UPDATE ${tasks} SET boot = NULL WHERE is_open = 1 AND boot = ${boot}`)),
    wait: (asked) => Effect.asVoid(run(wait(asked))),
    waitForRestart: (asked, bound) =>
      atomic(
        Effect.gen(function* () {
          const row = yield* one(asked.id)
          if (row?.wait !== asked.name && (yield* count(sql`tag = 'WaitingUntil'`)) >= bound) return false
          yield* wait(asked)
          return true
        })
      ),
    woken: (id, generation, name) =>
      Effect.asVoid(
        run(sql`UPDATE ${tasks} SET wait = NULL, due_at = NULL, verdict = NULL, tag = ${queued.tag},
          state = ${queued.state}
          WHERE ${live(id, generation)} AND wait = ${name}`)
      ),
    park: (by, state) => {
      const { tag, state: json } = written(state)
      const unless = (column: string, value: string) =>
        sql`${sql(column)} = CASE WHEN wait IS NULL THEN ${value} ELSE ${sql(column)} END`
      return Effect.asVoid(
        run(sql`UPDATE ${tasks} SET parked = 1, boot = NULL, ${unless("tag", tag)}, ${unless("state", json)}
          WHERE ${own(by)}`)
      )
    },
    finish: ({ state, result, costUsd, at, ...by }) => {
      const { tag, state: json } = written(state)
      return run(
        Effect.gen(function* () {
          const ended = yield* sql`UPDATE ${tasks} SET tag = ${tag}, state = ${json}, since = ${at},
            result = ${result}, cost = ${costUsd ?? null}, is_open = 0, wait = NULL, due_at = NULL, verdict = NULL,
            parked = 0 WHERE ${own(by)} RETURNING id`
          if (ended.length > 0) return true
          // A connection that broke after the commit.
          const same =
            yield* sql`SELECT id FROM ${tasks} WHERE id = ${by.id} AND generation = ${by.generation}
            AND is_open = 0 AND runner = ${by.runner} AND result = ${result}`
          return same.length > 0
        })
      )
    },

    cancel: ({ id, by, at, result }) => {
      const { tag, state } = written({ _tag: "Cancelled", by })
      return atomic(
        Effect.gen(function* () {
          yield* existing(id)
          const ended = yield* sql`UPDATE ${tasks}
            SET tag = ${tag}, state = ${state}, since = ${at}, result = ${result}, is_open = 0
            WHERE id = ${id} AND is_open = 1 AND started = 0 RETURNING id`
          yield* sql`UPDATE ${tasks} SET cancel_by = ${by}
            WHERE id = ${id} AND is_open = 1 AND started = 1 AND cancel_by IS NULL`
          return ended.length > 0
        })
      )
    },
    decide: (id, verdict) =>
      atomic(
        Effect.gen(function* () {
          const row = yield* existing(id)
          if (row.verdict === verdict.json) return
          const waitsFor = decisionKey(row.state)
          if (verdict.key !== undefined && waitsFor !== undefined && verdict.key !== waitsFor) {
            return yield* Effect.fail(new StaleDecision({ task: id, key: verdict.key, waitsFor }))
          }
          if (!verdict.for.some((tag) => tag === row.state._tag)) return yield* notNow(row, "decide")
          // The wait that was compared, and no later one.
          const { tag, state } = written(waitingFor(agentOf(row)))
          const changed =
            yield* sql`UPDATE ${tasks} SET verdict = ${verdict.json}, tag = ${tag}, state = ${state}
            WHERE ${live(id, row.generation)} AND wait = ${row.wait ?? null} AND verdict IS NULL RETURNING id`
          if (changed.length > 0) return
          return yield* notNow(row, "decide")
        })
      ),
    resume: ({ id, generation, history, at }) =>
      atomic(
        Effect.gen(function* () {
          const row = yield* existing(id)
          if (row.state._tag !== "Failed" && row.state._tag !== "Cancelled") {
            return yield* notNow(row, "resume")
          }
          yield* sql`UPDATE ${tasks} SET history = ${history ?? row.history ?? null}, seq = ${nextSeq}, generation = ${generation + 1},
            tag = ${queued.tag}, state = ${queued.state}, since = ${at}, restarts = 0, cost = NULL, result = NULL,
            is_open = 1, started = 0, parked = 0, cancel_by = NULL, boot = NULL, deaths = NULL WHERE id = ${id} AND generation = ${generation}`
        })
      ),
    endedBefore: (before, limit) =>
      run(selectAll(sql`WHERE is_open = 0 AND since < ${before} ORDER BY since LIMIT ${limit}`)),
    remove: (rows) =>
      atomic(
        Effect.gen(function* () {
          let removed = 0
          for (const { id, generation } of rows) {
            const gone = yield* sql`DELETE FROM ${tasks}
              WHERE id = ${id} AND generation = ${generation} AND is_open = 0 RETURNING id`
            if (gone.length === 0) continue
            yield* sql`DELETE FROM ${effects} WHERE task = ${id}`
            yield* sql`DELETE FROM ${steps} WHERE task = ${id}`
            removed++
          }
          return removed
        })
      ),
    ...StepRows.make(tables)
  }
}
