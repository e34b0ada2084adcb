/**
 * Anything that was thrown, in the one shape that rules read.
 *
 * The shape is found structurally, so that no provider package is imported here: AI SDK errors
 * (`statusCode`, `responseHeaders`, `responseBody`), `fetch` and undici errors (`code` in a cause), errors of
 * other HTTP clients (`status`, `headers`, `body`), `AiError` and its reasons, error parts of a stream
 * (plain objects), JSON and plain strings. Never throws.
 *
 * It may hold what a failure must not carry (a body may echo the prompt): facts are read by the classifier
 * and then dropped.
 */
import { Duration, Predicate } from "effect"
import { AiError } from "effect/ai"

export interface ErrorFacts {
  /** HTTP status; 200 for an error inside a stream that had begun. */
  readonly status: number | undefined
  /** `error.code`, `error.status` or errno: the first that is a word, most specific first. */
  readonly code: string | undefined
  /** `error.type` of the body. */
  readonly type: string | undefined
  /** Lower-cased names. */
  readonly headers: Readonly<Record<string, string>>
  /** The provider's sentence where the body has one, else the error's own message. */
  readonly message: string
  /** The raw body, where there is one, cut to {@link maxBody} characters. */
  readonly body: string
  /** The tag of an effect/ai reason, for example `RateLimitError`. */
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

/** Bodies longer than this are cut before any rule reads them, in characters. */
export const maxBody = 8_192

/** Causes deeper than this are not looked at. */
export const maxDepth = 5

/** The facts of an error and of its causes, outermost first. Cycles end the walk. */
export const fromUnknown = (error: unknown): readonly [ErrorFacts, ...Array<ErrorFacts>] => {
  const first = factsOf(error, 0)
  const chain: [ErrorFacts, ...Array<ErrorFacts>] = [first]
  const seen = new Set<unknown>([error])
  let link: unknown = property(error, "cause")
  for (let depth = 1; depth <= maxDepth && link !== undefined && link !== null && !seen.has(link); depth++) {
    seen.add(link)
    chain.push(factsOf(link, depth))
    link = property(link, "cause")
  }
  return chain
}

const factsOf = (thrown: unknown, depth: number): ErrorFacts => {
  // An AiError says what it knows in its reason, and keeps the response there.
  const error = AiError.isAiError(thrown) ? thrown.reason : thrown
  const http = AiError.isAiErrorReason(error) ? property(error, "http") : undefined
  const retryAfter = property(error, "retryAfter")
  const rawBody = property(error, "responseBody") ?? property(error, "body") ?? property(http, "body")
  const body = typeof rawBody === "string" ? rawBody : rawBody === undefined ? "" : (stringify(rawBody) ?? "")
  const parsed = bodyError(typeof error === "string" ? error : body) ?? bodyError(error)
  const ownMessage = typeof error === "string" ? error : text(property(error, "message"))
  return {
    status:
      statusOf(error) ??
      statusOf(property(error, "response")) ??
      statusOf(property(http, "response")) ??
      parsed?.status,
    code: parsed?.code ?? word(property(error, "code")),
    type: parsed?.type,
    headers: headersOf(
      property(error, "responseHeaders") ??
        property(error, "headers") ??
        property(property(error, "response"), "headers") ??
        property(property(http, "response"), "headers")
    ),
    message: parsed?.message ?? ownMessage ?? "",
    body: body.slice(0, maxBody),
    tag: AiError.isAiErrorReason(error) ? error._tag : undefined,
    networkReason: text(property(error, "reason")),
    retryAfter: Duration.isDuration(retryAfter) ? retryAfter : undefined,
    name: text(property(error, "name")) ?? "",
    depth
  }
}

interface BodyError {
  readonly status: number | undefined
  readonly code: string | undefined
  readonly type: string | undefined
  readonly message: string | undefined
}

/** The error object of a provider's body: `{error:{…}}`, `[{error:{…}}]` or the object itself. */
const bodyError = (body: unknown): BodyError | undefined => {
  const json = typeof body === "string" ? parse(body) : body
  const outer = Array.isArray(json) ? json[0] : json
  // A thrown Error is no body; a plain object may be the error part of a stream.
  const error = property(outer, "error") ?? (outer instanceof Error ? undefined : outer)
  if (typeof error === "string")
    return { status: undefined, code: undefined, type: undefined, message: error }
  if (!Predicate.isObject(error)) return undefined
  const details = property(error, "details")
  const reason = Array.isArray(details)
    ? details.map((detail) => word(property(detail, "reason"))).find((found) => found !== undefined)
    : word(property(details, "error_code"))
  const code = property(error, "code")
  return {
    status: typeof code === "number" ? httpStatus(code) : undefined,
    code: reason ?? word(code) ?? word(property(error, "status")),
    type: word(property(error, "type")),
    message: text(property(error, "message"))
  }
}

const statusOf = (value: unknown): number | undefined =>
  httpStatus(property(value, "statusCode")) ?? httpStatus(property(value, "status"))

const httpStatus = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) && value >= 100 && value <= 599 ? value : undefined

const headersOf = (value: unknown): Readonly<Record<string, string>> => {
  if (!Predicate.isObject(value)) return {}
  const entries: Iterable<readonly [string, unknown]> =
    value instanceof Headers ? value.entries() : Object.entries(value)
  const headers: Record<string, string> = {}
  for (const [name, content] of entries) {
    if (typeof content === "string") headers[name.toLowerCase()] = content
  }
  return headers
}

/** Reads a property without trusting getters: some errors throw from them. */
const property = (value: unknown, key: string): unknown => {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined
  try {
    return (value as Record<string, unknown>)[key] // narrowed to a non-null object above
  } catch {
    return undefined
  }
}

const parse = (body: string): unknown => {
  const trimmed = body.trimStart()
  if (!trimmed.startsWith("{") && !trimmed.startsWith("[")) return undefined
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

const stringify = (value: unknown): string | undefined => {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const word = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" && value.length <= 80 ? value : undefined
