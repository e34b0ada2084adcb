/**
 * Durable tasks: agent runs that go on after a crash, a deploy or an outage of their providers.
 *
 * A task is submitted once by its key, runs on a worker, and ends once. Its finished turns and tools are never repeated.
 * The same program runs on every engine; a Layer chooses it.
 *
 * **Engines.** {@link layerMemory} keeps tasks in this process, for tests. {@link layerSqlite} keeps them in a SQLite
 * file, for one process. {@link layerCluster} keeps them in PostgreSQL, for many workers. {@link layerEngine} runs them on any workflow engine of effect/workflow. {@link layerClient}
 * submits, lists and cancels, and runs nothing.
 *
 * **Composition.** `Task.make` describes an agent. Its `toLayer` makes this process a worker for it. `Journal` says what
 * its tools do outside.
 *
 * **Limits.** Other processes see what a task does up to half a second later. A cancellation reaches a running tool
 * within two seconds.
 *
 * **Example** (What waits for a person)
 *
 * ```ts
 * const { list, decide } = yield* Tasks.Tasks
 * yield* list({ state: ["InDoubt"] }).pipe(
 *   Stream.runForEach(({ id, state }) => decide(id, { _tag: "DidNot" }, Tasks.decisionKey(state)))
 * )
 * ```
 */
import { Clock, Context, Duration, Effect, Layer, Option, Schedule, Schema, Stream } from "effect"
import type { Scope } from "effect"
import { Prompt } from "effect/ai"
import type { SqlClient } from "effect/sql"
import { WorkflowEngine } from "effect/workflow"
import type { Agent, Outcome } from "@outlast/agent"
import { Transcript } from "@outlast/agent"
import { Options, ResilienceEvents } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import * as ClusterEngine from "./cluster/ClusterEngine.ts"
import * as Holders from "./cluster/Holders.ts"
import * as SingleEngine from "./cluster/SingleEngine.ts"
import * as Waiting from "./cluster/Waiting.ts"
import * as EngineRows from "./cluster/EngineRows.ts"
import * as MemoryStore from "./store/MemoryStore.ts"
import * as SqlStore from "./store/sql/SqlStore.ts"
import type { NewTask, Row } from "./store/TaskStore.ts"
import { TaskStore } from "./store/TaskStore.ts"
import * as StoreOutage from "./store/StoreOutage.ts"
import type { KeyReused, QueueFull, StaleDecision } from "./state/TaskErrors.ts"
import { NoSuchTask, NotNow } from "./state/TaskErrors.ts"
import type { StateTag, TaskFailed, TaskStatus, Verdict } from "./state/TaskState.ts"
import { ended, isWithoutConversation, promptJson, resultJson, verdictJson } from "./state/TaskState.ts"
import type { TaskEvent } from "./telemetry/TaskEvent.ts"
import { cancelledResult } from "./worker/Body.ts"
import { payloadOf, TaskWorkflow } from "./workflow/TaskWorkflow.ts"
import * as Worker from "./worker/Worker.ts"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

export interface Filter {
  readonly state?: ReadonlyArray<StateTag> | undefined
  /** Name of the agent. */
  readonly task?: string | undefined
}

type Fails = StoreError.StoreError

