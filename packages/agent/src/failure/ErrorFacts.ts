/**
 * Anything that was thrown, in the one shape that rules read.
 *
 * The shape is found structurally, so that no provider package is imported here: AI SDK errors
 * (`statusCode`, `responseHeaders`, `responseBody`), `fetch` and undici errors (`code` in a cause), errors of
 * other HTTP clients (`status`, `headers`, `body`), `AiError` and `HttpClientError` and their reasons, `Cause`
 * and `Exit`, `AggregateError`, error parts of a stream (plain objects), JSON and plain strings. Never throws.
 *
 * It may hold what a failure must not carry (a body may echo the prompt): facts are read by the classifier
 * and then dropped.
 */
import { Cause, Duration, Exit, Predicate } from "effect"
import { AiError } from "effect/ai"
import * as Body from "./BodyFacts.ts"
import { property } from "./BodyFacts.ts"
import * as Texts from "./TextFacts.ts"

export interface ErrorFacts {
  /** HTTP status as the client saw it, else as a body or text says; 200 for an error inside a stream. */
  readonly status: number | undefined
  /** The status that a body or a text names, where that is more than what is around it. */
  readonly said: number | undefined
  /** Codes, types, gRPC statuses, errno and names of errors, lower-cased; what is most specific comes first. */
  readonly codes: ReadonlyArray<string>
  /** Lower-cased names. */
  readonly headers: Readonly<Record<string, string>>
  /** The provider's sentence where the body has one, else the error's own message. */
  readonly message: string
  /** All that is said, lower-cased, in one line, without escapes, cut to some thousand characters. */
  readonly text: string
  /** The words of {@link text}. */
  readonly words: ReadonlySet<string>
  /** Whether the body is no JSON although one was expected: a page, or plain text. */
  readonly page: boolean
  /** Waits that a body names: lower-cased key and value as they stand. */
  readonly waits: ReadonlyArray<readonly [key: string, value: string]>
  /** The tag of a reason of Effect (`RateLimitError`, `TransportError`, …), `Interrupted` or `TimeoutError`. */
  readonly tag: string | undefined
  /** Which part of the network an effect/ai `NetworkError` is about, for example `TransportError`. */
  readonly networkReason: string | undefined
  /** How long an effect/ai reason says to wait. */
  readonly retryAfter: Duration.Duration | undefined
  /** The error's name, for example `AI_APICallError` or `AbortError`. */
  readonly name: string
  /** 0 for the error itself, n for its n-th cause. */
  readonly depth: number
}

/** One link or more, outermost first. */
export type Chain = readonly [ErrorFacts, ...Array<ErrorFacts>]

/** Sentences longer than this are cut, in characters. */
export const maxBody = Body.maxText

/** Causes deeper than this are not looked at. */
export const maxDepth = 5

/** Errors of an `AggregateError` beyond this number are not looked at. */
const maxErrors = 5

/** The facts of an error and of its causes, outermost first. Cycles end the walk. */
export const fromUnknown = (error: unknown): Chain => {
  const chain: Array<ErrorFacts> = []
  const seen = new Set<unknown>()
  const visit = (link: unknown, depth: number): void => {
    if (depth > maxDepth || seen.has(link)) return
    if (Predicate.isObject(link)) seen.add(link)
    const thrown = unwrap(link)
    if (thrown !== link && seen.has(thrown)) return
    const { facts, cause } = factsOf(thrown, depth)
    chain.push(facts)
    for (const inner of [...errorsOf(thrown), cause]) {
      if (inner !== undefined && inner !== null) visit(inner, depth + 1)
    }
  }
  try {
    visit(error, 0)
  } catch {
    // What throws when it is looked at tells no more than what was read before.
  }
  const [head, ...tail] = chain
  return head === undefined ? [factsOf(undefined, 0).facts] : [head, ...tail]
}

/** What stands for an interruption in a `Cause`. */
const interrupted = { _tag: "Interrupted" }

/** The error inside the wrappers of Effect. */
const unwrap = (error: unknown): unknown => {
  if (!Predicate.isObject(error)) return error
  try {
    const cause = Exit.isExit(error) && Exit.isFailure(error) ? error.cause : error
    if (!Cause.isCause(cause)) return error
    return Cause.hasInterruptsOnly(cause) ? interrupted : Cause.squash(cause)
  } catch {
    return error
  }
}

/** The errors of an `AggregateError`, or the last one of a client that had tried several times. */
const errorsOf = (error: unknown): ReadonlyArray<unknown> => {
  const last = property(error, "lastError")
  if (last !== undefined) return [last]
  const errors = error instanceof Error ? property(error, "errors") : undefined
  if (!Array.isArray(errors)) return []
  return Array.from({ length: Math.min(errors.length, maxErrors) }, (_, i) => property(errors, String(i)))
}

