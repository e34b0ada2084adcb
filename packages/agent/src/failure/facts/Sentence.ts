/**
 * Chooses the sentence of a body that says most: that of the error inside, not that of a gateway around it.
 */
import type { Seen } from "./BodyFacts.ts"

/** Sentences with which gateways and clients wrap any error. */
const wrapping = new RegExp(
  `^(?:${[
    "provider returned (?:an )?error",
    "(?:an )?(?:unknown |unexpected |internal )?(?:server |upstream |gateway |provider |api |service )*(?:error|failure)(?: occurred)?",
    "(?:upstream |gateway |provider )?(?:request|call|invocation) failed",
    "(?:an )?error (?:occurred )?(?:from|at|in|with) (?:the )?(?:upstream|provider|model provider|model|backend)",
    "(?:failed|unable) to get (?:a )?response from (?:the )?(?:upstream|provider)",
    "all providers failed",
    "openai_error",
    "bad (?:gateway|request|response status code(?: \\d{3})?)",
    "something went wrong"
  ].join("|")})[.!:]*$`,
  "i"
)

const isTelling = (text: string): boolean => !/^\s*(?:<|$)/.test(text) && !wrapping.test(text.trim())

/** The most telling sentence of a body. */
export const of = ({ texts, inner }: Pick<Seen, "texts" | "inner">): string | undefined => {
  const told = texts.slice(inner).find(isTelling) ?? texts.find(isTelling) ?? texts[0]
  return told === undefined ? undefined : unwrapped(told)
}

/** Names of LiteLLM's and other clients' classes in front of a sentence: `litellm.X: YException - `. */
const classes =
  /^(?:(?:litellm\.(?:exceptions\.)?)?[A-Za-z_]{1,40}(?:Error|Exception|Timeout)(?: [A-Za-z]{1,40}Error)?(?:: | - )){1,5}(?=.)/

/** What LiteLLM's router adds behind it. */
const routing = /[.\s]*(?:Received Model Group=|Available Model Group Fallbacks=|Handle with `?litellm\.).*$/s

const message = /["'](?:message|msg|detail)["'] ?: ?(?:"([^"]{1,2000})"|'([^']{1,2000})')/g

/** Removes the classes around a sentence, and takes the message out of a Python dictionary. */
const unwrapped = (text: string): string => {
  const isLiteLlm = text.includes("litellm") || /^[A-Za-z_]{1,40}Exception - /.test(text)
  const plain = isLiteLlm ? text.replace(routing, "").replace(classes, "") : text
  const told = plain.includes("{'") ? [...plain.matchAll(message)].map(([, a, b]) => a ?? b ?? "") : []
  return told.findLast(isTelling) ?? plain
}
