/**
 * Steps that may change something outside. The journal records each one, until its outcome is known.
 *
 * A record in the journal counts with the safer of two declarations: the one under which the effect began, and the
 * tool's own now. So a worker whose tools have changed repeats nothing.
 */
import { Cause, Clock, Effect, Option } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import type { Tool } from "effect/ai"
import * as Journal from "../journal/Journal.ts"
import * as JournalState from "../journal/JournalState.ts"
import type { TaskEvent } from "../telemetry/TaskEvent.ts"
import type { EffectRecord } from "../state/TaskState.ts"
import type { Row } from "../store/TaskStore.ts"
import type { Execution } from "./Execution.ts"
import { killed } from "./Trial.ts"
import type { WorkerCore } from "./WorkerCore.ts"
import type { Reply } from "../workflow/Reply.ts"
import { isCutOff, replyJson } from "../workflow/Reply.ts"
import { runOf } from "../workflow/TaskWorkflow.ts"

/** A step that may have an effect. */
export interface JournaledStep {
  readonly name: string
  readonly turn: number
  readonly call: { readonly id: string; readonly tool: string; readonly params: unknown }
  /** Absent for a tool that the toolkit does not have. */
  readonly tool: Tool.Any | undefined
  /** The kind that is declared now. */
  readonly kind: JournalState.Effects
  /** The reply of a step that has happened, with what a person or the other side says about it. */
  readonly happened: (result: unknown) => Reply
}

/** The reply of a step that was cancelled before it began. */
const cancelledReply: Reply = { _tag: "Tool", step: { _tag: "Cancelled" } }

/** Runs the step, or returns its stored reply. An effect in doubt waits for a person. */
export const settled = <R>(
  execution: Execution,
  step: JournaledStep,
  run: Effect.Effect<Reply, never, R>
): Effect.Effect<Reply, never, R> =>
  Effect.gen(function* () {
    const { recorded, control, intents, row, trial, waitForPerson, worker } = execution
    const key = `${runOf(row)}/${step.name}`
    const began = intents.find((intent) => intent.key === key)
    const kind = JournalState.safer(step.kind, step.tool === undefined, began)
    let name = step.name
    for (let n = 1; ; n++) {
      const own =
        name === trial.condemned
          ? condemned(execution, step, name, n, began)
          : kind === "none"
            ? run
            : journaled(execution, { ...step, kind }, n, run)
      const reply = yield* recorded(name, replyJson, own)
      worker.handlers.forget(`${key}/${n}`)
      control.unknown.delete(key)
      if (reply._tag !== "InDoubt") {
        if ("unknown" in reply && reply.unknown !== undefined) control.unknown.set(key, reply.unknown)
        return reply
      }
      const { effect } = reply
      const wake = yield* waitForPerson(
        `${name}/doubt`,
        { _tag: "InDoubt", effect },
        ResilienceEvents.publishNow<TaskEvent>({ _tag: "TaskInDoubt", task: row.task, tool: effect.tool })
      )
      if (wake._tag !== "Decided") {
        if (kind === "once") control.unknown.set(key, effect)
        return cancelledReply
      }
      if (wake.verdict._tag === "Happened") return step.happened(wake.verdict.result)
      name = `${step.name}/again/${n}`
    }
  })

/** The reply of a step that has killed its process, and does not run again by itself. */
const condemned = (
  { definition, row, trial, worker }: Execution,
  step: JournaledStep,
  /** The step of this attempt. */
  name: string,
  attempt: number,
  began: EffectRecord | undefined
): Effect.Effect<Reply> =>
  Effect.map(Clock.currentTimeMillis, (at) => {
    const { deaths } = trial
    const { tool } = step.call
    if (definition.killed === "ask") {
      const record = began ?? recordOf(row, worker, step, attempt, at)
      return { _tag: "InDoubt", effect: { ...record, attempt, deaths } }
    }
    const what = tool === "ask" ? "The question to the model" : `The tool ${tool}`
    const unknown = began?.kind === "idempotent" ? undefined : began
    return {
      _tag: "Failed",
      reason: killed(deaths, name, what),
      ...(unknown === undefined ? {} : { unknown })
    }
  })

