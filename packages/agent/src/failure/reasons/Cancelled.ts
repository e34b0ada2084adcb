/**
 * The attempt was cancelled by the caller.
 *
 * The classifier cannot know whose abort an error reports. A call does: its caller still waits, so an abort there is a
 * failure of the server or of the connection (`Classifier.Hints.waits`).
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { id, never } from "./ReasonDefinition.ts"

/** The attempt was cancelled by the caller. */
export class Cancelled extends Schema.TaggedClass<Cancelled>(id("Cancelled"))("Cancelled", {}) {}

export const cancelled: ReasonDefinition<Cancelled> = {
  label: "cancelled",
  samples: [new Cancelled()],
  happened: ({ status }) => `the call was cancelled${status}`,
  advice: () => "Start the call again if it is still wanted.",
  notice: () => "cancelled the call",
  nearest: ({ description }) => new AiError.UnknownError({ description }),
  isTransient: never,
  needsPerson: false,
  isItsFault: never,
  wait: "field",
  // The caller's own cancel interrupts the call. An error that reports a cancel may be about another caller's.
  remedies: ["target", "stop"]
}
