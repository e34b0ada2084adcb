/**
 * What went wrong in a client, as a `ProviderFailure`.
 *
 * What a provider said is the classifier's matter: it gets the error as it was thrown, with status, headers,
 * body and causes. Decided here are only the errors that a client makes itself, by their names: what it could
 * not send, and what it could not read. Their messages quote the request or the answer, so they are replaced.
 */
import { Classifier, FailoverReason, ProviderFailure } from "@outlast/agent"
import { Redaction } from "@outlast/agent/failure"
import { Predicate } from "effect"
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

/** The answer ended without an end. `matched` is what the client called it, where it called it anything. */
export const cut = (matched?: string): ProviderFailure.ProviderFailure =>
  local("stream/cut", matched, new FailoverReason.Network(), "The answer was cut before its end.")

/** The provider ended with an error and did not say which. `raw` is its finish reason. */
export const finishedWithError = (raw: string | undefined): ProviderFailure.ProviderFailure =>
  local(
    "stream/finish-error",
    raw,
    new FailoverReason.Format({ side: "response" }),
    "The provider gave up the answer."
  )

const request = new FailoverReason.Format({ side: "request" })
const response = new FailoverReason.Format({ side: "response" })

/** The key was pasted with a line break or an invisible character; the clients' errors for it blame an index. */
export const keyNotSendable = (): ProviderFailure.ProviderFailure =>
  local(
    "key/characters",
    undefined,
    new FailoverReason.Auth({ permanent: false }),
    "The key has characters that no header can carry."
  )

/** What came in place of a stream of events: a page, an error, without any event in it. */
export const notStream = (contentType: string): ProviderFailure.ProviderFailure =>
  local(ProviderFailure.notEvents, contentType, response, "The answer is no stream of events.")

/** The answer ended, for no reason that it knows, and has nothing in it. */
export const nothing = (raw: string | undefined): ProviderFailure.ProviderFailure =>
  local("client/nothing", raw, response, "The answer is empty.")

/** The client gave something that its own interface does not allow. */
export const unreadable = (): ProviderFailure.ProviderFailure =>
  local("client/unreadable", undefined, response, "The client's answer cannot be understood.")

/** A client that `create` did not make. Repeating cannot help, and another target may work. */
export const noClient = (error: unknown): ProviderFailure.ProviderFailure => {
  if (error instanceof ProviderFailure.ProviderFailure) return error
  const said = Predicate.hasProperty(error, "message") ? error.message : error
  const matched = typeof said === "string" && said !== "" ? said : undefined
  return (
    clientError(error) ?? local(ProviderFailure.notCreated, matched, new FailoverReason.ModelNotFound(), "")
  )
}

/** The failure behind an error that the client made itself, if it is known by its name. */
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
  AI_InvalidArgumentError: [request, "The client refused an option."],
  AI_LoadAPIKeyError: [new FailoverReason.Auth({ permanent: false }), "The client was given no key."],
  AI_JSONParseError: [response, "The answer is not JSON."],
  AI_TypeValidationError: [response, "The answer is not in the provider's own format."],
  AI_InvalidResponseDataError: [response, "The answer is not in the provider's own format."],
  AI_EmptyResponseBodyError: [response, "The answer is empty."],
  AI_NoContentGeneratedError: [response, "The answer is empty."]
}

/** What Anthropic's client throws when a stream begins with an event that it cannot read. It has no name. */
const unknownFirstEvent = "Expected a normalized Anthropic stream error"

/** Takes secrets out of what matched: reasons of ends and names of tools are the provider's own words. */
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

/** The failure behind anything that a client threw, or put into a stream as an error. */
export const failureOf = (error: unknown, options: Classifier.Options): ProviderFailure.ProviderFailure => {
  const ours = ownFailure(error)
  if (ours !== undefined) return clean(ours, options.secrets)
  const name = nameOf(error)
  // The OpenAI-compatible client reports the end of a cut stream this way: there are no data to blame.
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

/** The failure that `Fetch` threw, behind what clients put around it. */
const ownFailure = (error: unknown): ProviderFailure.ProviderFailure | undefined => {
  for (let at = error, depth = 0; depth < maxCauses; depth++) {
    if (at instanceof ProviderFailure.ProviderFailure) return at
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

/** An error with status 200 whose body is an error object. */
const isDisguised = (error: object): error is Disguised =>
  Predicate.hasProperty(error, "statusCode") &&
  error.statusCode === 200 &&
  Predicate.hasProperty(error, "responseBody") &&
  typeof error.responseBody === "string" &&
  isErrorBody(error.responseBody)

/** The error as the provider said it, where the client put a form of its own around it. */
const asSaid = (error: unknown): unknown => {
  if (!Predicate.isObject(error)) return error
  // An error inside a 200: OpenAI's client keeps the body as an object, and makes up a status of 400.
  if (Predicate.hasProperty(error, "responseBody") && Predicate.isObject(error.responseBody)) {
    const responseHeaders = Predicate.hasProperty(error, "responseHeaders")
      ? error.responseHeaders
      : undefined
    return { responseBody: error.responseBody, responseHeaders }
  }
  // The client could not read the body, because it is an error: its own sentence says nothing.
  if (isDisguised(error)) {
    const { responseBody, responseHeaders } = error
    return { statusCode: 200, responseBody, responseHeaders }
  }
  // An error object out of a stream, without the `{ error }` around it that bodies have.
  return error instanceof Error || "error" in error ? error : { ...error, error }
}
