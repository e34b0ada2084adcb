/** Recognises results that report a failure although the tool succeeded. Pure. */
import { Predicate } from "effect"

/** Matches the first words of an error text. */
const opening = /^[\s"'[(<]*(?:\w*(?:error|exception)\b|fatal:|traceback\b|failed\b)/i

/** True for a text that begins with an error, and for an object with an error field. */
export const is = (result: unknown): boolean => {
  if (typeof result === "string") return opening.test(result.slice(0, maxOpening))
  if (!Predicate.isObject(result)) return false
  const { error, errors, isError, ok, success, status, exit_code, exitCode = exit_code }: Fields = result
  return (
    isFilled(error) ||
    isFilled(errors) ||
    isError === true ||
    ok === false ||
    success === false ||
    (typeof status === "number" && status >= 400) ||
    (typeof exitCode === "number" && exitCode !== 0)
  )
}

/** Number of characters that are read. */
const maxOpening = 100

interface Fields {
  readonly error?: unknown
  readonly errors?: unknown
  readonly isError?: unknown
  readonly ok?: unknown
  readonly success?: unknown
  readonly status?: unknown
  readonly exitCode?: unknown
  readonly exit_code?: unknown
}

const isFilled = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > 0
    : value !== undefined && value !== null && value !== false && value !== ""