export interface Service {
  /** Adds a task. `Task.submit` calls it with typed parameters. */
  readonly submit: (task: NewTask) => Effect.Effect<void, QueueFull | KeyReused | Fails>
  /** Newest first. */
  readonly list: (filter?: Filter) => Stream.Stream<TaskStatus, Fails>
  readonly status: (id: string) => Effect.Effect<Option.Option<TaskStatus>, Fails>
  /** The status now, and each change of it. Ends with the task. */
  readonly watch: (id: string) => Stream.Stream<TaskStatus, NoSuchTask | Fails>
  /** Waits for the end of a task. */
  readonly result: (id: string) => Effect.Effect<Outcome.Outcome, TaskFailed | NoSuchTask | Fails>
  /**
   * The parts of a task that runs in this process, from now on. A turn that is run again begins with a rewind. Ends with
   * the task.
   */
  readonly parts: (id: string) => Stream.Stream<Agent.Part, NoSuchTask | Fails>
  /** Cancels a task; `by` says who did. Does nothing for a task that ended. */
  readonly cancel: (id: string, by: string) => Effect.Effect<void, NoSuchTask | Fails>
  /** Continues a failed or cancelled task from its conversation, as a new generation. */
  readonly resume: (id: string) => Effect.Effect<void, NoSuchTask | NotNow | Fails>
  /**
   * Answers what a task waits for: whether an effect has happened, or which calls are approved. `key` is the
   * {@link decisionKey} of the state that the decision is about: a task that waits for something else by now refuses it.
   */
  readonly decide: (
    id: string,
    verdict: Verdict,
    key?: string
  ) => Effect.Effect<void, NoSuchTask | NotNow | StaleDecision | Fails>
  /**
   * Deletes tasks that ended longer ago, with their history. Their keys can be used again. One that was cut off can be
   * repeated.
   */
  readonly prune: (olderThan: Duration.Input) => Effect.Effect<{ readonly tasks: number }, Fails>
  /**
   * Stops the worker of this process in good order: no further step begins, those under way end, and tasks are handed
   * back. For the shutdown of the host. Does nothing in a client.
   */
  readonly drain: Effect.Effect<void>
  /**
   * For `Host.ready`: true, or why the store takes no tasks. Writes one row, because a full disk refuses nothing else.
   */
  readonly ready: Effect.Effect<true | string>
}

export class Tasks extends Context.Service<Tasks, Service>()("@outlast/tasks/Tasks") {}

export { decisionKey } from "./state/TaskState.ts"

/** Stops the worker of this process in good order: `host.onShutdown("runs", { name: "tasks", run: Tasks.drain })`. */
export const drain: Effect.Effect<void, never, Tasks> = Effect.flatMap(Tasks, ({ drain }) => drain)

/** Makes this process a worker. `Task.toLayer` requires it. */
export type Workers = Worker.Worker

// -----------------------------------------------------------------------------
// Options
// -----------------------------------------------------------------------------

export interface QueueOptions {
  /** Queued tasks, at most. Default 1,000. */
  readonly queue?: number | undefined
}

export interface WorkerOptions extends QueueOptions {
  /** Tasks that run in this process at a time. Default 32. */
  readonly concurrency?: number | undefined
  /** Tasks that wait for a restart, at most. One more fails at once. Default 1,000. */
  readonly restarting?: number | undefined
  /** Name of this worker in a status. Default: a random one. */
  readonly worker?: string | undefined
}

export const defaults = { queue: 1_000, concurrency: 32, restarting: 1_000 } as const

const queueChecks: Options.Checks<QueueOptions> = { queue: Options.is.integer({ min: 1 }) }
const workerChecks: Options.Checks<WorkerOptions> = {
  ...queueChecks,
  concurrency: Options.is.integer({ min: 1 }),
  restarting: Options.is.integer({ min: 0 }),
  worker: Options.is.text
}

export interface SqlOptions extends SqlStore.SqlOptions {}

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** Tasks in the memory of this process. They end with it. */
export const layerMemory = (options: WorkerOptions = {}): Layer.Layer<Tasks | Workers> => {
  Options.fields("Tasks", options, workerChecks)
  return layerEngine(options).pipe(
    Layer.provide([MemoryStore.layer, EngineRows.layerMemory, StoreOutage.layer, WorkflowEngine.layerMemory])
  )
}

export interface SqliteOptions extends WorkerOptions, SqlOptions {
  /**
   * Holds the lock of the store until the scope closes, and fails if another process has it:
   * `StoreLock.acquire("tasks.lock")` of `@outlast/node`. Two processes on one file would run every task twice.
   */
  readonly lock: Effect.Effect<unknown, StoreError.StoreError, Scope.Scope>
}

