/**
 * Reads sizes off a provider's sentence: how large a window or a limit is, and how much was asked for.
 * All texts are lower-cased.
 */

export interface Sizes {
  readonly limit?: number | undefined
  readonly requested?: number | undefined
  /** What of `requested` was reserved for the answer. */
  readonly output?: number | undefined
}

const n = String.raw`(\d[\d,_]{0,12})`
// Each has its groups in the order limit, requested (or the other way round where `swapped`).
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
const windowOnly = new RegExp(
  `(?:context (?:length|window|size|limit)|maximum (?:prompt|input) length)(?: is| of|:)?(?: only)? ${n}(?: tokens)?`
)

const number = (text: string | undefined): number | undefined => {
  const value = text === undefined ? Number.NaN : Number(text.replaceAll(/[,_]/g, ""))
  return Number.isFinite(value) && value > 0 ? value : undefined
}

/** The window of a model, and the size of what did not fit, in tokens. */
export const ofWindow = (text: string): Sizes => {
  const added = sum.exec(text)
  if (added !== null) {
    const output = number(added[2]) ?? 0
    return { requested: (number(added[1]) ?? 0) + output, output, limit: number(added[3]) }
  }
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

const amount = String.raw`:? ?(\d[\d,_]{0,12}(?:\.\d{1,6})?)(?![\w.]*\d)`
const limitOf = new RegExp(String.raw`\blimit${amount}`, "g")
const requestedOf = new RegExp(String.raw`\brequested${amount}`)
const none = /quota_limit_value["']?,? (?:value: )?["']?0["']/

/**
 * Whether a limit per time can be lifted by waiting: not when it is 0, nor when one request is larger than it. Of
 * several limits (Google names one for each metric) one that is not 0 is reason enough to wait.
 */
export const isLiftable = (text: string): boolean => {
  if (text.includes("request too large") || none.test(text)) return false
  const limits: Array<number> = []
  for (const [, given] of text.matchAll(limitOf)) if (limits.push(valueOf(given)) >= maxLimits) break
  if (limits.length === 0) return true
  if (limits.every((limit) => limit === 0)) return false
  const requested = requestedOf.exec(text)?.[1]
  return requested === undefined || valueOf(requested) <= (limits[0] ?? 0)
}

/** Limits of one text that are read, at most. */
const maxLimits = 20

const valueOf = (text: string | undefined): number => Number(text?.replaceAll(/[,_]/g, ""))
