/**
 * The condition of a task, for people and programs: the state, its status, and the error of a task that failed.
 *
 * Times are Unix milliseconds, durations milliseconds. No text of the conversation is in a status; the parameters of a
 * call that waits for a person are.
 */
import { Schema } from "effect"
import { Prompt } from "effect/ai"
import { AgentFailed, Outcome, Transcript } from "@outlast/agent"
import { ErrorText, StoreError } from "@outlast/resilience"

/** A call of a tool that changes something outside, as the journal knows it. */
export const EffectRecord = Schema.Struct({
  /** The idempotency key that the handler gets. */
  key: Schema.String,
  task: Schema.String,
  generation: Schema.Int,
  tool: Schema.String,
  /** The declaration under which it began; absent in records of before, which count as `once`. */
  kind: Schema.optional(Schema.Literals(["idempotent", "once"])),
  turn: Schema.Finite,
  callId: Schema.String,
  params: Schema.Unknown,
  /** Counts from 1, and grows when a person decides that it has not happened. */
  attempt: Schema.Int,
  /** The worker that has begun it, and the start of its process. */
  holder: Schema.String,
  boot: Schema.String,
  at: Schema.Finite,
  /** Processes that died in it, where that is why a person is asked. */
  deaths: Schema.optional(Schema.Int)
})
export type EffectRecord = typeof EffectRecord.Type

/** A call that waits for approval. */
export const WaitingCall = Schema.Struct({ id: Schema.String, tool: Schema.String, params: Schema.Unknown })
export type WaitingCall = typeof WaitingCall.Type

/**
 * Effects that had begun when the task ended, and whose replies are lost: whether they have happened is not known. Absent
 * when there are none.
 */
const unknown = { unknown: Schema.optional(Schema.Array(EffectRecord)) }

export const TaskState = Schema.Union([
  /** No worker has begun it. `position` counts from 1. */
  Schema.TaggedStruct("Queued", { position: Schema.Finite }),
  Schema.TaggedStruct("Running", { turn: Schema.Finite, worker: Schema.String }),
  /** A call waits before its next attempt. */
  Schema.TaggedStruct("Retrying", {
    attempt: Schema.Finite,
    reason: Schema.String,
    /** Milliseconds; absent when the wait has no known end. */
    nextIn: Schema.optional(Schema.Finite),
    turn: Schema.Finite,
    worker: Schema.String
  }),
  /** The task restarts at `until`. */
  Schema.TaggedStruct("WaitingUntil", {
    until: Schema.Finite,
    restart: Schema.Finite,
    of: Schema.Finite,
    reason: Schema.String
  }),
  /** `needs` is what no worker has: `triage@3`. */
  Schema.TaggedStruct("WaitingForWorker", { needs: Schema.String }),
  /**
   * The store is away, full, locked or read-only: no step that ends can be stored, and none begins. A call or a tool
   * that is under way goes on. Only the process of the task's worker shows this state, which is never stored.
   */
  Schema.TaggedStruct("WaitingForStore", { reason: Schema.Literals(StoreError.reasons) }),
  /** `decide` continues it. */
  Schema.TaggedStruct("WaitingForApproval", { calls: Schema.Array(WaitingCall) }),
  /** The outcome of an effect is not known. `decide` continues the task. */
  Schema.TaggedStruct("InDoubt", { effect: EffectRecord }),
  Schema.TaggedStruct("Done", { status: Outcome.Outcome.fields.status, ...unknown }),
  Schema.TaggedStruct("Failed", { reason: Schema.String, message: Schema.String, ...unknown }),
  Schema.TaggedStruct("Cancelled", { by: Schema.String, ...unknown })
])
export type TaskState = typeof TaskState.Type

export type StateTag = TaskState["_tag"]

/** A state that this version cannot read: a newer one has stored it under this tag. It is never stored. */
export interface Unreadable {
  readonly _tag: "Unreadable"
  readonly tag: string
}

/** States that a task does not leave, except by `resume`. */
export const ended: ReadonlySet<StateTag | "Unreadable"> = new Set<StateTag>(["Done", "Failed", "Cancelled"])

/**
 * Identifies the decision that a task waits for; `undefined` where it waits for none. An effect in doubt has its key,
 * with the number of the attempt behind a `#` from the second on. An approval has the ids of its calls.
 */