const recordOf = (
  row: Row,
  worker: WorkerCore,
  { call, name, turn }: JournaledStep,
  attempt: number,
  at: number
): EffectRecord => ({
  key: `${runOf(row)}/${name}`,
  task: row.id,
  generation: row.generation,
  tool: call.tool,
  turn,
  callId: call.id,
  params: call.params,
  attempt,
  holder: worker.name,
  boot: worker.boot,
  at
})

/** Runs a handler under the journal. A person has decided about the attempts before this one. */
const journaled = <R>(
  { control, isLost, row, worker }: Execution,
  step: JournaledStep & { readonly kind: "idempotent" | "once" },
  attempt: number,
  run: Effect.Effect<Reply, never, R>
): Effect.Effect<Reply, never, R> =>
  Effect.gen(function* () {
    const { happened, kind, name, tool } = step
    const { boot, handlers, holders, store } = worker
    const ask = Journal.askOf(tool)
    const key = `${runOf(row)}/${name}`
    const handlerKey = `${key}/${attempt}`
    const joined = handlers.get(handlerKey)
    if (joined !== undefined) return yield* joined
    const at = yield* Clock.currentTimeMillis
    const record: EffectRecord = { ...recordOf(row, worker, step, attempt, at), kind }
    const found = yield* store.intend(record)
    if ("_tag" in found && found._tag === "Lost") return yield* isLost
    if (Option.isSome(found) && found.value.attempt === attempt && holders !== undefined) {
      const reply = yield* holders.replyOf(found.value, boot)
      if (Option.isSome(reply)) return reply.value
    }
    const { hasForgotten } = handlers
    const known = JournalState.knownOf(Option.getOrUndefined(found), { attempt, boot, hasForgotten })
    let decision = JournalState.decide(kind, known, ask !== undefined)
    if (decision._tag === "Ask" && ask !== undefined) {
      const answer = yield* answerOf(ask, decision.record)
      if (answer._tag === "Happened") return happened(answer.result)
      decision = JournalState.reconciled(answer._tag, decision.record)
    }
    if (decision._tag !== "Run") return { _tag: "InDoubt", effect: decision.record }
    // Nothing begins any more, so nothing is in doubt.
    if (control.cancelBy !== undefined) return cancelledReply
    if (decision.takesOver && !(yield* store.takeOver(record))) return yield* isLost
    const handler = Effect.gen(function* () {
      const reply = yield* Effect.provideService(run, Journal.CurrentEffect, { key })
      if (kind === "once" && isCutOff(reply)) return { ...reply, unknown: record }
      const isLate = reply._tag === "Tool" && reply.step._tag === "Ran" && reply.step.timedOut === true
      if (!isLate || kind === "idempotent") return reply
      const answer: Journal.Reconciled<unknown> =
        ask === undefined ? { _tag: "Unknown" } : yield* answerOf(ask, record)
      if (answer._tag === "Happened") return happened(answer.result)
      // The effect did not happen: the model reads that the time was up.
      return answer._tag === "DidNot" ? reply : { _tag: "InDoubt" as const, effect: record }
    })
    if (kind === "once") control.unknown.set(key, record)
    return yield* handlers.start({ key: handlerKey, task: row.id }, handler)
  })

/** Asks the other side about an effect. A `reconcile` that dies answers `Unknown`. */
const answerOf = (
  ask: NonNullable<ReturnType<typeof Journal.askOf>>,
  record: EffectRecord
): Effect.Effect<Journal.Reconciled<unknown>> =>
  Effect.catchCause(ask(record), (cause) =>
    Cause.hasInterruptsOnly(cause)
      ? Effect.failCause(cause)
      : Effect.as(
          Effect.logWarning(
            `Journal: reconcile of ${record.tool} died, so the effect stays in doubt.`,
            cause
          ),
          { _tag: "Unknown" }
        )
  )
