/**
 * Turns an error of a client into a `ProviderFailure`.
 *
 * The classifier decides about answers of a provider: it gets the error unchanged, with status, headers,
 * body and causes. This module decides only about errors that a client itself creates, by their names: a request that
 * it could not send, an answer that it could not read. Their messages quote request or answer, so they are replaced.
 */
import { Classifier, FailoverReason, ProviderFailure } from "@outlast/agent"
import { Redaction } from "@outlast/agent/failure"
import { Predicate } from "effect"
import { LongError } from "./BodyLimit.ts"
import { isErrorBody } from "./DisguisedError.ts"

const local = (
  rule: string,
  matched: string | undefined,
  reason: FailoverReason.FailoverReason,
  detail: string
) =>
  new ProviderFailure.ProviderFailure({
    reason,
    evidence: { rule, signal: "local", matched, depth: 0 },
    detail
  })

/** The stream ended without a finish. `matched` is the client's name for it, if it has one. */
export const cut = (matched?: string): ProviderFailure.ProviderFailure =>
  local("stream/cut", matched, new FailoverReason.Network(), "The answer was cut before its end.")

/** The provider ended with an error that it did not explain. `raw` is its finish reason. */
export const finishedWithError = (raw: string | undefined): ProviderFailure.ProviderFailure =>
  badCall(raw) ??
  local(
    "stream/finish-error",
    raw,
    new FailoverReason.Format({ side: "response" }),
    "The provider ended the answer with an error."
  )

/** The failure for a finish reason that blames a tool call of the model. */
const badCall = (raw: string | undefined): ProviderFailure.ProviderFailure | undefined => {
  const problem = badCalls[raw ?? ""]
  return problem === undefined
    ? undefined
    : local(ProviderFailure.badCall, raw, new FailoverReason.Format({ side: "response", problem }), "")
}

/** Finish reasons of Gemini. */
const badCalls: Readonly<Record<string, string>> = {
  MALFORMED_FUNCTION_CALL: "cannot be read as JSON",
  UNEXPECTED_TOOL_CALL: "names a tool that was not offered",
  TOO_MANY_TOOL_CALLS: "is one of too many"
}

const request = new FailoverReason.Format({ side: "request" })
const response = new FailoverReason.Format({ side: "response" })

/** The key has a line break or an invisible character. The clients' own errors name only a position. */
export const keyNotSendable = (): ProviderFailure.ProviderFailure =>
  local(
    "key/characters",
    undefined,
    new FailoverReason.Auth({ permanent: false }),
    "The key has characters that no header can carry."
  )

/** The response is not a stream of events: a page or an error, without a single event. */
export const notStream = (contentType: string): ProviderFailure.ProviderFailure =>
  local(ProviderFailure.notEvents, contentType, response, "The response is not a stream of events.")

/** The answer is empty and has no known finish reason. */
export const nothing = (raw: string | undefined): ProviderFailure.ProviderFailure =>
  local("client/nothing", raw, response, "The answer is empty.")

/** The client returned a value that its own interface does not allow. */
export const unreadable = (): ProviderFailure.ProviderFailure =>
  local("client/unreadable", undefined, response, "The client returned an answer in an unknown form.")

/** `create` did not make a client. Not retryable, but another target may work. */
export const noClient = (error: unknown): ProviderFailure.ProviderFailure => {
  if (error instanceof ProviderFailure.ProviderFailure) return error
  const said = Predicate.hasProperty(error, "message") ? error.message : error
  const matched = typeof said === "string" && said !== "" ? said : undefined
  return (
    clientError(error) ?? local(ProviderFailure.notCreated, matched, new FailoverReason.ModelNotFound(), "")
  )
}

/** The failure for an error of a client that is known by its name. */
const clientError = (error: unknown): ProviderFailure.ProviderFailure | undefined => {
  const known = clientErrors[nameOf(error)]
  return known === undefined ? undefined : local("client/error", nameOf(error), ...known)
}

const nameOf = (error: unknown): string =>
  Predicate.hasProperty(error, "name") && typeof error.name === "string" ? error.name : ""

