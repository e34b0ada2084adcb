/**
 * Carries out the steps of a task as activities of the engine: each runs until its reply is stored, and a replay gets the
 * stored reply.
 *
 * Waits are durable. A restart waits for its time, a call in doubt and an approval wait for a person. A wait above a
 * minute, and one for a person, suspends the task: nothing of it stays in memory.
 */
import { Cause, Clock, Effect, Exit, Option, Random, Schedule, Schema, Semaphore } from "effect"
import type { Context } from "effect"
import { Prompt, Tool } from "effect/ai"
import { Activity, DurableDeferred, Workflow } from "effect/workflow"
import { WorkflowInstance } from "effect/workflow/WorkflowEngine"
import type { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import type { AgentFailed } from "@outlast/agent"
import { RunEvent } from "@outlast/agent/loop"
import { ResilienceEvents } from "@outlast/resilience"
import type { Steps } from "@outlast/agent/loop"
import * as Journal from "../journal/Journal.ts"
import * as JournalState from "../journal/JournalState.ts"
import * as Restart from "../restart/Restart.ts"
import { kept } from "../store/Kept.ts"
import type { Replies } from "../store/EngineRows.ts"
import type { Row } from "../store/TaskStore.ts"
import type { TaskEvent } from "../telemetry/TaskEvent.ts"
import type { EffectRecord, FailReason, TaskState } from "../TaskState.ts"
import type { Control } from "./Control.ts"
import type { Definition } from "./Definition.ts"
import { StepEnded } from "./Definition.ts"
import { isCutOff, Reply } from "./Reply.ts"
import { retrying } from "./Retrying.ts"
import { deferred, runOf, Wake } from "./TaskWorkflow.ts"
import type { WorkerCore } from "./WorkerCore.ts"

const Waiting = Schema.Union([
  Schema.TaggedStruct("Until", { until: Schema.Finite }),
  /** Too many tasks wait for a restart. */
  Schema.TaggedStruct("Full", {})
])

const AskDecision = Schema.Struct({ restart: Schema.Finite, wait: Schema.Finite })

/** A result that was read at once. One that does not decode is left to the engine. */
const storedIn = <A>(stored: Replies, name: string, success: Schema.Codec<A, unknown>): Option.Option<A> => {
  if (!stored.has(name)) return Option.none()
  const value = stored.get(name)
  stored.delete(name)
  return Schema.decodeUnknownOption(Schema.toCodecJson(success))(value)
}

/** Waits up to this many milliseconds stay in memory. */
const inMemory = 60_000

type Engine = WorkflowEngine | WorkflowInstance

/** The steps of one execution. */
export const make = (
  worker: WorkerCore,
  row: Row,
  control: Control,
  definition: Definition,
  engine: Context.Context<Engine>,
  /** Results that the engine has stored, read at once. Each is used once. */
  stored: Replies
): Steps.Steps<StepEnded> => {
  const { store } = worker
  const { id, generation } = row
  /** One wait at a time: a row has one. */
  const waits = Semaphore.makeUnsafe(1)
  const instance = Effect.provideContext(WorkflowInstance, engine)
  let restarts = 0

  const activity = <A, R>(
    name: string,
    success: Schema.Codec<A, unknown>,
    execute: Effect.Effect<A, never, R>
  ): Effect.Effect<A, never, R> =>
    Effect.andThen(
      boundary,
      Effect.suspend(() => {
        const known = storedIn(stored, name, success)
        if (Option.isSome(known)) return Effect.succeed(known.value)
        return Effect.provideContext(
          Activity.make({ name, success, execute, interruptRetryPolicy: Schedule.recurs(0) }),
          engine
        )
      })
      // The schemas need no services, and the engine is provided: what is left is that of `execute`.
    ) as Effect.Effect<A, never, R>

  /** A worker that stops begins no further step. The task goes on where a worker resumes it. */
  const boundary = Effect.suspend(() => (worker.isDraining() ? parked : Effect.void))
  const parked = Effect.gen(function* () {
    control.silent()
    yield* kept(store.park(id, generation))
    const own = yield* instance
    // Waits for the steps that are under way.
    yield* Effect.provideContext(
      Workflow.wrapActivityResult(Effect.succeed(true), () => true),
      engine
    )
    return yield* Workflow.suspend(own)
  })

  const says = (state: TaskState) => Effect.map(Clock.currentTimeMillis, (now) => control.says(state, now))
  const running = (turn: number) => says({ _tag: "Running", turn, worker: worker.name })
  const publish = ResilienceEvents.publishNow<TaskEvent>

  /** Waits until a person, the clock or a cancellation ends the wait. The row says what it waits for. */
  const waitFor = (name: string, begin: Effect.Effect<void>): Effect.Effect<Wake> =>
    Semaphore.withPermits(
      waits,
      1,
      Effect.gen(function* () {
        yield* activity(
          `wait/${name}`,
          Schema.Void,
          Effect.andThen(
            Effect.sync(() => control.silent()),
            begin
          )
        )
        return yield* Effect.provideContext(DurableDeferred.await(deferred(name)), engine)
      })
    )

  const waitForPerson = (
    name: string,
    state: TaskState,
    said: Effect.Effect<void> = Effect.void
  ): Effect.Effect<Wake> =>
    waitFor(
      name,
      Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        yield* kept(store.wait({ id, generation, name, state, at }))
        yield* said
      })
    )

  // ---------------------------------------------------------------------------
  // Effects
  // ---------------------------------------------------------------------------

  /** Runs a handler under the journal. A person has decided about the attempts before this one. */
  const journaled = <R>(
    effect: {
      readonly name: string
      readonly turn: number
      readonly call: { readonly id: string; readonly tool: string; readonly params: unknown }
      readonly kind: "idempotent" | "once"
      readonly ask: ReturnType<typeof Journal.askOf>
    },
    attempt: number,
    happened: (result: unknown) => Reply,
    run: Effect.Effect<Reply, never, R>
  ): Effect.Effect<Reply, never, R> =>
    Effect.gen(function* () {
      const { name, turn, call, kind, ask } = effect
      const key = `${runOf(row)}/${name}`
      const handlerKey = `${key}/${attempt}`
      const joined = worker.handlers.get(handlerKey)
      if (joined !== undefined) return yield* joined
      const at = yield* Clock.currentTimeMillis
      const { boot } = worker
      const record: EffectRecord = {
        key,
        task: id,
        generation,
        tool: call.tool,
        turn,
        callId: call.id,
        params: call.params,
        attempt,
        holder: worker.name,
        boot,
        at
      }
      const found = yield* kept(store.intend(record))
      if (Option.isSome(found) && found.value.attempt === attempt && worker.holders !== undefined) {
        const reply = yield* worker.holders.replyOf(found.value, boot)
        if (Option.isSome(reply)) return reply.value
      }
      const { hasForgotten } = worker.handlers
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
      if (decision.takesOver) yield* kept(store.takeOver(record))
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
      return yield* worker.handlers.start({ key: handlerKey, task: id }, handler)
    })

  /** A step with an effect, until its outcome is known. */
  const settled = <R>(
    step: { readonly name: string; readonly turn: number; readonly tool: string },
    carryOut: (attempt: number) => Effect.Effect<Reply, never, R>,
    happened: (result: unknown) => Reply
  ): Effect.Effect<Reply, never, R> =>
    Effect.gen(function* () {
      let name = step.name
      for (let n = 1; ; n++) {
        const reply = yield* activity(name, Reply, carryOut(n))
        const key = `${runOf(row)}/${step.name}`
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
          publish({ _tag: "TaskInDoubt", task: row.task, tool: effect.tool })
        )
        if (wake._tag !== "Decided") {
          control.unknown.set(key, effect)
          return cancelledReply
        }
        if (wake.verdict._tag === "Happened") return happened(wake.verdict.result)
        name = `${step.name}/again/${n}`
      }
    })

  // ---------------------------------------------------------------------------
  // Calls of the model
  // ---------------------------------------------------------------------------

  /** Waits for a restart. `false`: too many tasks wait, or the task was cancelled. */
  const restarted = (reason: AgentFailed.Reason, turn: number) =>
    Effect.gen(function* () {
      if (restarts >= definition.restarts.max || !Restart.mayPass(reason)) return "no" as const
      const n = restarts + 1
      // The draw is stored: a replay waits until the same time.
      const { wait } = yield* activity(
        `restart/${n}/draw`,
        AskDecision,
        Effect.map(Random.next, (draw) => {
          const decision = Restart.decide(definition.restarts, restarts, reason, draw)
          return decision._tag === "Restart"
            ? { restart: decision.restart, wait: decision.wait }
            : { restart: n, wait: 0 }
        })
      )
      const name = `restart/${n}`
      const begun = yield* activity(
        name,
        Waiting,
        Effect.gen(function* () {
          control.silent()
          control.restarts = n
          const at = yield* Clock.currentTimeMillis
          const until = at + wait
          const state: TaskState = {
            _tag: "WaitingUntil",
            until,
            restart: n,
            of: definition.restarts.max,
            reason: Restart.kindOf(reason)
          }
          const asked = { id, generation, name, state, at, dueAt: until, restarts: n }
          if (!(yield* kept(store.waitForRestart(asked, worker.maxRestarting))))
            return { _tag: "Full" } as const
          yield* publish({
            _tag: "TaskRestarting",
            task: row.task,
            restart: n,
            reason: Restart.kindOf(reason),
            delay: wait
          })
          return { _tag: "Until", until } as const
        })
      )
      if (begun._tag === "Full") return "no" as const
      restarts = n
      control.restarts = n
      const wake: Wake =
        wait > inMemory
          ? yield* Effect.provideContext(DurableDeferred.await(deferred(name)), engine)
          : yield* activity(`${name}/sleep`, Wake, asleep(name, begun.until))
      yield* running(turn)
      return wake._tag === "Cancelled" ? ("cancelled" as const) : ("again" as const)
    })

  const asleep = (name: string, until: number): Effect.Effect<Wake> =>
    Effect.gen(function* () {
      const left = Math.max(0, until - (yield* Clock.currentTimeMillis))
      const wake = yield* Effect.raceFirst(
        Effect.as(Effect.sleep(left), { _tag: "Due" } as const),
        Effect.as(control.cancelled, { _tag: "Cancelled" } as const)
      )
      yield* kept(store.woken(id, generation, name))
      return wake
    })

  /** A provider that runs tools itself may change something: then the question is an effect. */
  const askIsOnce = definition.tools.some(
    (tool) => Tool.isProviderDefined(tool) && !tool.requiresHandler && Journal.kindOf(tool) !== "none"
  )

  const asked = <R>(step: Steps.Step, run: Effect.Effect<RunEvent.RunEvent, never, R>) =>
    Effect.gen(function* () {
      const reply = yield* settled(
        { name: step.name, turn: step.turn, tool: "ask" },
        (attempt) => {
          const own = Effect.map(run, (event): Reply => ({ _tag: "Event", event }))
          const call = { id: step.name, tool: "ask", params: {} }
          return askIsOnce
            ? journaled({ ...step, call, kind: "once", ask: undefined }, attempt, lost, own)
            : own
        },
        lost
      )
      return yield* eventOf(reply)
    })

  const eventOf = (reply: Reply): Effect.Effect<RunEvent.RunEvent, StepEnded> => {
    if (reply._tag === "Event") return Effect.succeed(reply.event)
    if (reply._tag === "Failed") return Effect.fail(new StepEnded({ reason: reply.reason }))
    return Effect.succeed({ _tag: "Interrupted" })
  }

  return {
    event: (step, run) =>
      Effect.gen(function* () {
        // Without a beginning there is nothing to cancel.
        if (step.kind === "start") return yield* activity(step.name, RunEvent.RunEvent, run)
        yield* running(step.turn)
        if (step.kind !== "ask") {
          return yield* activity(step.name, RunEvent.RunEvent, unlessCancelled(control, run))
        }
        const asks = worker.parts.answering(id, unlessCancelled(control, run))
        const watched = retrying(asks, (attempt, reason, nextIn) =>
          attempt === undefined
            ? running(step.turn)
            : says({ _tag: "Retrying", attempt, reason, nextIn, turn: step.turn, worker: worker.name })
        )
        let name = step.name
        while (true) {
          const event = yield* asked({ ...step, name }, watched)
          if (event._tag !== "AskFailed") return event
          const next = yield* restarted(event.reason, step.turn)
          if (next === "no") return event
          if (next === "cancelled") return { _tag: "Interrupted" }
          name = `${step.name}/restart/${restarts}`
        }
      }),

    tool: ({ name, turn, call, tool }, run) =>
      Effect.gen(function* () {
        yield* running(turn)
        const own = Effect.map(Effect.exit(unlessStopped(control, run)), (exit): Effect.Effect<Reply> => {
          if (Exit.isSuccess(exit)) return Effect.succeed({ _tag: "Tool", step: exit.value })
          if (Cause.hasInterruptsOnly(exit.cause)) return Effect.failCause(exit.cause as Cause.Cause<never>)
          return Effect.succeed({ _tag: "Failed", reason: toolFailed(call.tool, exit.cause) })
        }).pipe(Effect.flatten)
        const happened = (result: unknown): Reply => ({
          _tag: "Tool",
          step: { _tag: "Ran", result: { part: resultPart(call, result) } }
        })
        const kind = Journal.kindOf(tool)
        const reply = yield* settled(
          { name, turn, tool: call.tool },
          (attempt) =>
            kind === "none"
              ? own
              : journaled({ name, turn, call, kind, ask: Journal.askOf(tool) }, attempt, happened, own),
          happened
        )
        if (reply._tag === "Tool") return reply.step
        if (reply._tag === "Failed") return yield* Effect.fail(new StepEnded({ reason: reply.reason }))
        return { _tag: "Cancelled" } as const
      }),

    approve: (name, calls) =>
      Effect.gen(function* () {
        const wake = yield* waitForPerson(name, { _tag: "WaitingForApproval", calls })
        return wake._tag === "Decided" && wake.verdict._tag === "Approved" ? wake.verdict.decisions : []
      }),

    parts: {
      isWatched: () => worker.parts.isWatched(id),
      emit: (part) => worker.parts.emit(id, part)
    }
  }
}

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

