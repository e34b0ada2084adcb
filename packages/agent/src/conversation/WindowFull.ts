/**
 * Marks the finish of an answer that the model's window cut, not the output limit. effect/ai has one reason for both,
 * `length`. More output tokens do not help such an answer: the conversation has to become shorter.
 */
import type { Response } from "effect/ai"
import { namespace } from "./Answered.ts"

const key = "windowFull"

type Finish = Response.FinishPartEncoded

export const marked = (finish: Finish): Finish => ({
  ...finish,
  metadata: { ...finish.metadata, [namespace]: { [key]: true } }
})

export const isMarked = ({ reason, metadata }: Finish): boolean => {
  const ours: unknown = metadata?.[namespace]
  return reason === "length" && typeof ours === "object" && ours !== null && key in ours
}
