/**
 * Normalises anything that was thrown to the one shape that rules read.
 *
 * The shape is detected structurally, so this module imports no provider package. Supported are AI SDK errors
 * (`statusCode`, `responseHeaders`, `responseBody`), `fetch` and undici errors (`code` in a cause), errors of other
 * HTTP clients (`status`, `headers`, `body`), `AiError` and `HttpClientError` and their reasons, `Cause` and
 * `Exit`, `AggregateError`, error parts of a stream (plain objects), JSON and plain strings. Never throws.
 *
 * Facts may hold content that a failure must not carry, e.g. an echo of the prompt. The classifier reads them and
 * then drops them.
 */
import { Cause, Duration, Exit } from "effect"
import { AiError } from "effect/ai"
import * as Answer from "./AnswerFacts.ts"
import * as Body from "./BodyFacts.ts"
import * as Headers from "./HeaderFacts.ts"
import { holds, isError, isList, itemsOf, keysOf, property } from "./Looking.ts"
import * as Sentence from "./Sentence.ts"
import * as Texts from "./TextFacts.ts"

export interface ErrorFacts {
  /** HTTP status from the client, otherwise from the body or the text; 200 for an error inside a stream. */
  readonly status: number | undefined
  /** Status that a body or a text names, if it is more specific than the response's own. */
  readonly said: number | undefined
  /** Codes, types, gRPC statuses, errno and error names, lower-cased, the most specific first. */
  readonly codes: ReadonlyArray<string>
  /** Headers by lower-cased name. Oversized values are left out. */
  readonly headers: Readonly<Record<string, string>>
  /** The provider's sentence if the body has one, otherwise the error's own message. */
  readonly message: string
  /**
   * All texts of the error and its body in one lower-cased line, without escapes, cut to {@link maxBody}
   * characters.
   */
  readonly text: string
  /** True when the body is not JSON although JSON was expected: an HTML page, or plain text. */
  readonly page: boolean
  /** Waits that a body names: the lower-cased key and the value as the body has it. */
  readonly waits: ReadonlyArray<readonly [key: string, value: string]>
  /** Tag of an Effect error or reason (`RateLimitError`, `TransportError`, …), `Interrupted` or `TimeoutError`. */
  readonly tag: string | undefined
  /** Network reason of an effect/ai `NetworkError`, for example `TransportError`. */
  readonly networkReason: string | undefined
  /** Wait that an effect/ai reason states. */
  readonly retryAfter: Duration.Duration | undefined
  /** The error's name, for example `AI_APICallError` or `AbortError`. */
  readonly name: string
  /** 0 for the error itself, n for its n-th cause. */
  readonly depth: number
}

/** Facts of an error and its causes, outermost first. Errors of the same depth keep their order. */
export type Chain = readonly [ErrorFacts, ...Array<ErrorFacts>]

/** Longer sentences are cut, in characters. */
export const maxBody = Body.maxText

/** Levels of causes that are visited, at most. */
export const maxDepth = 5

/** Errors of one `AggregateError` that are visited, at most. */
const maxErrors = 5

/** Errors of a whole error graph that are visited, at most. */
export const maxLinks = 32

/** Longest code, name or tag, in characters. Longer ones are ignored. */
const maxWord = 80

/** Facts of an error and of its causes, outermost first. Each object is visited once, so cycles end. */
export const fromUnknown = (error: unknown): Chain => {
  const outermost = unwrap(error)
  const first = visit(outermost, 0)
  const chain: [ErrorFacts, ...Array<ErrorFacts>] = [first.facts]
  if (first.inner.length === 0) return chain
  const seen = new Set([error, outermost])
  let level = first.inner
  for (let depth = 1; depth <= maxDepth && level.length > 0; depth++) {
    const next: Array<unknown> = []
    for (const link of level) {
      if (chain.length >= maxLinks) return chain
      const thrown = unwrap(link)
      if (seen.has(link) || seen.has(thrown)) continue
      if (typeof thrown === "object") seen.add(link).add(thrown)
      const { facts, inner } = visit(thrown, depth)
      chain.push(facts)
      next.push(...inner)
    }
    level = next
  }
  return chain
}

interface Visit {
  readonly facts: ErrorFacts
  /** The errors inside it. None is undefined or null. */
  readonly inner: ReadonlyArray<unknown>
}

const visit = (thrown: unknown, depth: number): Visit => {
  const { facts, cause } = factsOf(thrown, depth)
  const inner = errorsOf(thrown)
  return { facts, inner: isThere(cause) ? [...inner, cause] : inner }
}

const isThere = (value: unknown): boolean => value !== undefined && value !== null

/** Stands for an interruption in a `Cause`. */
const interrupted = { _tag: "Interrupted" }

