/** Recognises results that report a failure although the tool succeeded. Pure. */
import { Predicate } from "effect"

/** Matches the first words of an error text. */
const opening =
  /^[\s"'[(<]*(?:\w*(?:error|exception)\b|fatal:|traceback\b|failed\b|(?:exit|return)[ _]?(?:code|status)\W{1,3}[1-9])/i

/** True for a text that begins with an error, and for an object with an error field. */
export const is = (result: unknown): boolean => {
  if (typeof result === "string") return opening.test(result.slice(0, maxOpening))
  if (!Predicate.isObject(result)) return false
  const is = (name: string, wrong: (value: unknown) => boolean): boolean => wrong(result[name])
  return (
    ["error", "errors"].some((name) => is(name, isFilled)) ||
    is("isError", (value) => value === true) ||
    ["ok", "success"].some((name) => is(name, (value) => value === false)) ||
    is("status", (value) => typeof value === "number" && value >= 400) ||
    ["exit_code", "exitCode"].some((name) => is(name, (value) => typeof value === "number" && value !== 0))
  )
}

/** Words of failures that may pass by themselves, without a change of the call. */
const passing =
  /timed? ?out|timeout(?!["']?\s*[=(])|deadline exceeded|temporar|(?:try again|retry) (?:later|in|after|shortly)|throttl|too many req|rate.?limit|overloaded|unavailable|\block(?:ed)?\b|\bbusy\b|(?:connection|peer)[\w ]* (?:reset|refused)|reset by|not ready|in progress|unreachable|ECONN|ETIMEDOUT|EAI_|(?:status|code|http|error)\W{1,4}(?:429|5\d\d)\b/i

/** True when the texts or the status of a failure say that it may pass: a time limit, a lock, HTTP 429 or 5xx. */
export const isPassing = (result: unknown, depth = 0): boolean => {
  if (typeof result === "string")
    return passing.test(result.slice(0, maxRead)) || passing.test(result.slice(-maxRead))
  if (!Predicate.isObject(result) || depth > maxDepth) return false
  return Object.entries(result).some(([name, value]) =>
    typeof value === "number" ? passing.test(`${name} ${value}`) : isPassing(value, depth + 1)
  )
}

/** Number of characters that are read of an opening, and at each end of a failure; depth of the objects. */
const maxOpening = 100
const maxRead = 1_000
const maxDepth = 3

const isFilled = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > 0
    : value !== undefined && value !== null && value !== false && value !== ""
