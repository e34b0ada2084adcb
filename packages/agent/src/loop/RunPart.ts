/** Parts of a run as it is shown: `Agent.stream` gives them. */
import type { Response, Tool } from "effect/ai"
import type { Rewind } from "../failover/call/Surface.ts"
import type { Notice } from "../failover/decide/Notice.ts"
import type { Outcome } from "./Outcome.ts"
import type { Cause, Transition } from "./Transition.ts"

/**
 * A part of a run's stream: a part of the model's answer, a tool result, or a notice of the loop. A `Rewind`
 * retracts what the turn has shown so far; the retracted part is not in the transcript.
 */
export type Part =
  | Response.StreamPart<Record<string, Tool.Any>>
  | Notice
  | Rewind
  | Response.ToolResultPart<string, unknown, unknown>
  | {
      readonly type: "transition"
      readonly turn: number
      readonly transition: Transition
      readonly cause: Cause | undefined
    }
  | { readonly type: "outcome"; readonly outcome: Outcome }
