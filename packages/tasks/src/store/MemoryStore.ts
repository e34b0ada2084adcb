/** Tasks in the memory of this process: for tests, and for programs whose tasks may end with them. */
import type { Types } from "effect"
import { Effect, Layer, Option } from "effect"
import { KeyReused, NoSuchTask, NotNow, QueueFull, StaleDecision } from "../state/TaskErrors.ts"
import type { EffectRecord } from "../state/TaskState.ts"
import { decisionKey, ended } from "../state/TaskState.ts"
import type { Report, Row, Run, Service, Wait } from "./TaskStore.ts"
import { agentOf, lost, TaskStore, waitingFor } from "./TaskStore.ts"

const queued = { _tag: "Queued", position: 0 } as const

const make = (): Service => {
  const rows = new Map<string, Types.Mutable<Row>>()
  /** The process that runs each task, by the task's id. */
  const runners = new Map<string, string>()
  /** Of each generation of a task. */
  const steps = new Map<string, Map<string, string>>()
  const effects = new Map<string, EffectRecord>()
  let seq = 0
  const all = (): ReadonlyArray<Row> => [...rows.values()].toSorted((a, b) => a.seq - b.seq)
  const isOpen = ({ state }: Row): boolean => !ended.has(state._tag)
  const copy = (row: Row): Row => ({ ...row })
  /** The row of a generation that has not ended. */
  const live = (id: string, generation: number): Types.Mutable<Row> | undefined => {
    const row = rows.get(id)
    return row !== undefined && row.generation === generation && isOpen(row) ? row : undefined
  }
  const stepsOf = (id: string, generation: number): Map<string, string> => {
    const key = `${id}#${generation}`
    const known = steps.get(key) ?? new Map<string, string>()
    steps.set(key, known)
    return known
  }
  const countOf = (is: (row: Row) => boolean): number => {
    let n = 0
    for (const row of rows.values()) if (is(row)) n++
    return n
  }
  const count = (tag: string): number => countOf(({ state }) => state._tag === tag)
  /** The row, for the process that has claimed it. */
  const own = ({ id, generation, runner }: Run): Types.Mutable<Row> | undefined =>
    runners.get(id) === runner ? live(id, generation) : undefined
  const wait = ({ name, state, at, dueAt, restarts, ...run }: Wait): void => {
    const row = own(run)
    if (row === undefined) return
    // A step that died before it was recorded waits again: the decision of a person stays.
    if (row.wait !== name) row.verdict = undefined
    Object.assign(row, { state, since: at, wait: name, dueAt, parked: false })
    Object.assign(row, { boot: undefined, deaths: undefined })
    if (restarts !== undefined) row.restarts = restarts
  }
  const report = <R extends Omit<Report, "runner">>(
    reports: ReadonlyArray<R>,
    rowOf: (report: R) => Types.Mutable<Row> | undefined
  ) =>
    Effect.sync(() => {
      for (const report of reports) {
        const row = rowOf(report)
        const { state, since, restarts } = report
        if (row !== undefined && row.wait === undefined) Object.assign(row, { state, since, restarts })
      }
    })
  const found = <A, E>(id: string, use: (row: Types.Mutable<Row>) => Effect.Effect<A, E>) =>
    Effect.suspend((): Effect.Effect<A, NoSuchTask | E> => {
      const row = rows.get(id)
      return row === undefined ? Effect.fail(new NoSuchTask({ task: id })) : use(row)
    })

  return {
    probe: Effect.void,
    submit: ({ at, ...task }, bound) =>
      Effect.suspend((): Effect.Effect<{ readonly isNew: boolean }, KeyReused | QueueFull> => {
        const known = rows.get(task.id)
        if (known !== undefined) {
          return known.hash === task.hash
            ? Effect.succeed({ isNew: false })
            : Effect.fail(new KeyReused({ task: task.task, key: task.key }))
        }
        const waiting = countOf((row) => isOpen(row) && (!row.started || row.state._tag === "Queued"))
        if (waiting >= bound) return Effect.fail(new QueueFull({ queued: waiting, bound }))
        rows.set(task.id, {
          ...task,
          seq: ++seq,
          generation: 1,
          state: queued,
          since: at,
          submittedAt: at,
          restarts: 0,
          costUsd: undefined,
          result: undefined,
          started: false,
          parked: false,
          cancelBy: undefined,
          wait: undefined,
          dueAt: undefined,
          verdict: undefined,
          boot: undefined,
          deaths: undefined
        })
        return Effect.succeed({ isNew: true })
      }),
    get: (id) => Effect.sync(() => Option.map(Option.fromUndefinedOr(rows.get(id)), copy)),
    list: ({ state, task, limit, before }) =>
      Effect.sync(() =>
        all()
          .toReversed()
          .filter((row) => state === undefined || state.some((tag) => tag === row.state._tag))
          .filter((row) => task === undefined || row.task === task)
          .filter((row) => before === undefined || row.seq < before)
          .slice(0, limit)
          .map(copy)
      ),
    ahead: (seq) =>
      Effect.sync(() => all().filter((row) => row.state._tag === "Queued" && row.seq < seq).length),

    queued: (known, limit) =>
      Effect.sync(() =>
        all()
          .filter((row) => isOpen(row) && !row.started && known.includes(agentOf(row)))
          .slice(0, limit)
          .map(copy)
      ),
    unknown: (known, before, limit) =>
      Effect.sync(() =>
        all()
          .filter((row) => row.state._tag === "Queued" && !row.started && !known.includes(agentOf(row)))
          .filter(({ since }) => since < before)
          .slice(0, limit)
          .map(copy)
      ),
    attention: (now, limit) =>
      Effect.sync(() =>
        all()
          .filter((row) => isOpen(row) && row.started)
          .filter(
            ({ cancelBy, verdict, dueAt, parked }) =>
              cancelBy !== undefined ||
              verdict !== undefined ||
              parked ||
              (dueAt !== undefined && dueAt <= now)
          )
          .slice(0, limit)
          .map(copy)
      ),
    started: (id, generation) =>
      Effect.sync(() => {
        const row = live(id, generation)
        if (row !== undefined) row.started = true
      }),
    claim: (id, generation, runner) =>
      Effect.sync(() => {
        const row = live(id, generation)
        if (row === undefined) return Option.none()
        runners.set(id, runner)
        Object.assign(row, { started: true, parked: false })
        return Option.some(copy(row))
      }),
    report: (reports) => report(reports, own),
    reportQueued: (reports) =>
      report(reports, ({ id, generation }) => {
        const row = live(id, generation)
        return row?.started === false && row.state._tag === "Queued" ? row : undefined
      }),

    begin: (run, deaths) =>
      Effect.sync(() => {
        const row = own(run)
        if (row !== undefined) Object.assign(row, { boot: run.runner, deaths })
      }),
    setDeaths: (run, deaths) =>
      Effect.sync(() => {
        const row = own(run)
        if (row?.boot === run.runner) row.deaths = deaths
      }),
    leave: (boot) =>
      Effect.sync(() => {
        for (const row of rows.values()) if (isOpen(row) && row.boot === boot) row.boot = undefined
      }),
    wait: (asked) => Effect.sync(() => wait(asked)),
    waitForRestart: (asked, bound) =>
      Effect.sync(() => {
        if (rows.get(asked.id)?.wait !== asked.name && count("WaitingUntil") >= bound) return false
        wait(asked)
        return true
      }),
    woken: (id, generation, name) =>
      Effect.sync(() => {
        const row = live(id, generation)
        if (row?.wait === name)
          Object.assign(row, { wait: undefined, dueAt: undefined, verdict: undefined, state: queued })
      }),
    park: (run, state) =>
      Effect.sync(() => {
        const row = own(run)
        if (row === undefined) return
        row.parked = true
        row.boot = undefined
        if (row.wait === undefined) row.state = state
      }),
    finish: ({ state, result, costUsd, at, ...run }) =>
      Effect.sync(() => {
        const row = own(run)
        if (row === undefined)
          return rows.get(run.id)?.result === result && runners.get(run.id) === run.runner
        const idle = { wait: undefined, dueAt: undefined, verdict: undefined, parked: false }
        Object.assign(row, { state, result, costUsd, since: at, ...idle })
        return true
      }),

    cancel: ({ id, by, at, result }) =>
      found(id, (row) =>
        Effect.sync(() => {
          if (!isOpen(row)) return false
          if (row.started) {
            row.cancelBy ??= by
            return false
          }
          Object.assign(row, { state: { _tag: "Cancelled", by }, since: at, result })
          return true
        })
      ),
    decide: (id, verdict) =>
      found(id, (row) =>
        Effect.suspend((): Effect.Effect<void, NotNow | StaleDecision> => {
          if (row.verdict === verdict.json) return Effect.void
          const waitsFor = decisionKey(row.state)
          if (verdict.key !== undefined && waitsFor !== undefined && verdict.key !== waitsFor) {
            return Effect.fail(new StaleDecision({ task: id, key: verdict.key, waitsFor }))
          }
          if (
            !verdict.for.some((tag) => tag === row.state._tag) ||
            row.wait === undefined ||
            row.verdict !== undefined
          ) {
            return Effect.fail(new NotNow({ task: id, state: row.state._tag, asked: "decide" }))
          }
          Object.assign(row, { verdict: verdict.json, state: waitingFor(agentOf(row)) })
          return Effect.void
        })
      ),
    resume: ({ id, generation, history, at }) =>
      found(id, (row) =>
        Effect.suspend(() => {
          if (row.state._tag !== "Failed" && row.state._tag !== "Cancelled") {
            return Effect.fail(new NotNow({ task: id, state: row.state._tag, asked: "resume" }))
          }
          if (row.generation !== generation) return Effect.void
          Object.assign(row, {
            history: history ?? row.history,
            seq: ++seq,
            generation: generation + 1,
            state: queued,
            since: at,
            restarts: 0,
            costUsd: undefined,
            result: undefined,
            started: false,
            parked: false,
            cancelBy: undefined,
            boot: undefined,
            deaths: undefined
          })
          return Effect.void
        })
      ),
    endedBefore: (before, limit) =>
      Effect.sync(() =>
        all()
          .filter((row) => !isOpen(row) && row.since < before)
          .toSorted((a, b) => a.since - b.since)
          .slice(0, limit)
          .map(copy)
      ),
    remove: (old) =>
      Effect.sync(() => {
        let removed = 0
        for (const { id, generation } of old) {
          const row = rows.get(id)
          if (row === undefined || row.generation !== generation || isOpen(row)) continue
          rows.delete(id)
          runners.delete(id)
          for (let n = 1; n <= generation; n++) steps.delete(`${id}#${n}`)
          for (const [key, { task }] of effects) if (task === id) effects.delete(key)
          removed++
        }
        return removed
      }),

    steps: (id, generation) => Effect.sync(() => new Map(stepsOf(id, generation))),
    record: ({ task, generation, name, reply, runner }) =>
      Effect.sync(() => {
        const stored = stepsOf(task, generation)
        const known = stored.get(name)
        if (known !== undefined) return known
        if (own({ id: task, generation, runner }) === undefined) return lost
        stored.set(name, reply)
        return reply
      }),
    intend: (record) =>
      Effect.sync(() => {
        const known = Option.fromUndefinedOr(effects.get(record.key))
        if (Option.isNone(known)) {
          const { task: id, generation, boot: runner } = record
          if (own({ id, generation, runner }) === undefined) return lost
          effects.set(record.key, record)
        }
        return known
      }),
    intents: (task) => Effect.sync(() => [...effects.values()].filter((record) => record.task === task)),
    takeOver: (record) =>
      Effect.sync(() => {
        const { task: id, generation, boot: runner } = record
        if (!effects.has(record.key) || own({ id, generation, runner }) === undefined) return false
        effects.set(record.key, record)
        return true
      })
  }
}

export const layer: Layer.Layer<TaskStore> = Layer.sync(TaskStore, make)
