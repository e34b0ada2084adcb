/**
 * The conversation is larger than the model's window.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { id, never } from "./ReasonDefinition.ts"

/** The conversation is larger than the model's window. */
export class ContextOverflow extends Schema.TaggedClass<ContextOverflow>(id("ContextOverflow"))(
  "ContextOverflow",
  {
    /** The window in tokens, when the provider named it. */
    limit: Schema.optional(Schema.Finite),
    /** The size of the request in tokens, when the provider named it. */
    requested: Schema.optional(Schema.Finite),
    /** The part of `requested` that is reserved for the answer, in tokens, when the provider counted and named it. */
    output: Schema.optional(Schema.Finite),
    /** True when the body of the request is too large, in bytes. Images and files are the largest part of most bodies. */
    media: Schema.optionalKey(Schema.Boolean)
  }
) {}

export const contextOverflow: ReasonDefinition<ContextOverflow> = {
  label: "context_overflow",
  samples: [new ContextOverflow({})],
  happened: ({ reason, status }) =>
    reason.media === true && reason.limit === undefined
      ? `the request is larger than the endpoint accepts, in bytes${status}`
      : reason.limit === undefined || reason.requested === undefined
        ? `the conversation is larger than the model's window${status}`
        : reason.output === undefined
          ? `the conversation (${reason.requested} tokens) is larger than the window (${reason.limit} tokens)`
          : `the conversation (${reason.requested - reason.output} tokens) and the output limit (${reason.output} tokens) are larger than the window (${reason.limit} tokens)`,
  advice: ({ reason }) =>
    reason.media === true
      ? "Send less, above all fewer images and files, raise the limit of the server or proxy, or add a target at another endpoint."
      : reason.output === undefined
        ? "Shorten the conversation, or add a target with a larger window."
        : "Shorten the conversation, lower `OutputLimit`, or add a target with a larger window.",
  notice: () => "has too small a window",
  nearest: ({ description }) =>
    new AiError.InvalidRequestError({ parameter: "prompt", constraint: "context_length", description }),
  isTransient: never,
  needsPerson: false,
  isItsFault: never,
  wait: "field",
  remedies: ["compact", "target"]
}
