/**
 * The steps of a durable run: each is carried out once, and its result is stored under its name.
 *
 * `Agent.durable` calls a {@link Steps} for everything that is not a pure fold: the beginning, fits, questions to the
 * model, hooks, approvals, and each tool call. Carried out again from the beginning, a run asks for the same names in
 * the same order. A step whose result is stored returns it, without carrying out anything.
 *
 * **Names.** `start` · `turn/3/fit` · `turn/3/ask` · `turn/3/beforeTool` · `turn/3/approval` · `turn/3/tool/CALL_ID` ·
 * `turn/3/afterTool` · `turn/3/beforeStop`. A second step of the same name in a turn has `/2` behind it.
 */
import { Schema } from "effect"
import type { Effect } from "effect"
import type { Tool } from "effect/ai"
import { Tripped } from "../guard/StopReason.ts"
import type { RunEvent } from "./RunEvent.ts"
import { CallResult, took } from "./RunEvent.ts"
import type { Part } from "./RunPart.ts"
import type { HookPoint } from "./RunSettings.ts"
import type { PendingCall } from "./Suspended.ts"

/** What became of one tool call. */
export const ToolStep = Schema.Union([
  Schema.TaggedStruct("Ran", {
    result: CallResult,
    /** True when the tool's own time limit ended it: what it did is not known. */
    timedOut: Schema.optional(Schema.Boolean),
    ...took
  }),
  /** The run was cancelled while the tool ran. */
  Schema.TaggedStruct("Cancelled", took),
  /** The time limit of the run ended it. */
  Schema.TaggedStruct("Stopped", { tripped: Tripped, ...took })
])
export type ToolStep = typeof ToolStep.Type

/** A step, by its name. */
export interface Step {
  readonly name: string
  /** 0 for the beginning. */
  readonly turn: number
  readonly kind: "start" | "fit" | "ask" | "results" | "approved" | HookPoint
}

/** A tool call that is about to run. */
export interface ToolCall {
  /** Name of the step. */
  readonly name: string
  readonly turn: number
  readonly call: PendingCall
  /** Absent for a tool that the toolkit does not have. */
  readonly tool: Tool.Any | undefined
}

/** Carries out steps. `F` is the failure of a step that ends the run. */
export interface Steps<F> {
  /** Carries out an action, or returns the event that is stored under the name. */
  readonly event: <R>(step: Step, run: Effect.Effect<RunEvent, never, R>) => Effect.Effect<RunEvent, F, R>
  /** Runs a tool call, or returns what is stored under its name. The failure of a tool becomes an `F`. */
  readonly tool: <E, R>(call: ToolCall, run: Effect.Effect<ToolStep, E, R>) => Effect.Effect<ToolStep, F, R>
  /** Returns one decision for each call that needs approval, in order. */
  readonly approve: (
    name: string,
    calls: ReadonlyArray<PendingCall>
  ) => Effect.Effect<ReadonlyArray<boolean>, F>
  /** Receives the parts of the run while `isWatched` is true. The model then streams its answers. */
  readonly parts: {
    readonly isWatched: () => boolean
    readonly emit: (part: Part) => Effect.Effect<void>
  }
}

/** Gives the steps of a run their names. */
export class StepNames {
  #turn = 0
  #used = new Map<string, number>()

  /** The name of the next step of a kind in a turn. */
  next(turn: number, kind: string): string {
    if (turn !== this.#turn) {
      this.#turn = turn
      this.#used = new Map()
    }
    const times = (this.#used.get(kind) ?? 0) + 1
    this.#used.set(kind, times)
    return times === 1 ? `turn/${turn}/${kind}` : `turn/${turn}/${kind}/${times}`
  }
}
