/**
 * The parts of a request that the provider refuses and that the request can do without.
 */
import type { FailoverReason } from "./FailoverReason.ts"

/** Kinds of parts that a request can do without. */
export type Leavable = "media" | "thinking"

/** The kinds of parts without which the provider may accept the request. */
export const leavable = (reason: FailoverReason): ReadonlyArray<Leavable> => {
  if (reason._tag !== "Format" && reason._tag !== "ContextOverflow") return none
  const thinking = reason._tag === "Format" && reason.thinking === true
  return reason.media === true ? (thinking ? both : media) : thinking ? thoughts : none
}

const none: ReadonlyArray<Leavable> = []
const media: ReadonlyArray<Leavable> = ["media"]
const thoughts: ReadonlyArray<Leavable> = ["thinking"]
const both: ReadonlyArray<Leavable> = ["media", "thinking"]

/** True when all images and files of the request are at fault together, not only the new ones. */
export const countsAll = (reason: FailoverReason): boolean =>
  reason._tag === "ContextOverflow" || (reason._tag === "Format" && reason.allMedia === true)
