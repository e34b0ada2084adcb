/**
 * The error has no signal that a rule recognizes.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id, never } from "./ReasonDefinition.ts"

/** The error has no signal that a rule recognizes. */
export class Unknown extends Schema.TaggedClass<Unknown>(id("Unknown"))("Unknown", {}) {}

export const unknown: ReasonDefinition<Unknown> = {
  label: "unknown",
  samples: [new Unknown()],
  happened: ({ status }) => `the call failed for a reason that no rule knows${status}`,
  advice: ({ rule }) => `Look at the evidence (rule ${rule}) and add a rule for it.`,
  notice: () => "failed for an unknown reason",
  nearest: ({ description }) => new AiError.UnknownError({ description }),
  isTransient: never,
  needsPerson: false,
  isItsFault: always,
  wait: "any",
  remedies: ["repeat", "target"]
}