/** Unwraps the error from Effect's `Exit` and `Cause`. */
const unwrap = (error: unknown): unknown => {
  if (typeof error !== "object" || error === null) return error
  try {
    const cause = Exit.isExit(error) && Exit.isFailure(error) ? error.cause : error
    if (!Cause.isCause(cause)) return error
    return Cause.hasInterruptsOnly(cause) ? interrupted : Cause.squash(cause)
  } catch {
    return error
  }
}

/** The errors of an `AggregateError`, or the last error of a client that retried by itself. */
const errorsOf = (error: unknown): ReadonlyArray<unknown> => {
  const last = property(error, "lastError")
  if (isThere(last)) return [last]
  return isError(error) ? itemsOf(property(error, "errors"), maxErrors).filter(isThere) : none
}

const none: ReadonlyArray<unknown> = []

const factsOf = (thrown: unknown, depth: number): { readonly facts: ErrorFacts; readonly cause: unknown } => {
  // These wrappers repeat the text of their reason. The response is in the reason, too.
  const wrapper = holds(AiError.isAiError, thrown) || property(thrown, "_tag") === "HttpClientError"
  const error = wrapper ? (property(thrown, "reason") ?? thrown) : thrown
  const isReason = holds(AiError.isAiErrorReason, error)
  const http = property(error, "http")
  const response = property(error, "response") ?? property(http, "response")
  const name = word(property(error, "name")) ?? ""
  const own = ownFacts(error, name, isReason)
  // AWS clients keep the raw response under names of their own.
  const aws = property(error, "$response")
  const explicit =
    statusOf(error) ??
    statusOf(response) ??
    Body.httpStatus(property(property(error, "$metadata"), "httpStatusCode")) ??
    statusOf(aws)
  const body =
    property(error, "responseBody") ??
    property(error, "body") ??
    property(http, "body") ??
    property(response, "data") ??
    (isError(error) ? (property(error, "error") ?? property(error, "data")) : undefined)
  const { seen, page } = Body.read(body, explicit)
  const joined = Texts.join(own.texts, seen.texts)
  const inBody = seen.statuses.at(-1) ?? own.statuses.at(-1)
  // A status in the text counts only without another status, or beside a 5xx: a 4xx is already specific, and a
  // number inside a success is part of the answer.
  const decided = inBody ?? explicit
  const stated = decided === undefined || decided >= 500 ? Texts.status(joined) : undefined
  const said = stated ?? inBody
  const headers = Headers.from([
    ...seen.headers,
    ...own.headers,
    property(aws, "headers"),
    property(response, "rawHeaders"),
    property(response, "headers"),
    property(error, "rawHeaders"),
    property(error, "headers"),
    property(error, "responseHeaders")
  ])
  const sentence = Sentence.of(seen)
  const facts: ErrorFacts = {
    status: explicit ?? said,
    said,
    codes: codesOf(seen.codes, own.codes, name, headers["x-amzn-errortype"]),
    headers,
    message: Body.cut(
      (page ? undefined : sentence) ??
        Sentence.of(own) ??
        sentence ??
        text(property(error, "message")) ??
        (body === undefined ? shown(error) : "")
    ),
    text: joined,
    page,
    waits: own.waits.length === 0 ? seen.waits : [...seen.waits, ...own.waits],
    tag: wrapper || isReason || isOurs(error) ? word(property(error, "_tag")) : undefined,
    networkReason: word(property(error, "reason")),
    retryAfter: durationOf(property(error, "retryAfter")),
    name,
    depth
  }
  const cause = property(error, "cause") ?? (error === thrown ? undefined : property(thrown, "cause"))
  return { facts, cause }
}

/** Lower-cased codes without duplicates, the most specific first: the deepest of the body, then the error's own. */
const codesOf = (
  body: ReadonlyArray<string>,
  own: ReadonlyArray<string>,
  name: string,
  amazon: string | undefined
): ReadonlyArray<string> => {
  const codes: Array<string> = []
  const add = (code: string): void => {
    const lower = code.toLowerCase()
    if (lower !== "" && !codes.includes(lower)) codes.push(lower)
  }
  for (let i = body.length - 1; i >= 0; i--) add(body[i] ?? "")
  for (let i = own.length - 1; i >= 0; i--) add(own[i] ?? "")
  add(name)
  if (amazon !== undefined) add((amazon.split(":")[0] ?? "").slice(0, maxWord))
  return codes
}

/** Copies the duration, because the original may throw when it is read later. */
const durationOf = (value: unknown): Duration.Duration | undefined => {
  if (value === undefined) return undefined
  try {
    return Duration.isDuration(value) ? Duration.millis(Duration.toMillis(value)) : undefined
  } catch {
    return undefined
  }
}

/** Errors of clients that quote the answer they could not parse. Their messages are not read as errors. */
const quoting = new Set([
  "AI_TypeValidationError",
  "AI_JSONParseError",
  "ZodError",
  "$ZodError",
  "SchemaError",
  "SyntaxError"
])