const isLock: Options.Check = (module, field, value) => {
  const noun = 'the Effect that locks the store, for example StoreLock.acquire("tasks.lock") of @outlast/node'
  Options.check(Effect.isEffect(value), module, field, value, noun)
}

/**
 * Tasks in a SQLite file, for one process. Throws an `InvalidOption` (a `RangeError`) for a missing lock and for an option
 * that is unknown or not allowed.
 */
export const layerSqlite = (
  options: SqliteOptions
): Layer.Layer<Tasks | Workers, Fails, SqlClient.SqlClient> => {
  // A missing lock is told like a wrong one: with the way to get it.
  Options.check(
    typeof options === "object" && options !== null,
    "Tasks.layerSqlite",
    "options",
    options,
    "an object with a lock"
  )
  isLock("Tasks.layerSqlite", "lock", options.lock)
  Options.fields<SqliteOptions>("Tasks.layerSqlite", options, {
    ...workerChecks,
    ...SqlStore.checks,
    lock: isLock
  })
  return layerEngine(options).pipe(
    Layer.provide(SingleEngine.layer),
    Layer.provide(layerStore(options)),
    // The lock first: nothing touches the file without it.
    Layer.provide(Layer.effectDiscard(options.lock))
  )
}

export interface ClusterOptions extends WorkerOptions, SqlOptions {
  /**
   * The lease of a worker: this long after a worker is gone, others take its tasks over. Default 30 s, at least 1 s. All
   * workers have the same. With a short one, a database that does not answer for a moment interrupts running turns.
   */
  readonly takeover?: Duration.Input | undefined
}

/** The lease of a worker of {@link layerCluster}. */
export const takeover: Duration.Input = "30 seconds"

/** Services that {@link layerCluster} needs from the sockets of its process. */
export type Sockets = ClusterEngine.Sockets

/**
 * Tasks in PostgreSQL, for many workers on many machines. Waits for a database that does not answer, and says so.
 * `ClusterSockets.layer` of `@outlast/node/cluster` provides the sockets.
 */
export const layerCluster = (
  options: ClusterOptions = {}
): Layer.Layer<Tasks | Workers, Fails, SqlClient.SqlClient | Sockets> => {
  Options.fields<ClusterOptions>("Tasks", options, {
    ...workerChecks,
    ...SqlStore.checks,
    takeover: Options.is.duration({ min: "1 second" })
  })
  const lease = Duration.fromInputUnsafe(options.takeover ?? takeover)
  return layerEngine(options).pipe(
    Layer.provide([Holders.layer(lease, options), ClusterEngine.layer(lease)]),
    Layer.provide(layerStore(options)),
    Layer.provide(Layer.effectDiscard(ClusterEngine.migrated))
  )
}

/** Builds a database client again until its database answers: `Tasks.waitFor(PgClient.layer({ url }))`. */
export const waitFor: <A, E, R>(client: Layer.Layer<A, E, R>) => Layer.Layer<A, never, R> = Waiting.layer

/** Submits, lists, cancels and decides over the tables of a store. Runs nothing. */
export const layerClient = (
  options: QueueOptions & SqlOptions = {}
): Layer.Layer<Tasks, Fails, SqlClient.SqlClient> => {
  Options.fields<QueueOptions & SqlOptions>("Tasks", options, { ...queueChecks, ...SqlStore.checks })
  return layerTasks(options, undefined).pipe(Layer.provide(layerStore(options)))
}

/** What a worker needs of its store. */
export type Store = TaskStore | EngineRows.EngineRows | StoreOutage.StoreOutage

/** The tables of tasks over a `SqlClient`, for {@link layerEngine}. */
export const layerStore = (options: SqlOptions = {}): Layer.Layer<Store, Fails, SqlClient.SqlClient> =>
  Layer.mergeAll(SqlStore.layer(options), EngineRows.layerSql, StoreOutage.layer)