const clientErrors: Readonly<Record<string, readonly [FailoverReason.FailoverReason, string]>> = {
  AI_UnsupportedFunctionalityError: [request, "The client cannot send this request to the provider."],
  AI_InvalidPromptError: [request, "The client cannot send this prompt."],
  AI_NoSuchProviderReferenceError: [
    request,
    "A file lies at another provider: pass its bytes or a URL, or upload it here, too."
  ],
  AI_InvalidArgumentError: [request, "The client rejected an option."],
  AI_LoadAPIKeyError: [new FailoverReason.Auth({ permanent: false }), "The client has no key."],
  AI_JSONParseError: [response, "The answer is not JSON."],
  AI_TypeValidationError: [response, "The answer is not in the provider's own format."],
  AI_InvalidResponseDataError: [response, "The answer is not in the provider's own format."],
  AI_EmptyResponseBodyError: [response, "The answer is empty."],
  AI_NoContentGeneratedError: [response, "The answer is empty."]
}

/** Anthropic's client throws an error with this message when the first event of a stream is unreadable. */
const unknownFirstEvent = "Expected a normalized Anthropic stream error"

/** Removes secrets from the matched text: finish reasons and tool names come from the provider. */
const clean = (
  failure: ProviderFailure.ProviderFailure,
  secrets: Classifier.Options["secrets"]
): ProviderFailure.ProviderFailure => {
  const { evidence } = failure
  if (evidence.matched === undefined) return failure
  const matched = Redaction.scrub(evidence.matched, maxMatched, secrets)
  if (matched === evidence.matched) return failure
  return new ProviderFailure.ProviderFailure({ ...failure, evidence: { ...evidence, matched } })
}

const maxMatched = 240

/** The failure for any value that a client threw, or put into a stream as an error. */
export const failureOf = (error: unknown, options: Classifier.Options): ProviderFailure.ProviderFailure => {
  const ours = ownError(error)
  if (ours instanceof ProviderFailure.ProviderFailure) return clean(ours, options.secrets)
  // The client explains only that it could not read the body.
  if (ours !== undefined) return Classifier.failureOf(ours, options)
  const name = nameOf(error)
  // The OpenAI-compatible client reports the end of a cut stream this way. The error carries no data.
  if (
    name === "AI_InvalidResponseDataError" &&
    Predicate.hasProperty(error, "data") &&
    error.data === undefined
  ) {
    return cut()
  }
  if (name === "Error" && Predicate.hasProperty(error, "message") && error.message === unknownFirstEvent) {
    return unreadable()
  }
  return clientError(error) ?? Classifier.failureOf(asSaid(error), options)
}

type OwnError = ProviderFailure.ProviderFailure | LongError

const isOwn = (error: unknown): error is OwnError =>
  error instanceof ProviderFailure.ProviderFailure || error instanceof LongError

/** The error that `Fetch` threw, inside the errors that clients wrap around it. */
const ownError = (error: unknown): OwnError | undefined => {
  for (let at = error, depth = 0; depth < maxCauses; depth++) {
    if (isOwn(at)) return at
    if (!Predicate.hasProperty(at, "cause")) return undefined
    at = at.cause
  }
  return undefined
}

const maxCauses = 5

interface Disguised {
  readonly responseBody: string
  readonly responseHeaders?: unknown
}

/** True for an error with status 200 whose body is an error object. */
const isDisguised = (error: object): error is Disguised =>
  Predicate.hasProperty(error, "statusCode") &&
  error.statusCode === 200 &&
  Predicate.hasProperty(error, "responseBody") &&
  typeof error.responseBody === "string" &&
  isErrorBody(error.responseBody)

/** The error as the provider sent it, without the client's wrapping. */
const asSaid = (error: unknown): unknown => {
  if (!Predicate.isObject(error)) return error
  // An error inside a 200: OpenAI's client keeps the body as an object and invents a status of 400.
  if (Predicate.hasProperty(error, "responseBody") && Predicate.isObject(error.responseBody)) {
    const responseHeaders = Predicate.hasProperty(error, "responseHeaders")
      ? error.responseHeaders
      : undefined
    return { responseBody: error.responseBody, responseHeaders }
  }
  // The body is an error object, which the client could not read. The client's own message does not explain it.
  if (isDisguised(error)) {
    const { responseBody, responseHeaders } = error
    return { statusCode: 200, responseBody, responseHeaders }
  }
  // An error object out of a stream lacks the `{ error }` that bodies have.
  return error instanceof Error || "error" in error ? error : { ...error, error }
}
