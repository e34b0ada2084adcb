/**
 * Reads token counts from a provider's sentence: the size of a window or limit, and the size that was requested.
 * All texts are lower-cased.
 */

export interface Sizes {
  readonly limit?: number | undefined
  readonly requested?: number | undefined
  /** Tokens of `requested` that were reserved for the answer. */
  readonly output?: number | undefined
}

const n = String.raw`(\d[\d,_]{0,12})`
// The groups of each form are limit, requested; the other way round if `swapped`.
const forms: ReadonlyArray<readonly [form: RegExp, swapped: boolean]> = [
  [new RegExp(`${n} tokens > ${n} maximum`), true],
  [
    new RegExp(
      `context length (?:is|of)(?: only)? ${n} tokens.{0,80}?(?:resulted in|requested(?: about)?) ${n} tokens`
    ),
    false
  ],
  [
    new RegExp(
      `(?:context|prompt|input|model) length (?:is|of)(?: only)? ${n}.{0,80}?(?:contains|has|resulted in|requested(?: about)?)(?: at least)? ${n}`
    ),
    false
  ],
  [new RegExp(`token count \\(?(?:of )?${n}\\)? exceeds .{0,60}?\\(?${n}\\)?`), true],
  [
    new RegExp(
      `(?:prompt|request|input).{0,40}? \\(?${n} tokens\\)? .{0,40}?exceed.{0,60}? \\(?${n}(?: tokens)?`
    ),
    true
  ],
  [new RegExp(`first ${n} tokens .{0,80}?length of only ${n} tokens`), true],
  [new RegExp(`prompt contains ${n} tokens.{0,80}?${n} (?:maximum|limit|tokens)`), true]
]
const sum = new RegExp(`exceed context limit: ${n} \\+ ${n} > ${n}`)
const inCompletion = new RegExp(`${n} in the (?:completion|output)`)
/** The output limit, the window and the input, in this order. */
const outputFirst = new RegExp(
  `tokens['"\`]* is too large: ${n}.{0,60}?context length is ${n} tokens.{0,40}?${n} input tokens`
)
/** Text Generation Inference: the window, then the input and output that were requested. */
const given = new RegExp(`must be <= ${n}.{0,20}given: ${n} .{0,20}?tokens and ${n}`)
/** The window and the output limit. The provider counted only a part of the input. */
const openEnded = new RegExp(
  `context length is ${n} tokens.{0,40}?requested ${n} output tokens.{0,40}?at least`
)
const windowOnly = new RegExp(
  `(?:context (?:length|window|size|limit)|maximum (?:prompt|input) length)(?: is| of|:)?(?: only)? ${n}(?: tokens)?`
)

const number = (text: string | undefined): number | undefined => {
  const value = text === undefined ? Number.NaN : Number(text.replaceAll(/[,_]/g, ""))
  return Number.isFinite(value) && value > 0 ? value : undefined
}

/** Window of a model and the size that did not fit, in tokens. */
export const ofWindow = (text: string): Sizes => {
  const added = sum.exec(text)
  if (added !== null) {
    const output = number(added[2]) ?? 0
    return { requested: (number(added[1]) ?? 0) + output, output, limit: number(added[3]) }
  }
  const split = outputFirst.exec(text)
  if (split !== null) {
    const output = number(split[1]) ?? 0
    return { limit: number(split[2]), requested: (number(split[3]) ?? 0) + output, output }
  }
  const parts = given.exec(text)
  if (parts !== null) {
    const output = number(parts[3]) ?? 0
    return { limit: number(parts[1]), requested: (number(parts[2]) ?? 0) + output, output }
  }
  const open = openEnded.exec(text)
  if (open !== null) return { limit: number(open[1]), output: number(open[2]) }
  for (const [form, swapped] of forms) {
    const match = form.exec(text)
    if (match === null) continue
    const [first, second] = [number(match[1]), number(match[2])]
    const output = number(inCompletion.exec(text)?.[1])
    const [limit, requested] = swapped ? [second, first] : [first, second]
    return { limit, requested, ...(output === undefined ? {} : { output }) }
  }
  const limit = number(windowOnly.exec(text)?.[1])
  return limit === undefined ? {} : { limit }
}

