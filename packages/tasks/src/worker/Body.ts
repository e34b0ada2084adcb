/**
 * The body of the workflow of a task: waits for its agent and a permit, runs it, and stores how it ended.
 *
 * The body itself decides nothing and publishes nothing, beside the end: every action of the run is a step
 * (`TaskSteps`). It runs again from the beginning after each suspension and each crash.
 */
import { Cause, Clock, Effect, Exit, Option, Schema, Semaphore } from "effect"
import { Prompt } from "effect/ai"
import { Workflow } from "effect/workflow"
import type { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import { WorkflowInstance } from "effect/workflow/WorkflowEngine"
import type { Outcome } from "@outlast/agent"
import { AgentFailed, Transcript } from "@outlast/agent"
import { RunState } from "@outlast/agent/loop"
import { ResilienceEvents } from "@outlast/resilience"
import type { Row, Steps } from "../store/TaskStore.ts"
import { agentOf, waitingFor } from "../store/TaskStore.ts"
import type { TaskEvent } from "../telemetry/TaskEvent.ts"
import type { FailReason, TaskResult, TaskState } from "../state/TaskState.ts"
import { ended, promptJson, resultJson, TaskFailed } from "../state/TaskState.ts"
import { Control } from "./Control.ts"
import type { Definition, StepEnded } from "./Definition.ts"
import { lost, UnreadableStep } from "./Execution.ts"
import * as Trial from "./Trial.ts"
import * as TaskSteps from "./TaskSteps.ts"
import type { Payload } from "../workflow/TaskWorkflow.ts"
import { body as bodyVersion, runOf } from "../workflow/TaskWorkflow.ts"
import type { WorkerCore } from "./WorkerCore.ts"
import { grace } from "./WorkerCore.ts"

type End = Exit.Exit<Outcome.Outcome, AgentFailed.AgentFailed | StepEnded>

export const body =
  (worker: WorkerCore) =>
  (payload: Payload): Effect.Effect<void, never, WorkflowEngine | WorkflowInstance> =>
    Effect.gen(function* () {
      const { store, running } = worker
      const live = readable(
        Effect.map(
          store.get(payload.id),
          Option.filter((row) => runOf(row) === runOf(payload) && !ended.has(row.state._tag))
        )
      )
      const found = yield* live
      if (Option.isNone(found)) return
      const { id, generation, started } = found.value
      // Before the first step: a cancellation from here on reaches this run, and an earlier one has ended the task.
      const claimed = yield* store.claim(id, generation, worker.boot)
      if (Option.isNone(claimed)) return
      const row = claimed.value
      const control = new Control(row, worker.boot)
      running.set(row.id, control)
      yield* Effect.ensuring(
        Effect.catchCause(run(worker, payload, row, control, started), (cause) =>
          // A mistake beside the run: the task must not stay open with nothing that runs it.
          Cause.hasInterruptsOnly(cause)
            ? Effect.failCause(cause)
            : finish(worker, row, control, Exit.failCause(cause))
        ),
        Effect.suspend(() => {
          if (running.get(row.id) === control) running.delete(row.id)
          // Each that runs has none behind it.
          return running.size === worker.concurrency ? worker.nudge : Effect.void
        })
      )
    })

const run = (worker: WorkerCore, payload: Payload, row: Row, control: Control, isReplay: boolean) =>
  Effect.gen(function* () {
    const engine = yield* Effect.context<WorkflowEngine | WorkflowInstance>()
    /** Ends a wait for the agent or for a permit. */
    const called = Effect.raceFirst(
      Effect.as(control.cancelled, "cancelled" as const),
      Effect.as(worker.draining, "draining" as const)
    )
    const definition = yield* Effect.raceFirst(
      definitionOf(worker, payload, control),
      // Agents are registered after the worker has started. Without its agent a task cannot keep its conversation.
      Effect.tap(called, (why) => (why === "cancelled" ? Effect.sleep(grace) : Effect.void))
    )
    if (definition === "draining") return yield* parked(worker, control, payload)
    if (definition === "cancelled") return yield* finish(worker, row, control, undefined)
    if (row.state._tag === "WaitingForWorker" || control.report !== undefined) {
      // From now on the task waits for a permit.
      control.says({ _tag: "Queued", position: 0 }, yield* Clock.currentTimeMillis)
    }
    const read = Effect.gen(function* () {
      const intents = isReplay ? yield* worker.store.intents(row.id) : []
      const stored: Steps = isReplay ? yield* worker.store.steps(row.id, row.generation) : new Map()
      return { intents, stored }
    })
    const { params, history } = row
    const carriedOut = (trial: Trial.Trial, known: Effect.Success<typeof read>) => {
      const steps = TaskSteps.make({ worker, row, control, definition, engine, trial, ...known })
      return definition.run({ params, history, steps, cancel: control.cancelled })
    }
    // A wait ends only until the task begins.
    let hasBegun = false
    let end = yield* Effect.raceFirst(
      Effect.gen(function* () {
        const { trial, known } = yield* Trial.begin(worker, row, read)
        hasBegun = true
        return yield* carriedOut(trial, known)
      }).pipe(Effect.scoped, Effect.exit, Semaphore.withPermits(worker.permits, 1)),
      Effect.flatMap(called, (why) => (hasBegun ? Effect.never : Effect.succeed(why)))
    )
    if (end === "draining") return yield* parked(worker, control, payload)
    // A cancelled run carries out nothing new, so it needs no permit. What it had done is replayed: a `resume` goes on
    // from there.
    if (end === "cancelled") {
      end = yield* Effect.exit(
        Effect.flatMap(read, (known) => carriedOut(new Trial.Trial(worker, control.run), known))
      )
    }
    // A suspension, or a lost lease: the task goes on later, here or elsewhere.
    if (wasInterrupted(end)) return yield* Effect.failCause(end.cause)
    if (cannotReplay(end)) return yield* refuse(worker, control, payload)
    yield* finish(worker, row, control, end)
  })

/** The agent of a task. Waits, in memory, until it is registered here, or another worker takes the task over. */
const definitionOf = (worker: WorkerCore, payload: Payload, control: Control): Effect.Effect<Definition> =>
  Effect.gen(function* () {
    const isKnown = payload.body === bodyVersion
    const needs = isKnown ? agentOf(payload) : `${agentOf(payload)} (body ${payload.body} of @outlast/tasks)`
    const since = yield* Clock.currentTimeMillis
    while (true) {
      const definition = isKnown ? worker.definitionOf(payload) : undefined
      if (definition !== undefined) return definition
      const now = yield* Clock.currentTimeMillis
      if (now - since >= grace && control.report === undefined) control.says(waitingFor(needs), since)
      yield* Effect.sleep("250 millis")
    }
  })

/** The stored steps are from a version that decided or wrote otherwise. */
const cannotReplay = (end: End): boolean =>
  Exit.isFailure(end) &&
  end.cause.reasons.some(
    (reason) =>
      Cause.isDieReason(reason) &&
      (reason.defect instanceof RunState.UnexpectedEvent || reason.defect instanceof UnreadableStep)
  )

/** An interruption is no outcome of the task, and has no error. */
const wasInterrupted = (end: End): end is Exit.Failure<never, never> =>
  Exit.isFailure(end) && Cause.hasInterruptsOnly(end.cause)

/** Leaves the task to a worker that can replay it. */
const refuse = (worker: WorkerCore, control: Control, payload: Payload) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const needs = `${agentOf(payload)} (a version that can replay its stored steps)`
    control.says(waitingFor(needs), now)
    yield* worker.draining
    yield* parked(worker, control, payload)
  })

