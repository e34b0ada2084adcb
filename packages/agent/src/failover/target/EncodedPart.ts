/**
 * Parts of an answer in the form in which a provider gives them.
 */
import { Schema } from "effect"
import { Response, Toolkit } from "effect/ai"

const encode = Schema.encodeUnknownSync(Response.AllParts(Toolkit.empty))

/** The part as a provider gives it. Calls and results are encoded already, because no toolkit has decoded them. */
export const of = (part: Response.AnyPart): Response.AllPartsEncoded => {
  switch (part.type) {
    case "tool-call": {
      const { type, id, name, params, providerExecuted, metadata } = part
      return { type, id, name, params, providerExecuted, metadata }
    }
    case "tool-result": {
      const { type, id, name, encodedResult, isFailure, providerExecuted, preliminary, metadata } = part
      return { type, id, name, result: encodedResult, isFailure, providerExecuted, preliminary, metadata }
    }
    default:
      return encode(part)
  }
}
