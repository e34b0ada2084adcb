/**
 * Our request or the provider's response violated the protocol.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition, Seen } from "./ReasonDefinition.ts"
import { id, lacksVersion, never } from "./ReasonDefinition.ts"

/** Id of the rule for an object that the output limit cut. A partial object is useless. */
export const cutObject = "answer/cut"

/** Id of the rule for a body that is not a stream of events. `matched` is its content type. */
export const notEvents = "stream/not-events"

/** Id of the rule for an answer that is not the requested object. */
export const wrongObject = "answer/object"

/** Id of the rule for a tool call that the model wrote and that the provider could not use. */
export const badCall = "answer/bad-call"

/** Id of the rule for an answer that announces a tool call and has none. */
export const noCall = "answer/no-call"

/** Id of the rule for a request that cannot be written in the format of the target. */
export const untranslatable = "request/format"

/** Ids of the rules for tool calls that cannot be used: the next sample may be better. */
export const badCalls: ReadonlySet<string> = new Set([
  badCall,
  noCall,
  "code/generated-call",
  "text/generated-call"
])

/** Ids of the rules for objects that cannot be used: the next sample may be better. */
export const badObjects: ReadonlySet<string> = new Set([wrongObject, "code/generated-object"])

/** Our request or the provider's response violated the protocol. */
export class Format extends Schema.TaggedClass<Format>(id("Format"))("Format", {
  side: Schema.Literals(["request", "response"]),
  /** The model's output limit in tokens, when the request asked for more. */
  outputLimit: Schema.optional(Schema.Finite),
  /** The problem with an answer that should be an object, or with a tool call. Contains no text of the answer. */
  problem: Schema.optional(Schema.String),
  /** True when the provider refuses an image or a file of the request. */
  media: Schema.optionalKey(Schema.Boolean),
  /** True when the provider counts all images and files of the request, not only the new ones. */
  allMedia: Schema.optionalKey(Schema.Boolean),
  /** True when the provider refuses thinking, a signature or the id of an earlier item. */
  thinking: Schema.optionalKey(Schema.Boolean),
  /** True when this model does not accept the request. Another model of the same provider may. */
  model: Schema.optionalKey(Schema.Boolean)
}) {}

/** Values that the rules match where a server has nothing at the path of the request. */
const unknownPaths: ReadonlySet<string> = new Set([" (invalid url)", " (unknown_url)"])

const isUnknownPath = ({ status, matched }: Seen<Format>): boolean =>
  status === " (HTTP 404)" && unknownPaths.has(matched)

const unreadable = "cannot be read"

export const format: ReasonDefinition<Format> = {
  label: "format",
  samples: [
    new Format({ side: "request" }),
    new Format({ side: "response" }),
    new Format({ side: "request", outputLimit: 8_192 })
  ],
  labelled: [new Format({ side: "request" }), new Format({ side: "response" })],
  happened: (seen) => {
    const { reason, rule, status } = seen
    if (isUnknownPath(seen)) return `the provider has nothing at the path of the request${status}`
    if (rule === cutObject) return "the output limit cut the object"
    if (rule === untranslatable) return "the format of the provider cannot express the request"
    if (reason.outputLimit !== undefined)
      return `the output limit is above that of the model (${reason.outputLimit} tokens)`
    if (badCalls.has(rule)) return `the model wrote a tool call that ${reason.problem ?? unreadable}`
    if (reason.problem !== undefined)
      return `the answer is not the object that was asked for (${reason.problem})`
    return reason.side === "request"
      ? `the provider rejected the request as malformed${status}`
      : `the provider sent an answer that cannot be understood${status}`
  },
  advice: (seen) => {
    const { reason, rule, endpoint } = seen
    if (isUnknownPath(seen))
      return `Check the path of ${endpoint}${lacksVersion(endpoint) ? ", which may lack /v1" : ""}.`
    if (rule === cutObject) return "Raise the output limit, or ask for less."
    if (reason.outputLimit !== undefined) return `Set \`OutputLimit\` to ${reason.outputLimit} or less.`
    if (badCalls.has(rule))
      return "Make the tool's parameters simpler, or add a target that calls tools well."
    if (badObjects.has(rule)) return "Make the schema simpler, or add a target that keeps to schemas."
    if (reason.model === true)
      return "Repeating cannot help: correct the request, or add a model that accepts it."
    return reason.side === "request"
      ? "Repeating cannot help: correct the request."
      : "Try again, or add another target to the chain."
  },
  notice: ({ reason, status }) =>
    reason.side === "request" ? `refused the request${status}` : "sent an answer that cannot be understood",
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