/** Reads the row again until this version can read its state. Nothing changes a row that a newer version has written. */
const readable = <A extends Pick<Row, "id" | "state">>(live: Effect.Effect<Option.Option<A>>) =>
  Effect.gen(function* () {
    let hasSaid = false
    while (true) {
      const found = yield* live
      if (Option.isNone(found) || found.value.state._tag !== "Unreadable") return found
      if (!hasSaid) {
        yield* Effect.logWarning(
          `Tasks: this version cannot read the row of task ${found.value.id}. A newer version may have written it: the task waits for a worker of that version.`
        )
      }
      hasSaid = true
      yield* Effect.sleep("10 seconds")
    }
  })

/** Hands the task back: a worker that starts resumes it. */
const parked = (worker: WorkerCore, control: Control, payload: Payload) =>
  Effect.gen(function* () {
    control.silent()
    yield* worker.store.park(control.run, waitingFor(agentOf(payload)))
    return yield* Workflow.suspend(yield* WorkflowInstance)
  })

// -----------------------------------------------------------------------------
// The end
// -----------------------------------------------------------------------------

const finish = (worker: WorkerCore, row: Row, control: Control, end: End | undefined) =>
  Effect.gen(function* () {
    const at = yield* Clock.currentTimeMillis
    const { cancelBy = "" } = control
    const ending = yield* endOf(row, cancelBy, end)
    const { result, costUsd } = ending
    const unknown = [...control.unknown.values()]
    const state = unknown.length === 0 ? ending.state : { ...ending.state, unknown }
    control.silent()
    const { id } = row
    const isStored = yield* worker.store.finish({
      ...control.run,
      state,
      result: Schema.encodeSync(resultJson)(result),
      costUsd,
      at
    })
    if (!isStored) return yield* lost(worker, control.run, waitingFor(agentOf(row)))
    worker.ends.said(id)
    yield* ResilienceEvents.publishNow<TaskEvent>({
      _tag: "TaskEnded",
      task: row.task,
      state: state._tag,
      restarts: control.restarts
    })
    if (result._tag === "Ended") yield* worker.parts.emit(id, { type: "outcome", outcome: result.outcome })
  })

