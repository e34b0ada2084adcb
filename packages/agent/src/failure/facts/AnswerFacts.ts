/**
 * Finds errors inside successful responses, and the reason why an answer ended.
 *
 * Gateways and streams send errors with status 200. Content filters end an answer instead of rejecting the request.
 * Both are read only from the fields where providers put them, because an answer may talk about errors and may
 * repeat the caller's own fields. All functions are pure and never throw: see `Looking`.
 */
import { isList, keysOf, property } from "./Looking.ts"

/**
 * True for an object in the shape of a provider's error.
 *
 * Shapes: `{ error }`, `{ errors: […] }`, `{ type: "error" }`, `{ type: "response.failed" }`, `{ code, message }`,
 * `{ success: false }`, `{ message }` alone, MiniMax's `base_resp`, Baidu's `{ error_code, error_msg }`, Tencent's
 * `Response.Error`, and an exception of an AWS event stream.
 */
export const isErrorPart = (part: unknown): boolean => {
  if (typeof part !== "object" || part === null) return false
  if (isNumbered(part, "error_code", "error_msg") || isNumbered(part, "errcode", "errmsg")) return true
  if (isNumbered(part, "error_type", "error_message")) return true
  const error = property(part, "error")
  if (typeof error === "object" && error !== null) return true
  if (typeof error === "string") return !noError.test(error)
  const errors = property(part, "errors")
  if (isList(errors) && errors.length > 0) return true
  const type = property(part, "type")
  if (type === "error" || type === "response.failed" || property(part, "event") === "error") return true
  if (property(part, "success") === false) return true
  if (isSentenceAlone(part)) return true
  if (isCode(property(property(part, "base_resp"), "status_code"))) return true
  // iFlytek: in the frames of its socket, and in what gateways make of them.
  if (isCoded(property(part, "header"))) return true
  if (typeof property(property(part, "Response"), "Error") === "object") return true
  return (
    isCoded(part) ||
    keysOf(part, 8).some((key) => key.endsWith("Exception") && typeof property(part, key) === "object")
  )
}

/** True for an object with a code and a sentence: `{ code, message }`, `{ code, msg }`. */
const isCoded = (part: unknown): boolean => {
  const said = property(part, "message") ?? property(part, "msg")
  return isCode(property(part, "code")) && typeof said === "string" && !noError.test(said)
}

/** Some providers send a number or a name for a success, too. */
const isCode = (code: unknown): boolean =>
  typeof code === "number"
    ? code >= 400
    : typeof code === "string" && /^(?:[A-Za-z45]|[1-9]\d{3,5}$)/.test(code) && !noError.test(code)

/** True for an object whose only field is a sentence: an error that a gateway passes on, not an answer. */
const isSentenceAlone = (part: object): boolean => {
  const keys = keysOf(part, 2)
  const [key = ""] = keys
  return keys.length === 1 && sentences.has(key) && typeof property(part, key) === "string"
}

const sentences = new Set(["message", "detail", "html-message"])

/** True when the object has an error number (not that of a success) and a message. */
const isNumbered = (part: object, code: string, message: string): boolean => {
  const given = property(part, code)
  const isCode =
    typeof given === "number" ? given !== 0 : typeof given === "string" && /^[1-9A-Za-z]/.test(given)
  return isCode && !noError.test(String(given)) && typeof property(part, message) === "string"
}

/** Values that mean "no error" in a field where an error could be. */
const noError = /^(?:|none|null|nil|no(?: error)?|ok|success|succeeded|false|undefined|n\/a|0)$/i

/** True when an object without a status has the fields of an answer and not those of an error. */
export const isAnswer = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  (answerKeys.some((key) => isList(property(value, key))) ||
    endKeys.some((key) => typeof property(value, key) === "string") ||
    property(value, "promptFeedback") !== undefined)

const answerKeys = ["choices", "candidates", "output", "content"]
const endKeys = ["stop_reason", "stopReason", "finish_reason", "finishReason"]

/** Finish reasons that need no error code: the answer was complete, cut by a limit, or asks for a tool. */
const harmless = new Set([
  "stop",
  "end",
  "eos",
  "eos_token",
  "complete",
  "completed",
  "end_turn",
  "stop_sequence",
  "length",
  "max_tokens",
  "max_output_tokens",
  "tool_use",
  "tool_call",
  "tool_calls",
  "function_call",
  "pause_turn",
  "finish_reason_unspecified",
  "block_reason_unspecified",
  "null"
])

/** Finish reasons of a part of a successful response as codes: `end/refusal`, `end/content_filter`, `end/safety`. */
export const endsOf = (part: unknown): ReadonlyArray<string> => {
  if (typeof part !== "object" || part === null) return none
  const incomplete = reasonOf(
    property(property(property(part, "response") ?? part, "incomplete_details"), "reason")
  )
  const ends = incomplete === undefined ? [] : [incomplete, `end/${incomplete}`]
  for (const holder of [
    part,
    property(part, "delta"),
    property(part, "message"),
    property(part, "messageStop"),
    first(property(part, "choices")),
    first(property(part, "candidates"))
  ]) {
    if (typeof holder !== "object" || holder === null) continue
    for (const key of endKeys) add(property(holder, key), ends)
  }
  const feedback = property(part, "promptFeedback") ?? property(part, "prompt_feedback")
  add(property(feedback, "blockReason") ?? property(feedback, "block_reason"), ends)
  return ends
}

const none: ReadonlyArray<string> = []

/** Finish reason that an object states itself, e.g. the error that a client threw because of it. */
export const endOf = (value: unknown): string | undefined => {
  const given = property(value, "finishReason")
  const reason = reasonOf(property(given, "unified") ?? given)
  return reason === undefined ? undefined : `end/${reason}`
}

const add = (value: unknown, ends: Array<string>): void => {
  const reason = reasonOf(value)
  if (reason !== undefined && !ends.includes(`end/${reason}`)) ends.push(`end/${reason}`)
}

const reasonOf = (value: unknown): string | undefined => {
  if (typeof value !== "string" || value === "" || value.length > 60) return undefined
  const reason = value.toLowerCase().replaceAll("-", "_")
  return harmless.has(reason) ? undefined : reason
}

const first = (list: unknown): unknown => (isList(list) ? property(list, "0") : undefined)
