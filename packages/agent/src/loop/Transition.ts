/**
 * Decides what happens after a turn. Pure.
 *
 * A turn is one call and the tools that it asked for. A `Transition` names what comes next, and is published as an
 * event of the run.
 */
import type { Response } from "effect/ai"

export type Transition =
  /** The model ended by itself, without asking for a tool. */
  | "completed"
  /** The answer is incomplete: the output limit cut it, or the provider gave no finish reason. */
  | "answer_cut"
  /** The provider rejected the content, in the request or in the answer. */
  | "answer_refused"
  /** Tools have run, or the provider paused. The model is asked again. */
  | "next_turn"
  /** The answer came from another model than the one before. Published in addition to the next transition. */
  | "model_switched"
  /**
   * The conversation was compacted, before the call or after a rejection. Published in addition to the next
   * transition.
   */
  | "compacted"
  /** The conversation does not fit: nothing more may be cut, or a provider still rejects it. */
  | "context_exhausted"
  /** The run has used all its turns. */
  | "turn_limit"
  /** The run has used up its budget, or the surrounding guard has stopped it. */
  | "guard_stopped"
  /** The call failed, and so did all recovery. */
  | "model_failed"
  /** A tool failed with a failure that ends the run, or with a defect. */
  | "tool_failed"
  /** The run was interrupted while the model answered or the conversation was compacted. */
  | "aborted_streaming"
  /** The run was interrupted while tools ran. */
  | "aborted_tools"

/** Limits of the run. */
export interface Bounds {
  readonly maxTurns: number
  /** US dollars. Calls without a known price count as 0. */
  readonly maxCost: number | undefined
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
