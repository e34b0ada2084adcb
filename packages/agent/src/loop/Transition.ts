/**
 * Transitions of a run: each names what comes next, and is published as an event. `RunState` decides about them.
 */
import { Schema } from "effect"
import type { Response } from "effect/ai"

export const Transition = Schema.Literals([
  /** The model ended by itself, without asking for a tool. */
  "completed",
  /** The answer is incomplete: the output limit cut it, or the provider gave no finish reason. */
  "answer_cut",
  /** The provider rejected the content, in the request or in the answer. */
  "answer_refused",
  /** Tools have run, or the provider paused. The model is asked again. */
  "next_turn",
  /** The output limit cut an answer. The call was repeated with a raised limit. */
  "output_limit_raised",
  /** The output limit cut an answer. The model continued it. */
  "output_continued",
  /** The model goes on, but each of the last answers added too little. The run does not ask for more. */
  "diminishing_returns",
  /** The model stopped long before its token budget, and is asked to go on. */
  "budget_nudged",
  /** The answer came from another model than the one before. Published in addition to the next transition. */
  "model_switched",
  /** Images or files that the model refused were replaced with a note. Published in addition. */
  "media_dropped",
  /**
   * The conversation was compacted, before the call or after a rejection. Published in addition to the next
   * transition.
   */
  "compacted",
  /** The conversation does not fit: nothing more may be cut, or a provider still rejects it. */
  "context_exhausted",
  /** The run has used all its turns. */
  "turn_limit",
  /** The run has used up its budget, or a guard has stopped it. */
  "guard_stopped",
  /** A hook blocked a tool call, or the end of the run. The model reads why. */
  "hook_blocked",
  /** A hook stopped the run. */
  "hook_stopped",
  /** The call failed, and so did all recovery. */
  "model_failed",
  /** A tool failed with a failure that ends the run, or with a defect. */
  "tool_failed",
  /** The run was interrupted while the model answered or the conversation was compacted. */
  "aborted_streaming",
  /** The run was interrupted while tools ran. */
  "aborted_tools"
])
export type Transition = typeof Transition.Type

/**
 * Separates transitions that share a name.
 *
 * - of `compacted`: `before` the call, with a summary that was `prepared`, or after a provider `refused`
 * - of `context_exhausted`: `before` the call, or after a provider `refused`
 * - of `hook_blocked` and `hook_stopped`: at a `tool`, or at the `end`
 */
export const Cause = Schema.Literals(["before", "prepared", "refused", "tool", "end"])
export type Cause = typeof Cause.Type

/** A transition of a turn. */
export const Passed = Schema.Struct({
  turn: Schema.Finite,
  transition: Transition,
  cause: Schema.optional(Cause),
  /** A text for the model, which becomes a message of the user. */
  message: Schema.optional(Schema.String)
})
export type Passed = typeof Passed.Type

/** Limits of the run. */
export interface Bounds {
  readonly maxTurns: number
  /** US dollars. Calls without a known price count as 0. */
  readonly maxCost?: number | undefined
}

/** A turn that ended. */
export interface Turn {
  /** Number of the turn, from 1. */
  readonly number: number
  readonly finish: Response.FinishReason
  /** Tool calls of the answer, executed or rejected. */
  readonly toolCalls: number
  /** US dollars of the run so far. */
  readonly costUsd: number
}

export const transition = ({ maxTurns, maxCost }: Bounds, turn: Turn): Transition => {
  if (turn.toolCalls === 0 && turn.finish !== "pause") return ending(turn.finish)
  if (maxCost !== undefined && turn.costUsd >= maxCost) return "guard_stopped"
  return turn.number >= maxTurns ? "turn_limit" : "next_turn"
}

const ending = (finish: Response.FinishReason): Transition => {
  switch (finish) {
    case "stop":
    // The provider ran these calls itself, and no text follows them.
    case "tool-calls":
      return "completed"
    case "content-filter":
      return "answer_refused"
    default:
      return "answer_cut"
  }
}