interface Ended {
  readonly state: Extract<TaskState, { readonly _tag: "Done" | "Failed" | "Cancelled" }>
  readonly result: TaskResult
  readonly costUsd: number | undefined
}

const endOf = (row: Row, by: string, end: End | undefined): Effect.Effect<Ended> =>
  Effect.gen(function* () {
    if (end !== undefined && Exit.isSuccess(end)) {
      const outcome = end.value
      const { status, costUsd } = outcome
      const state: Ended["state"] =
        status === "cancelled" ? { _tag: "Cancelled", by } : { _tag: "Done", status }
      return { state, result: { _tag: "Ended", outcome }, costUsd }
    }
    if (end === undefined) {
      const transcript = new Transcript.Transcript(yield* historyOf(row))
      return {
        state: { _tag: "Cancelled", by },
        result: {
          _tag: "Failed",
          failure: new TaskFailed({ task: row.id, reason: abandoned(by), transcript })
        },
        costUsd: undefined
      }
    }
    const transcript = Option.getOrUndefined(AgentFailed.transcriptOf(end.cause))
    const reason = reasonOf(end.cause)
    const failure = new TaskFailed({
      task: row.id,
      reason,
      transcript: transcript ?? new Transcript.Transcript(yield* historyOf(row))
    })
    return {
      state: { _tag: "Failed", reason: kindOf(reason), message: reason.message.slice(0, maxMessage) },
      result: { _tag: "Failed", failure },
      costUsd: undefined
    }
  })

const abandoned = (by: string): FailReason => ({
  _tag: "Abandoned",
  message: `It was cancelled by ${by} while no worker had its agent, so what it had done is not known. It cannot be resumed.`
})

/** The result of a task that was cancelled before it began. */
export const cancelledResult = (task: string, by: string, transcript: Transcript.Transcript): TaskResult => ({
  _tag: "Failed",
  failure: new TaskFailed({
    task,
    reason: { _tag: "Cancelled", message: `It was cancelled by ${by} before it ran.` },
    transcript
  })
})

/** The conversation that a generation begins with; empty where the parameters make it. */
const historyOf = ({ history }: Row): Effect.Effect<Prompt.Prompt> =>
  history === undefined
    ? Effect.succeed(Prompt.empty)
    : Effect.orDie(Schema.decodeUnknownEffect(promptJson)(history))

/** Characters of a failure in a status. */
const maxMessage = 2_000

const kindOf = (reason: FailReason): string =>
  reason._tag === "ProviderFailure" ? reason.reason._tag : reason._tag

const reasonOf = (cause: Cause.Cause<AgentFailed.AgentFailed | StepEnded>): FailReason => {
  const failure = cause.reasons.find(Cause.isFailReason)
  if (failure !== undefined) return failure.error.reason
  const defect = Cause.squash(cause)
  const message = defect instanceof Error ? `${defect.name}: ${defect.message}` : String(defect)
  return { _tag: "Defect", message: message.slice(0, maxMessage) }
}
