/** Carries out the steps of a task: each runs until its reply is stored, and a replay gets the stored reply. */
import { Cause, Effect, Exit } from "effect"
import { Prompt, Tool } from "effect/ai"
import type { RunEvent, Steps } from "@outlast/agent/loop"
import { ResilienceEvents } from "@outlast/resilience"
import * as Journal from "../journal/Journal.ts"
import type { FailReason } from "../state/TaskState.ts"
import type { TaskEvent } from "../telemetry/TaskEvent.ts"
import type { Control } from "./Control.ts"
import { StepEnded } from "./Definition.ts"
import type { Options } from "./Execution.ts"
import * as Execution from "./Execution.ts"
import { settled } from "./JournaledSteps.ts"
import type { Reply } from "../workflow/Reply.ts"
import { eventJson } from "../workflow/Reply.ts"
import { Restarting } from "./Restarting.ts"
import { killed } from "./Trial.ts"
import { retrying } from "./Retrying.ts"

/** The steps of one execution. */
export const make = (options: Options): Steps.Steps<StepEnded> => {
  const { worker, row, control, definition, trial } = options
  const { id } = row
  const execution = Execution.make(options)
  const { recorded, running, says, waitForPerson } = execution
  const restarting = new Restarting(execution)

  /** A provider that runs tools itself may change something: then the question is an effect. */
  const askIsOnce = definition.tools.some(
    (tool) => Tool.isProviderDefined(tool) && !tool.requiresHandler && Journal.kindOf(tool) !== "none"
  )

  const asked = <R>({ name, turn }: Steps.Step, run: Effect.Effect<RunEvent.RunEvent, never, R>) =>
    Effect.flatMap(
      settled(
        execution,
        {
          name,
          turn,
          call: { id: name, tool: "ask", params: {} },
          tool: undefined,
          kind: askIsOnce ? "once" : "none",
          happened: lost
        },
        Effect.map(run, (event): Reply => ({ _tag: "Event", event }))
      ),
      eventOf
    )

  return {
    event: (step, run) =>
      Effect.gen(function* () {
        if (step.name === trial.condemned && step.kind !== "ask") {
          return yield* Effect.fail(
            new StepEnded({ reason: killed(trial.deaths, step.name, `The step ${step.kind}`) })
          )
        }
        // Without a beginning there is nothing to cancel.
        if (step.kind === "start") {
          const started = ResilienceEvents.publishNow<TaskEvent>({ _tag: "TaskStarted", task: row.task })
          return yield* recorded(step.name, eventJson, Effect.andThen(started, run))
        }
        yield* running(step.turn)
        if (step.kind !== "ask") {
          return yield* recorded(step.name, eventJson, unlessCancelled(control, run))
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
          const next = yield* restarting.after(event.reason, step.turn)
          if (next === "no") return event
          if (next === "cancelled") return { _tag: "Interrupted" }
          name = `${step.name}/restart/${restarting.count}`
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
        const reply = yield* settled(execution, { name, turn, call, tool, kind, happened }, own)
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

const eventOf = (reply: Reply): Effect.Effect<RunEvent.RunEvent, StepEnded> => {
  if (reply._tag === "Event") return Effect.succeed(reply.event)
  if (reply._tag === "Failed") return Effect.fail(new StepEnded({ reason: reply.reason }))
  return Effect.succeed({ _tag: "Interrupted" })
}

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
