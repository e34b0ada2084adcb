/**
 * Rules of Gemini 3 and later about the signatures of function calls.
 *
 * Only the current turn is checked: everything after the last text of the user. In each of its steps, the first
 * function call must carry the signature it was returned with.
 */
import { firstOf } from "../Rule.ts"
import { seal, unseal } from "../seal.ts"
import { callsIn, responsesIn } from "./body.ts"
import type { Content, Part } from "./body.ts"
import { isNewer } from "./Input.ts"
import type { GoogleRule, Input } from "./Input.ts"

/** Accepted in place of a signature that was lost, or that came from another model. */
const sentinel = "skip_thought_signature_validator"

/** Signs a function call. `what` is the name of the function, or empty for text. */
export const sign = (model: string, what: string): string => seal(model, what)

export const signatureRules: ReadonlyArray<GoogleRule> = [
  {
    name: "signature-missing",
    check: (input) =>
      firstCall(input, ({ functionCall, thoughtSignature }, at) =>
        thoughtSignature !== undefined
          ? undefined
          : "Function call is missing a thought_signature in functionCall parts. This is required for tools to " +
            "work correctly, and missing thought_signature may lead to degraded model performance. Additional " +
            `data, function call \`default_api:${functionCall?.name ?? ""}\` , position ${at + 1}. Please refer to ` +
            "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
      )
  },
  {
    name: "signature-corrupted",
    check: (input) =>
      firstCall(input, ({ thoughtSignature = "" }) =>
        thoughtSignature === sentinel || unseal(thoughtSignature) !== undefined ? undefined : corrupted
      )
  },
  {
    name: "signature-other",
    disputed: true,
    check: (input) =>
      firstCall(input, ({ functionCall, thoughtSignature = "" }) => {
        const [model, name] = unseal(thoughtSignature) ?? []
        return thoughtSignature === sentinel || (model === input.model && name === functionCall?.name)
          ? undefined
          : corrupted
      })
  }
]

const corrupted = "Corrupted thought signature."

/** Returns the first problem among the first calls of the steps in the current turn. */
const firstCall = (
  { body: { contents }, model }: Input,
  find: (part: Part, at: number) => string | undefined
): string | undefined => {
  if (!isNewer(model)) return undefined
  const start = contents.findLastIndex(isUserText)
  return firstOf(contents, (content, at) => {
    const part = callsIn(content).length === 0 ? undefined : content.parts.find(isCall)
    return at < start || part === undefined ? undefined : find(part, at)
  })
}

const isCall = ({ functionCall }: Part): boolean => functionCall !== undefined

const isUserText = (content: Content): boolean => content.role === "user" && responsesIn(content).length === 0