/** A cancelled step does not begin. */
const unlessCancelled = <R>(
  control: Control,
  run: Effect.Effect<RunEvent.RunEvent, never, R>
): Effect.Effect<RunEvent.RunEvent, never, R> =>
  Effect.suspend((): Effect.Effect<RunEvent.RunEvent, never, R> =>
    control.cancelBy === undefined ? run : Effect.succeed({ _tag: "Interrupted" })
  )

const unlessStopped = <E, R>(
  control: Control,
  run: Effect.Effect<Steps.ToolStep, E, R>
): Effect.Effect<Steps.ToolStep, E, R> =>
  Effect.suspend((): Effect.Effect<Steps.ToolStep, E, R> =>
    control.cancelBy === undefined ? run : Effect.succeed({ _tag: "Cancelled" })
  )

const cancelledReply: Reply = { _tag: "Tool", step: { _tag: "Cancelled" } }

/** The call has happened, and its answer is gone with its process. */
const lost = (): Reply => ({
  _tag: "Failed",
  reason: {
    _tag: "AnswerLost",
    message: "The model was asked, and the provider may have run tools, but the answer is lost."
  }
})

const toolFailed = (tool: string, cause: Cause.Cause<unknown>): FailReason => {
  const error = Cause.squash(cause)
  const why = error instanceof Error ? error.message : String(error)
  return { _tag: "ToolFailed", tool, message: `The tool ${tool} ended the run: ${why.slice(0, maxWhy)}` }
}

/** Characters of a tool's own message. */
const maxWhy = 2_000

const resultPart = (
  call: { readonly id: string; readonly tool: string },
  result: unknown
): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", {
    id: call.id,
    name: call.tool,
    isFailure: false,
    result: result ?? null,
    providerExecuted: false
  })
