/**
 * The provider failed while it handled the request.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id } from "./ReasonDefinition.ts"

/** The provider failed while it handled the request. */
export class ServerError extends Schema.TaggedClass<ServerError>(id("ServerError"))("ServerError", {}) {}

export const serverError: ReasonDefinition<ServerError> = {
  label: "server_error",
  samples: [new ServerError()],
  happened: ({ status }) => `the provider failed${status}`,
  advice: () => "Try again later, or add a target of another model or provider to the chain.",
  notice: () => "failed",
  nearest: ({ description }) => new AiError.InternalProviderError({ description }),
  isTransient: always,
  needsPerson: false,
  isItsFault: always,
  wait: "any",
  remedies: ["repeat", "target"]
}
