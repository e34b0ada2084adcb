/**
 * The protocol was violated: by our request, or by the provider's response.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { id, never } from "./ReasonDefinition.ts"

/** The rule of an object that the output limit cut: half of one is worth nothing. */
export const cutObject = "answer/cut"

/** The rule of a body that is no stream of events; what matched is its content type. */
export const notEvents = "stream/not-events"

/** The rule of an answer that is not the object that was asked for. */
export const wrongObject = "answer/object"

/** The protocol was violated: by our request, or by the provider's response. */
export class Format extends Schema.TaggedClass<Format>(id("Format"))("Format", {
  side: Schema.Literals(["request", "response"]),
  /** The request asked for a longer answer than the model gives: the most that it gives, in tokens. */
  outputLimit: Schema.optional(Schema.Finite),
  /** What is wrong with an answer that was to be an object, and where; nothing of the answer is in it. */
  problem: Schema.optional(Schema.String),
  /** The provider refuses an image or a file of the request. */
  media: Schema.optionalKey(Schema.Boolean)
}) {}

export const format: ReasonDefinition<Format> = {
  label: "format",
  samples: [
    new Format({ side: "request" }),
    new Format({ side: "response" }),
    new Format({ side: "request", outputLimit: 8_192 })
  ],
  labelled: [new Format({ side: "request" }), new Format({ side: "response" })],
  happened: ({ reason, rule, status }) => {
    if (rule === cutObject) return "the output limit cut the object"
    if (reason.outputLimit !== undefined)
      return `the output limit is above that of the model (${reason.outputLimit} tokens)`
    if (reason.problem !== undefined)
      return `the answer is not the object that was asked for (${reason.problem})`
    return reason.side === "request"
      ? `the provider rejected the request as malformed${status}`
      : `the provider sent an answer that cannot be understood${status}`
  },
  advice: ({ reason, rule }) => {
    if (rule === cutObject) return "Raise the output limit, or ask for less."
    if (reason.outputLimit !== undefined) return `Set \`OutputLimit\` to ${reason.outputLimit} or less.`
    if (rule === wrongObject) return "Make the schema simpler, or add a target that keeps to schemas."
    return reason.side === "request"
      ? "Repeating cannot help: correct the request."
      : "Try again, or add another target to the chain."
  },
  notice: "sent an answer that cannot be understood",
  nearest: ({ reason, description }) =>
    reason.side === "request"
      ? new AiError.InvalidRequestError({ description })
      : new AiError.InvalidResponseError({ description }),
  isTransient: never,
  needsPerson: false,
  isItsFault: ({ side }) => side === "response",
  wait: "field",
  remedies: ["target", "stop"]
}
