/** An agent that a worker can run, with its types erased: `Task` has them. */
import { Schema } from "effect"
import type { Effect } from "effect"
import type { Tool } from "effect/ai"
import type { AgentFailed, Outcome } from "@outlast/agent"
import type { Steps } from "@outlast/agent/loop"
import type { Policy } from "../restart/Restart.ts"
import { FailReason } from "../state/TaskState.ts"

/** Ends the run from within a step. */
export class StepEnded extends Schema.TaggedError<StepEnded>("@outlast/tasks/worker/StepEnded")("StepEnded", {
  reason: FailReason
}) {}

/** What becomes of a task whose step kills its process: it fails, or a person decides. */
export type Killed = "fail" | "ask"

export interface Definition {
  readonly task: string
  readonly version: number
  readonly restarts: Policy
  readonly killed: Killed
  readonly tools: ReadonlyArray<Tool.Any>
  readonly run: (options: {
    /** JSON. */
    readonly params: string
    readonly history: string | undefined
    readonly steps: Steps.Steps<StepEnded>
    readonly cancel: Effect.Effect<void>
  }) => Effect.Effect<Outcome.Outcome, AgentFailed.AgentFailed | StepEnded>
}