/** The corresponding effect/ai reasons. */
const quotingTags = new Set([
  "InvalidOutputError",
  "StructuredOutputError",
  "ToolParameterValidationError",
  "InvalidToolResultError",
  "ToolResultEncodingError"
])

/** Facts of the error itself, without its body. */
const ownFacts = (error: unknown, name: string, isReason: boolean): Body.Seen => {
  const seen = Body.empty()
  if (quoting.has(name) || (isReason && quotingTags.has(word(property(error, "_tag")) ?? ""))) {
    // The quoted value may still be an error part.
    Body.walkField(Object(error), "value", seen)
    return seen
  }
  const end = Answer.endOf(error)
  if (end !== undefined) seen.codes.push(end)
  if (isReason || isError(error)) {
    // The message of an effect/ai reason is a fixed sentence. The provider's text is in `description`.
    const message = property(error, isReason ? "description" : "message")
    if (typeof message === "string") Body.walk(message, seen)
    for (const key of ["type", "code"]) addCode(error, key, seen)
    const fault = word(property(error, "$fault"))
    if (fault !== undefined) seen.codes.push(`$fault:${fault}`)
  } else if (typeof error !== "object" || error === null || isList(error)) {
    Body.walk(error, seen)
  } else {
    if (Answer.isAnswer(error)) {
      Body.walkAnswer(error, seen)
      return seen
    }
    seen.visited.add(error)
    // Most keys are absent.
    for (const key of ownKeys) if (isThere(property(error, key))) Body.walkField(error, key, seen)
    for (const key of keysOf(error, maxKeys)) {
      if (key.endsWith("Exception")) Body.walkField(error, key, seen)
    }
  }
  return seen
}

const addCode = (error: unknown, key: string, seen: Body.Seen): void => {
  const given = property(error, key)
  if (typeof given === "number") {
    // The code of a DOMException is the number of its kind, not a status.
    if (property(error, "ABORT_ERR") === undefined) Body.addNumber(given, seen)
    return
  }
  const code = word(given)
  if (code === undefined || code === "") return
  if (/^[1-5]\d\d$/.test(code)) seen.statuses.push(Number(code))
  else seen.codes.push(code)
}

/** Number of keys of a thrown object that are visited, at most. */
const maxKeys = 64

/** Length of {@link shown}, at most, in characters. */
const maxShown = 200

/**
 * Describes a thrown value that has no message, for a person: its short plain fields, or its own `toString`. No
 * rule reads it.
 */
const shown = (thrown: unknown): string => {
  switch (typeof thrown) {
    case "number":
    case "boolean":
    case "bigint":
    case "symbol":
      return String(thrown).slice(0, maxShown)
    case "function":
      return `[function ${word(property(thrown, "name")) ?? ""}]`
    case "object":
      if (thrown === null || isError(thrown) || isList(thrown) || isOurs(thrown) || Answer.isAnswer(thrown))
        return ""
      return (named(thrown) ?? fieldsOf(thrown)).slice(0, maxShown)
    default:
      return ""
  }
}

/** The text of the value's own `toString`, if it has one. */
const named = (thrown: object): string | undefined => {
  const own = property(thrown, "toString")
  if (typeof own !== "function" || own === Object.prototype.toString) return undefined
  try {
    const text: unknown = own.call(thrown)
    return typeof text === "string" && text !== "" ? text : undefined
  } catch {
    return undefined
  }
}

const fieldsOf = (thrown: object): string => {
  const fields: Array<string> = []
  for (const key of keysOf(thrown, 8)) {
    const value = property(thrown, key)
    const plain = typeof value === "string" ? word(value) : value
    const isPlain = ["string", "number", "boolean"].includes(typeof plain)
    if (key.length <= maxWord) fields.push(`${JSON.stringify(key)}:${isPlain ? JSON.stringify(plain) : "…"}`)
  }
  return fields.length === 0 ? "" : `{${fields.join(",")}}`
}

/** Fields of a thrown object that may describe the failure. The body is read separately. */
const ownKeys = [
  "message",
  "msg",
  "detail",
  "details",
  "error",
  "errors",
  "metadata",
  "$metadata",
  "code",
  "type",
  "status",
  "reason",
  "name",
  "__type",
  "errorType",
  "error_type",
  "error_code",
  "errorCode",
  "errcode",
  "error_msg",
  "errmsg",
  "errorMessage",
  "error_message",
  "status_msg",
  "$fault",
  "data",
  "response",
  "retryDelay",
  "base_resp"
] as const

const isOurs = (error: unknown): boolean => error === interrupted || holds(Cause.isTimeoutError, error)

const statusOf = (value: unknown): number | undefined =>
  Body.httpStatus(property(value, "statusCode")) ?? Body.httpStatus(property(value, "status"))

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const word = (value: unknown): string | undefined =>
  typeof value === "string" && value.length <= maxWord ? value : undefined