const factsOf = (thrown: unknown, depth: number): { readonly facts: ErrorFacts; readonly cause: unknown } => {
  // What these say stands in their reason, and the response there, too.
  const wrapper = AiError.isAiError(thrown) || property(thrown, "_tag") === "HttpClientError"
  const error = wrapper ? (property(thrown, "reason") ?? thrown) : thrown
  const http = property(error, "http")
  const response = property(error, "response") ?? property(http, "response")
  const retryAfter = property(error, "retryAfter")
  const own = ownFacts(error)
  const rawBody =
    property(error, "responseBody") ??
    property(error, "body") ??
    property(http, "body") ??
    property(response, "data") ??
    (error instanceof Error ? (property(error, "error") ?? property(error, "data")) : undefined)
  const seen = Body.empty()
  Body.walk(rawBody, seen)
  const sentence = seen.texts[0]
  const page = typeof rawBody === "string" && seen.texts.length === 1 && Body.parse(rawBody) === undefined
  const name = text(property(error, "name")) ?? ""
  const tag =
    wrapper || AiError.isAiErrorReason(error) || isOurs(error) ? text(property(error, "_tag")) : undefined
  const explicit = statusOf(error) ?? statusOf(response)
  // Text inside a success is an answer, unless it is a stream of events.
  const isAnswer =
    page && explicit !== undefined && explicit < 300 && !/^\s*(?:event|data):/.test(sentence ?? "")
  const prepared = Texts.prepare(own.texts, isAnswer ? [] : seen.texts)
  const inBody = seen.statuses.at(-1) ?? own.statuses.at(-1)
  // Inside a success, a number is a part of the answer; behind a 4xx, nothing says more than it.
  const decided = inBody ?? explicit
  const stated = decided === undefined || decided >= 500 ? Texts.status(prepared.text) : undefined
  const said = stated ?? inBody
  const codes = new Set<string>()
  for (const code of [...seen.codes.toReversed(), ...own.codes.toReversed(), name]) {
    if (code !== "") codes.add(code.toLowerCase())
  }
  const headers = Body.headersOf([
    ...seen.headers,
    ...own.headers,
    property(response, "headers"),
    property(error, "headers"),
    property(error, "responseHeaders")
  ])
  const amazon = headers["x-amzn-errortype"]
  if (amazon !== undefined) codes.add((amazon.split(":")[0] ?? "").toLowerCase())
  const facts: ErrorFacts = {
    status: explicit ?? said,
    said,
    codes: [...codes],
    headers,
    message: Body.cut(
      (page ? undefined : sentence) ?? own.texts[0] ?? sentence ?? text(property(error, "message")) ?? ""
    ),
    text: prepared.text,
    get words() {
      return prepared.words()
    },
    page,
    waits: [...seen.waits, ...own.waits],
    tag,
    networkReason: text(property(error, "reason")),
    retryAfter: Duration.isDuration(retryAfter) ? retryAfter : undefined,
    name,
    depth
  }
  const cause = property(error, "cause") ?? (error === thrown ? undefined : property(thrown, "cause"))
  return { facts, cause }
}

/** Errors of clients that quote what they could not read: their words are those of an answer. */
const quoting = new Set([
  "AI_TypeValidationError",
  "AI_JSONParseError",
  "ZodError",
  "$ZodError",
  "SchemaError"
])

/** What the error says itself, without its body. */
const ownFacts = (error: unknown): Body.Seen => {
  const seen = Body.empty()
  if (quoting.has(text(property(error, "name")) ?? "")) return seen
  if (error instanceof Error || AiError.isAiErrorReason(error)) {
    // The message of a reason of effect/ai is Effect's sentence; what was said is its description.
    const message = property(
      error,
      error instanceof Error && !AiError.isAiErrorReason(error) ? "message" : "description"
    )
    if (typeof message === "string") Body.walk(message, seen)
    for (const key of ["type", "code"]) {
      const word = property(error, key)
      if (typeof word === "string" && word !== "" && word.length <= 80) {
        if (/^[1-5]\d\d$/.test(word)) seen.statuses.push(Number(word))
        else seen.codes.push(word)
      }
    }
  } else if (Array.isArray(error) || !Predicate.isObject(error)) {
    Body.walk(error, seen)
  } else {
    Body.walk(withoutBody(error), seen)
  }
  return seen
}

/** A thrown object without what is read apart from it. */
const withoutBody = (error: object): unknown => {
  const fields: Record<string, unknown> = {}
  for (const key of [
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
    "data",
    "response",
    "retryDelay"
  ]) {
    const value = property(error, key)
    if (value !== undefined) fields[key] = value
  }
  return fields
}

const isOurs = (error: unknown): boolean => error === interrupted || Cause.isTimeoutError(error)

const statusOf = (value: unknown): number | undefined =>
  Body.httpStatus(property(value, "statusCode")) ?? Body.httpStatus(property(value, "status"))

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)
