/**
 * What a part of an answer is: content or a frame, of a block, a call for the program, or a tool of the provider.
 */
import type { Response } from "effect/ai"

export type StreamPart = Response.StreamPartEncoded

/** Text or thinking of a block. */
export type Delta = Response.TextDeltaPartEncoded | Response.ReasoningDeltaPartEncoded

export type StartPart = Response.TextStartPartEncoded | Response.ReasoningStartPartEncoded
export type EndPart = Response.TextEndPartEncoded | Response.ReasoningEndPartEncoded
export type BlockPart = StartPart | Delta | EndPart

/** True for a part that the program may act on: a tool call, or the parameters of one. */
export const isForProgram = (part: StreamPart): boolean =>
  (part.type === "tool-call" || part.type === "tool-params-start" || part.type === "tool-approval-request") &&
  !isProviders(part)

/** True for a call that the program would run. */
export const isCallOfProgram = (part: Response.AllPartsEncoded): boolean =>
  part.type === "tool-call" && !isProviders(part)

/** True for a part of a tool that the provider runs itself. */
export const isProviders = (part: Response.AllPartsEncoded): boolean =>
  "providerExecuted" in part && part.providerExecuted === true

/** The number of calls of the program that a part begins; -1 for a call that is made. */
export const callsBegun = (part: StreamPart): number => {
  if (isProviders(part)) return 0
  return part.type === "tool-params-start" ? 1 : part.type === "tool-call" ? -1 : 0
}

/** True for content. Keep-alives, metadata and the frames of blocks are no progress. */
export const isProgress = (part: StreamPart): boolean => {
  switch (part.type) {
    case "text-delta":
    case "reasoning-delta":
      return part.delta !== ""
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
    case "response-metadata":
    case "error":
      return false
    default:
      return true
  }
}
