/**
 * What happens after a turn: pure.
 *
 * A turn is one call and the tools that it asked for. `transition` names what comes next; every name is an
 * event of the run.
 */
import type { Response } from "effect/ai"

export type Transition =
  /** The model answered without asking for a tool. */
  | "completed"
  /** Tools have run, or the provider paused: the model is asked again. */
  | "next_turn"
  /** Another target answered than in the turn before; stands beside what comes next. */
  | "model_switched"
  /** The run has had all its turns. */
  | "turn_limit"
  /** The run has spent its money. */
  | "guard_stopped"
  /** The call failed and all recovery with it. */
  | "model_failed"
  /** The run was interrupted while the model answered. */
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
  if (turn.toolCalls === 0 && turn.finish !== "pause") return "completed"
  if (maxCost !== undefined && turn.costUsd >= maxCost) return "guard_stopped"
  return turn.number >= maxTurns ? "turn_limit" : "next_turn"
}