/** Tasks on any workflow engine, over a store. */
export const layerEngine = (
  options: WorkerOptions = {}
): Layer.Layer<Tasks | Workers, never, WorkflowEngine.WorkflowEngine | Store> =>
  Layer.unwrap(Effect.map(Worker.Worker, (worker) => layerTasks(options, worker))).pipe(
    Layer.provideMerge(
      Worker.layer({
        name: options.worker ?? `worker-${globalThis.crypto.randomUUID().slice(0, 8)}`,
        concurrency: options.concurrency ?? defaults.concurrency,
        maxRestarting: options.restarting ?? defaults.restarting
      })
    )
  )

const layerTasks = (
  { queue = defaults.queue }: QueueOptions,
  worker: Worker.Service | undefined
): Layer.Layer<Tasks, never, TaskStore | EngineRows.EngineRows> =>
  Layer.effect(
    Tasks,
    Effect.gen(function* () {
      const store = yield* TaskStore
      const engine = yield* EngineRows.EngineRows
      return make(store, engine, queue, worker)
    })
  )

// -----------------------------------------------------------------------------
// Implementation
// -----------------------------------------------------------------------------

const page = 100
const poll: Duration.Input = "500 millis"
const publish = ResilienceEvents.publishNow<TaskEvent>

const make = (
  store: TaskStore["Service"],
  engine: EngineRows.EngineRows["Service"],
  bound: number,
  worker: Worker.Service | undefined
): Service => {
  const statusOf = (row: Row): Effect.Effect<TaskStatus, Fails> =>
    Effect.gen(function* () {
      const { id, task, version, generation, submittedAt, costUsd } = row
      const control = worker?.controlOf(id)
      const isOpen = !ended.has(row.state._tag) && row.wait === undefined
      const isHere = isOpen && control?.run.generation === generation
      const outage = isHere ? worker?.outage() : undefined
      const own = isHere ? control.report : undefined
      const { state, since, restarts }: Pick<TaskStatus, "state" | "since" | "restarts"> =
        outage === undefined
          ? (own ?? row)
          : {
              state: { _tag: "WaitingForStore", reason: outage.error.reason },
              since: outage.since,
              restarts: row.restarts
            }
      const shown =
        state._tag === "Queued"
          ? { _tag: "Queued" as const, position: 1 + (yield* store.ahead(row.seq)) }
          : state
      const deaths = row.deaths?.boots.length ?? 0
      return { id, task, version, generation, state: shown, since, submittedAt, restarts, deaths, costUsd }
    })
  const found = (id: string): Effect.Effect<Row, NoSuchTask | Fails> =>
    Effect.flatMap(
      store.get(id),
      Option.match({ onNone: () => Effect.fail(new NoSuchTask({ task: id })), onSome: Effect.succeed })
    )
  const nudge = worker?.nudge ?? Effect.void

  const result = (id: string): ReturnType<Service["result"]> =>
    Effect.gen(function* () {
      while (true) {
        const row = yield* Effect.scoped(
          Effect.gen(function* () {
            // Before the look: no end is missed between the two.
            const endsHere = yield* worker?.listen(id) ?? Effect.succeed(Effect.never)
            const row = yield* found(id)
            // Other processes end tasks, too.
            if (!ended.has(row.state._tag)) yield* Effect.raceFirst(Effect.sleep(poll), endsHere)
            return row
          })
        )
        if (ended.has(row.state._tag) && row.result !== undefined) {
          const result = yield* read(resultJson, row.result)
          return result._tag === "Ended" ? result.outcome : yield* Effect.fail(result.failure)
        }
      }
    })

  return {
    submit: (task) =>
      Effect.gen(function* () {
        const { isNew } = yield* store.submit(task, bound)
        if (isNew) yield* publish({ _tag: "TaskSubmitted", task: task.task })
        yield* nudge
      }),
    list: (filter = {}) =>
      Stream.paginate(undefined as number | undefined, (before) =>
        Effect.gen(function* () {
          const rows = yield* store.list({ ...filter, limit: page, before })
          const statuses = yield* Effect.forEach(rows, statusOf)
          const last = rows.length < page ? undefined : rows.at(-1)
          return [statuses, last === undefined ? Option.none() : Option.some(last.seq)] as const
        })
      ),
    status: (id) =>
      Effect.flatMap(
        store.get(id),
        Option.match({ onNone: () => Effect.succeedNone, onSome: (row) => Effect.asSome(statusOf(row)) })
      ),
    watch: (id) =>
      Stream.fromEffectSchedule(Effect.flatMap(found(id), statusOf), Schedule.spaced(poll)).pipe(
        Stream.changesWith(isSame),
        Stream.takeUntil(({ state }) => ended.has(state._tag))
      ),
    result,
    parts: (id) =>
      Stream.unwrap(
        Effect.map(found(id), () =>
          worker === undefined
            ? Stream.empty
            : Stream.interruptWhen(worker.parts.of(id), Effect.exit(result(id)))
        )
      ),
    cancel: (id, by) =>
      Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        const row = yield* found(id)
        const history = row.history === undefined ? Prompt.empty : yield* read(promptJson, row.history)
        const result = cancelledResult(id, by, new Transcript.Transcript(history))
        const hasEnded = yield* store.cancel({ id, by, at, result: Schema.encodeSync(resultJson)(result) })
        const { restarts, task } = row
        if (hasEnded) yield* publish({ _tag: "TaskEnded", task, state: "Cancelled", restarts })
        yield* nudge
      }),
    resume: (id) =>
      Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        const row = yield* found(id)
        const { generation, result } = row
        if (result === undefined) {
          return yield* Effect.fail(new NotNow({ task: id, state: row.state._tag, asked: "resume" }))
        }
        const end = yield* read(resultJson, result)
        if (end._tag === "Failed" && isWithoutConversation(end.failure.reason)) {
          const state = `${row.state._tag} without its conversation`
          return yield* Effect.fail(new NotNow({ task: id, state, asked: "resume" }))
        }
        const { prompt } = end._tag === "Ended" ? end.outcome.transcript : end.failure.transcript
        const history = prompt.content.length === 0 ? undefined : Schema.encodeSync(promptJson)(prompt)
        yield* store.resume({ id, generation, history, at })
        yield* nudge
      }),
    decide: (id, verdict, key) =>
      Effect.gen(function* () {
        const states: ReadonlyArray<StateTag> =
          verdict._tag === "Approved" ? ["WaitingForApproval"] : ["InDoubt"]
        const json = Schema.encodeSync(verdictJson)(verdict)
        yield* store.decide(id, { json, for: states, key })
        yield* nudge
      }),
    prune: (olderThan) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const before = now - Duration.toMillis(olderThan)
        let tasks = 0
        while (true) {
          const old = yield* store.endedBefore(before, page)
          // The rows of the engine first: nothing finds them without the task.
          for (const row of old) {
            // A generation that was not started has no rows there.
            const last = row.started ? row.generation : row.generation - 1
            for (let generation = 1; generation <= last; generation++) {
              yield* engine.forget(yield* TaskWorkflow.executionId(payloadOf({ ...row, generation })))
            }
          }
          tasks += yield* store.remove(old)
          if (old.length < page) return { tasks }
        }
      }),
    drain: worker?.drain ?? Effect.void,
    ready: Effect.suspend(() => {
      const outage = worker?.outage()
      return outage === undefined
        ? Effect.match(store.probe, { onSuccess: () => true as const, onFailure: ({ message }) => message })
        : Effect.succeed(outage.error.message)
    })
  }
}

/** Decodes stored text. Text that cannot be read was not written by this version, which is a defect. */
const read = <A>(codec: Schema.Codec<A, string>, text: string): Effect.Effect<A> =>
  Effect.orDie(Schema.decodeUnknownEffect(codec)(text))

const isSame = (a: TaskStatus, b: TaskStatus): boolean => JSON.stringify(a) === JSON.stringify(b)
