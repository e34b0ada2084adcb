/**
 * Runs tasks in this process: starts queued ones, wakes waiting ones, and stores what they do.
 *
 * One loop asks the store every half second. It starts the queued tasks whose agent is registered here, twice as many as
 * may run at a time, so that the rest of a long queue takes no memory. It hands cancellations, decisions and times that
 * are due to the engine, which may run the task in another process.
 */
import { Clock, Context, Deferred, Effect, Exit, Layer, Queue, Schema, Semaphore } from "effect"
import type { Duration, Scope } from "effect"
import { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import type { StoreError } from "@outlast/resilience"
import { Options } from "@outlast/resilience"
import type { Service as HolderService } from "../cluster/Holders.ts"
import { Holders } from "../cluster/Holders.ts"
import { Lease } from "../cluster/Lease.ts"
import { verdictJson } from "../state/TaskState.ts"
import type { Row } from "../store/TaskStore.ts"
import { patient, StoreOutage } from "../store/StoreOutage.ts"
import type { Outage } from "../store/StoreOutage.ts"
import { TaskStore, agentOf, waitingFor } from "../store/TaskStore.ts"
import { Alone } from "./Alone.ts"
import { body } from "./Body.ts"
import type { Control } from "./Control.ts"
import type { Definition } from "./Definition.ts"
import { Ends } from "./Ends.ts"
import { Handlers } from "./Handlers.ts"
import { Parts } from "./Parts.ts"
import { deferred, payloadOf, TaskWorkflow } from "../workflow/TaskWorkflow.ts"
import type { Wake } from "../workflow/TaskWorkflow.ts"
import type { Reply } from "../workflow/Reply.ts"
import type { WorkerCore } from "./WorkerCore.ts"
import { grace } from "./WorkerCore.ts"

export interface Settings {
  readonly name: string
  readonly concurrency: number
  readonly maxRestarting: number
}

/** Time between two looks at the store. */
const poll: Duration.Input = "500 millis"
/** Rows of one look, at most. */
const page = 1_000

export interface Service {
  readonly register: (definition: Definition) => Effect.Effect<void, never, Scope.Scope>
  readonly parts: Parts
  /** The task as this process runs it. */
  readonly controlOf: (id: string) => Control | undefined
  /** The outage of the store, while something waits for it. */
  readonly outage: () => Outage | undefined
  /** Begins to listen, and returns an effect that completes when the task ends in this process. */
  readonly listen: (id: string) => Effect.Effect<Effect.Effect<void>, never, Scope.Scope>
  /** Looks at the store at once. */
  readonly nudge: Effect.Effect<void>
  /** Begins no further step, and waits until the tasks here are parked. */
  readonly drain: Effect.Effect<void>
}

export class Worker extends Context.Service<Worker, Service>()("@outlast/tasks/worker/Worker") {}

export const layer = (
  settings: Settings
): Layer.Layer<Worker, never, WorkflowEngine | TaskStore | StoreOutage> =>
  Layer.effect(
    Worker,
    Effect.gen(function* () {
      const engine = yield* WorkflowEngine
      const outage = yield* StoreOutage
      const rows = yield* TaskStore
      const store = patient(outage, rows)
      const scope = yield* Effect.scope
      const definitions = new Map<string, Definition>()
      const drained = Deferred.makeUnsafe<void>()
      const nudges = yield* Queue.sliding<void>(1)
      const handlers = new Handlers<Reply>(scope)
      const draining = Deferred.await(drained)
      const isDraining = () => Deferred.isDoneUnsafe(drained)
      const core: WorkerCore = {
        name: settings.name,
        boot: globalThis.crypto.randomUUID(),
        store,
        maxRestarting: settings.maxRestarting,
        concurrency: settings.concurrency,
        permits: Semaphore.makeUnsafe(settings.concurrency),
        alone: new Alone({ isBusy: () => handlers.isBusy, isDraining, draining }),
        handlers,
        holders: yield* Holders,
        holds: yield* Lease,
        parts: new Parts(),
        running: new Map(),
        nudge: Effect.asVoid(Queue.offer(nudges, undefined)),
        ends: new Ends(),
        definitionOf: (agent) => definitions.get(agentOf(agent)),
        isDraining,
        draining
      }
      yield* engine.register(TaskWorkflow, body(core))
      const tick = look(core, engine, definitions)
      const tried = Effect.catchCause((cause) =>
        Effect.logWarning("Tasks: the store was not asked; trying again.", cause)
      )
      yield* Effect.raceFirst(Effect.sleep(poll), Queue.take(nudges)).pipe(
        Effect.andThen(tried(tick)),
        Effect.forever,
        Effect.forkScoped
      )
      const { holders } = core
      // On its own: a look at the store may take long.
      if (holders !== undefined) {
        yield* tried(handOver(core, holders)).pipe(
          Effect.andThen(Effect.sleep(poll)),
          Effect.forever,
          Effect.forkScoped
        )
      }
      // From now on an end of the process is no death of a task. A store that is away is not waited for.
      const stop = Effect.andThen(
        Effect.sync(() => Deferred.doneUnsafe(drained, Exit.void)),
        rows.leave(core.boot).pipe(Effect.timeout("2 seconds"), Effect.ignore)
      )
      yield* Effect.addFinalizer(() => outage.stop)
      yield* Effect.addFinalizer(() =>
        Effect.andThen(stop, holders === undefined ? Effect.void : leave(core, holders))
      )
      return {
        register: (definition) =>
          Effect.acquireRelease(
            Effect.sync(() => {
              const agent = agentOf(definition)
              if (definitions.has(agent)) throw registered(agent)
              definitions.set(agent, definition)
            }),
            () => Effect.sync(() => void definitions.delete(agentOf(definition)))
          ).pipe(Effect.tap(() => Queue.offer(nudges, undefined))),
        parts: core.parts,
        controlOf: (id) => core.running.get(id),
        listen: (id) => core.ends.listen(id),
        outage: outage.current,
        nudge: core.nudge,
        drain: Effect.andThen(stop, emptied(core))
      }
    })
  )

const registered = (agent: string) =>
  new Options.InvalidOption(
    "Task",
    "toLayer",
    agent,
    "registered once",
    `Task: ${agent} is registered already in this worker. Give one of the two another name or version.`
  )

/** Waits until nothing runs here, and stores the last reports. */
const emptied = (core: WorkerCore): Effect.Effect<void> =>
  Effect.gen(function* () {
    while (core.running.size > 0) yield* Effect.sleep("50 millis")
  })

/** One look at the store. */
const look = (
  core: WorkerCore,
  engine: WorkflowEngine["Service"],
  definitions: ReadonlyMap<string, Definition>
): Effect.Effect<void, StoreError.StoreError> =>
  Effect.gen(function* () {
    const { store, running } = core
    const reports = [...running.values()].flatMap((control) => control.flush() ?? [])
    yield* store.report(reports)
    const now = yield* Clock.currentTimeMillis
    const known = [...definitions.keys()]
    if (!core.isDraining()) {
      const room = Math.min(page, Math.max(0, 2 * core.concurrency - running.size))
      for (const row of yield* store.queued(known, room)) yield* alone(row, start(core, engine, row))
      const unknown = yield* store.unknown(known, now - grace, page)
      yield* store.reportQueued(unknown.map((row) => ({ ...row, state: waitingFor(agentOf(row)) })))
    }
    for (const row of yield* store.attention(now, page)) {
      yield* alone(row, attend(core, engine, row, now))
    }
  })

/** A task that cannot be handled does not hold up those behind it. */
const alone = ({ id }: Row, run: Effect.Effect<void, StoreError.StoreError>) =>
  Effect.catchDefect(run, (defect) =>
    Effect.logWarning(`Tasks: task ${id} could not be handled; trying again.`, defect)
  )

/** Says that this worker lives, and stores the replies that other workers wait for. */
const handOver = (core: WorkerCore, holders: HolderService, isLast = false) =>
  Effect.gen(function* () {
    const { boot, handlers } = core
    if (!isLast) yield* holders.beat(boot)
    const now = yield* Clock.currentTimeMillis
    for (const { key, task, reply } of handlers.left(now, isLast)) {
      yield* holders.answer({ key, task, boot }, reply)
      handlers.stored(key)
    }
  })

const leave = (core: WorkerCore, holders: HolderService) =>
  Effect.andThen(handOver(core, holders, true), holders.leave(core.boot)).pipe(
    Effect.timeout("2 seconds"),
    Effect.ignore
  )

const executionOf = (row: Row) => TaskWorkflow.executionId(payloadOf(row))

const start = (core: WorkerCore, engine: WorkflowEngine["Service"], row: Row) =>
  Effect.gen(function* () {
    const { id, generation } = row
    const executionId = yield* executionOf(row)
    const payload = payloadOf(row)
    // The engine stores it first: a task that is marked as started is never lost.
    yield* engine.execute(TaskWorkflow, { executionId, payload, discard: true })
    yield* core.store.started(id, generation)
  })

const attend = (core: WorkerCore, engine: WorkflowEngine["Service"], row: Row, now: number) =>
  Effect.gen(function* () {
    const { id, generation, cancelBy, wait, verdict, dueAt, parked } = row
    const executionId = yield* executionOf(row)
    const control = core.running.get(id)
    if (parked && control === undefined && !core.isDraining()) yield* engine.resume(TaskWorkflow, executionId)
    if (cancelBy !== undefined && control?.run.generation === generation) control.cancel(cancelBy)
    if (wait === undefined) return
    const wake = yield* wakeOf(cancelBy, verdict, dueAt !== undefined && dueAt <= now)
    if (wake === undefined) return
    const own = deferred(wait)
    yield* engine.deferredDone(own, {
      workflowName: TaskWorkflow._tag,
      executionId,
      deferredName: own.name,
      exit: Exit.succeed(wake)
    })
    yield* core.store.woken(id, generation, wait)
  })

const wakeOf = (
  cancelBy: string | undefined,
  verdict: string | undefined,
  isDue: boolean
): Effect.Effect<Wake | undefined> => {
  if (cancelBy !== undefined) return Effect.succeed({ _tag: "Cancelled" })
  if (verdict !== undefined) {
    return Effect.map(Effect.orDie(Schema.decodeUnknownEffect(verdictJson)(verdict)), (verdict) => ({
      _tag: "Decided",
      verdict
    }))
  }
  return isDue ? Effect.succeed({ _tag: "Due" }) : Effect.undefined
}
