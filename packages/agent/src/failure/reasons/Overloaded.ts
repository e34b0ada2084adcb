/**
 * The provider has no capacity at the moment, for any caller.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id } from "./ReasonDefinition.ts"

/** The provider has no capacity at the moment, for any caller. */
export class Overloaded extends Schema.TaggedClass<Overloaded>(id("Overloaded"))("Overloaded", {}) {}

export const overloaded: ReasonDefinition<Overloaded> = {
  label: "overloaded",
  samples: [new Overloaded()],
  happened: ({ status }) => `the provider is overloaded${status}`,
  advice: () => "Try again later, or add a target of another model or provider to the chain.",
  notice: () => "is overloaded",
  nearest: ({ description }) => new AiError.InternalProviderError({ description }),
  isTransient: always,
  needsPerson: false,
  isItsFault: always,
  wait: "reset",
  remedies: ["repeat", "target"]
}
