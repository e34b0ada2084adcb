/**
 * What happens after a turn: pure.
 *
 * A turn is one call and the tools that it asked for. `transition` names what comes next; every name is an
 * event of the run.
 */
import type { Response } from "effect/ai"

export type Transition =
  /** The model ended by itself, without asking for a tool. */
  | "completed"
  /** The answer is not whole: the output limit cut it, or the provider gave no reason for its end. */
  | "answer_cut"
  /** The provider refused the content, in the request or in the answer. */
  | "answer_refused"
  /** Tools have run, or the provider paused: the model is asked again. */
  | "next_turn"
  /** Another model answered than in the turn before; stands beside what comes next. */
  | "model_switched"
  /** The conversation was made to fit, before the call or after it was refused; stands beside what comes next. */
  | "compacted"
  /** The conversation does not fit, and nothing that may be cut is left, or a provider still refuses. */
  | "context_exhausted"
  /** The run has had all its turns. */
  | "turn_limit"
  /** The run has spent its money, or the guard around it has stopped. */
  | "guard_stopped"
  /** The call failed and all recovery with it. */
  | "model_failed"
  /** A tool failed in a way that it declares as the end of the run, or died. */
  | "tool_failed"
  /** The run was interrupted while the model answered, or while the conversation was made to fit for it. */
  | "aborted_streaming"
  /** The run was interrupted while tools ran. */
  | "aborted_tools"

/** What the run may spend. */
export interface Bounds {
  readonly maxTurns: number
  /** US dollars; calls without a known price count nothing. */
  readonly maxCost: number | undefined
}

/** A turn that ended. */
export interface Turn {
  /** From 1. */
  readonly number: number
  readonly finish: Response.FinishReason
  /** Calls that were answered with a result, executed or refused. */
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
    // A call that the provider ran itself, and nothing behind it.
    case "tool-calls":
      return "completed"
    case "content-filter":
      return "answer_refused"
    default:
      return "answer_cut"
  }
}