export const decisionKey = (state: TaskState | Unreadable): string | undefined => {
  switch (state._tag) {
    case "InDoubt": {
      const { key, attempt } = state.effect
      return attempt === 1 ? key : `${key}#${attempt}`
    }
    case "WaitingForApproval":
      return state.calls.map(({ id }) => id).join(",")
    default:
      return undefined
  }
}

export interface TaskStatus {
  readonly id: string
  readonly task: string
  readonly version: number
  /** Counts from 1, and grows with each `resume`. */
  readonly generation: number
  readonly state: TaskState | Unreadable
  /** Time at which the state began, and at which the task was submitted. */
  readonly since: number
  readonly submittedAt: number
  /** Restarts so far. */
  readonly restarts: number
  /** Deaths of its process since its last recorded step. From the second on it begins alone in its worker. */
  readonly deaths: number
  /** US dollars; absent before the end, and when no price is known. */
  readonly costUsd: number | undefined
}

/** The reason of a failed task. */
export const FailReason = Schema.Union([
  AgentFailed.Reason,
  /** A tool failed with a failure that it declares, or with a defect. */
  Schema.TaggedStruct("ToolFailed", { tool: Schema.String, message: Schema.String }),
  /** A mistake in the program, or in data that it read. */
  Schema.TaggedStruct("Defect", { message: Schema.String }),
  /** A person has decided that a call has happened whose answer is lost. */
  Schema.TaggedStruct("AnswerLost", { message: Schema.String }),
  /** A step ended its process again and again, at last with nothing beside it. */
  Schema.TaggedStruct("KilledItsProcess", {
    /** Name of the step. Absent where the process died before its next step began: it cannot be resumed. */
    step: Schema.optional(Schema.String),
    deaths: Schema.Int,
    message: Schema.String
  }),
  Schema.TaggedStruct("Cancelled", { message: Schema.String }),
  /** The task was cancelled after it began, while no worker had its agent: its conversation is not known. */
  Schema.TaggedStruct("Abandoned", { message: Schema.String })
])
export type FailReason = typeof FailReason.Type

/** True where the conversation of the task is not known: from the beginning, it would do again what it has done. */
export const isWithoutConversation = (reason: FailReason): boolean =>
  reason._tag === "Abandoned" || (reason._tag === "KilledItsProcess" && reason.step === undefined)

export class TaskFailed extends Schema.TaggedError<TaskFailed>("@outlast/tasks/TaskFailed")("TaskFailed", {
  task: Schema.String,
  reason: FailReason,
  /** The conversation so far. `Tasks.resume` continues with it. */
  transcript: Transcript.schema
}) {
  override get message(): string {
    const next =
      this.reason._tag === "Cancelled" || isWithoutConversation(this.reason)
        ? ""
        : " `Tasks.resume` continues it from its conversation."
    return `Task \`${this.task}\` failed. ${this.reason.message}${next}`
  }

  /** The form for loggers, without the conversation. */
  override toJSON(): unknown {
    const { _tag, message, task, reason } = this
    return { _tag, message, task, reason }
  }
}

ErrorText.printedOnce(TaskFailed)

/** How a task ended: what is stored. */
export const TaskResult = Schema.Union([
  Schema.TaggedStruct("Ended", { outcome: Outcome.Outcome }),
  Schema.TaggedStruct("Failed", { failure: TaskFailed })
])
export type TaskResult = typeof TaskResult.Type

/** The codecs of what is stored as text. */
export const stateJson = Schema.fromJsonString(Schema.toCodecJson(TaskState))
export const resultJson = Schema.fromJsonString(Schema.toCodecJson(TaskResult))
export const promptJson = Schema.fromJsonString(Schema.toCodecJson(Prompt.Prompt))

/** A person's decision about a task that waits. */
export const Verdict = Schema.Union([
  /** The effect has happened. `result` is what the tool would have returned, in its encoded form. */
  Schema.TaggedStruct("Happened", { result: Schema.optional(Schema.Unknown) }),
  /** The effect has not happened, and cannot happen any more: it is carried out now. */
  Schema.TaggedStruct("DidNot", {}),
  /** One decision for each call that waits for approval, in order; a missing one rejects. */
  Schema.TaggedStruct("Approved", { decisions: Schema.Array(Schema.Boolean) })
])
export type Verdict = typeof Verdict.Type

export const verdictJson = Schema.fromJsonString(Schema.toCodecJson(Verdict))