/** Names that a field or a sentence uses for the length of an answer. */
const outputName =
  /\bmax_?(?:completion|output|new)?_?tokens|\b(?:output|completion|maximum) tokens\b|\bmaximum completion length/

const whole = String.raw`[ '"\`]{1,2}(\d[\d,_]{0,12})(?![\w.]*\d)`
/** The highest output limit that is allowed. */
const highest: ReadonlyArray<RegExp> = [
  // "max_tokens: 128001 > 64000, which is the maximum"
  new RegExp(String.raw`tokens\W{1,3}\d+ >${whole}`),
  // "the valid range of max_tokens is [1, 8192]"
  new RegExp(String.raw`\[ ?\d+ ?,${whole}(?= ?\])`),
  new RegExp(String.raw`\bbetween \d+ and${whole}`),
  new RegExp(String.raw`\(inclusive\) to${whole}(?= \(inclusive)`),
  new RegExp(
    String.raw`(?:at most|model limit of|less than or equal to|<=|≤|no more than|\bexceed(?:s|ed)?|(?:greater|larger|more|higher) than|maximum(?: value| allowed| allowed value)?(?: is| of|:)?)${whole}`
  )
]
/** The lowest output limit that is rejected. */
const tooHigh: ReadonlyArray<RegExp> = [
  new RegExp(String.raw`\(inclusive\) to${whole}(?= \(exclusive)`),
  new RegExp(String.raw`(?:less|lower|smaller) than${whole}`)
]

/** The longest answer that a model gives, in tokens, if the text says that a longer one was requested. */
export const ofOutput = (text: string): number | undefined => {
  if (!outputName.test(text)) return undefined
  for (const form of highest) {
    const limit = number(form.exec(text)?.[1])
    if (limit !== undefined) return limit
  }
  for (const form of tooHigh) {
    const beyond = number(form.exec(text)?.[1])
    if (beyond !== undefined && beyond > 1) return beyond - 1
  }
  return undefined
}

const amount = String.raw`:? ?(\d[\d,_]{0,12}(?:\.\d{1,6})?)(?![\w.]*\d)`
const limitOf = new RegExp(String.raw`\blimit${amount}`, "g")
const requestedOf = new RegExp(String.raw`\brequested${amount}`)
/** Anthropic bills requests above 200,000 tokens as extra usage. */
const longContext = /extra usage is required for (?:long|1m) context/
const tooLarge = new RegExp(`request too large|${longContext.source}`)
const none = /quota_limit_value["']?,? (?:value: )?["']?0["']/

/**
 * True when waiting can lift a rate limit: it is not 0, and the request is not larger than the limit. If the text
 * names several limits (Google names one for each metric), one above 0 is enough.
 */
export const isLiftable = (text: string): boolean => {
  if (tooLarge.test(text) || none.test(text)) return false
  const limits: Array<number> = []
  for (const [, given] of text.matchAll(limitOf)) if (limits.push(valueOf(given)) >= maxLimits) break
  if (limits.length === 0) return true
  if (limits.every((limit) => limit === 0)) return false
  const requested = requestedOf.exec(text)?.[1]
  return requested === undefined || valueOf(requested) <= (limits[0] ?? 0)
}

/** The limit for one request in tokens, and its tokens, where the text says that it is larger. */
export const ofTooLarge = (
  text: string
): { readonly limit: number; readonly requested?: number } | undefined => {
  if (longContext.test(text)) return { limit: 200_000 }
  const limit = valueOf([...text.matchAll(limitOf)][0]?.[1])
  const requested = valueOf(requestedOf.exec(text)?.[1])
  return limit > 0 && requested > limit && /\btokens?\b/.test(text) ? { limit, requested } : undefined
}

/** Number of limits of one text that are read, at most. */
const maxLimits = 20

const valueOf = (text: string | undefined): number => Number(text?.replaceAll(/[,_]/g, ""))
