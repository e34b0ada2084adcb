/** Server-sent events of runs and tasks. Pure. */
import { Sse } from "effect/encoding"
import type { Agent } from "@outlast/agent"

/** One event on the wire. */
export const frame = (event: string, data: unknown): string =>
  Sse.encoder.write({ _tag: "Event", event, id: undefined, data: JSON.stringify(data) })

/** The event of a part; `undefined` for a part that is not shown. */
export const ofPart = (part: Agent.Part): string | undefined => {
  switch (part.type) {
    case "text-delta":
      return frame("text", { delta: part.delta })
    case "rewind":
      return frame("rewind", {})
    case "tool-call":
      return frame("tool", { name: part.name })
    case "transition":
      return frame("transition", { turn: part.turn, transition: part.transition })
    case "outcome":
      return frame("outcome", { status: part.outcome.status, text: part.outcome.text })
    default:
      return undefined
  }
}
