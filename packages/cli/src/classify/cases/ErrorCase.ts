/**
 * One error as a line of JSON: its fields, and the error object that it describes. Pure.
 *
 * The classifier sees only the fields of {@link Case}. Labels, notes and sources in the line are ignored;
 * {@link labelled} reads the label for scoring.
 */
import { Predicate, Result } from "effect"
import type { Action } from "./Decision.ts"
import { actions, isAction, rightOf } from "./Decision.ts"
import type { Label } from "./Label.ts"
import { isLabel, labels } from "./Label.ts"

/** A link in a chain of causes. */
export interface Link {
  readonly name: string | undefined
  readonly message: string | undefined
  readonly code: string | undefined
}

/** The fields of an error. All are optional; null is the same as absent. */
export interface Case {
  readonly id: string | undefined
  /** Name of the provider whose wording it is. */
  readonly provider: string | undefined
  readonly status: number | undefined
  readonly code: string | undefined
  /** First value of each header. */
  readonly headers: Readonly<Record<string, string>>
  /** Raw text. A JSON body is converted back to text. */
  readonly body: string | undefined
  readonly message: string | undefined
  /** Causes of the error, outermost first. */
  readonly causes: ReadonlyArray<Link>
}

/** A case and its expected verdict. */
export interface Labelled {
  readonly case: Case
  readonly expected: Label
  /** Other labels that a careful reader could choose. */
  readonly alt: ReadonlyArray<Label>
  /** Actions that count as right. Default: those that the label allows. */
  readonly right: ReadonlyArray<Action>
  readonly retryAfterMs: number | undefined
}

/** The problem in a line and the expected value. Never quotes the line, which may contain secrets. */
export type Problem = string

const names = ["id", "provider", "status", "code", "headers", "body", "message", "cause_chain"]
const fields = `${names.slice(0, -1).join(", ")} and ${names.at(-1)}, all optional`

/** Reads a line. */
export const parse = (line: string): Result.Result<Case, Problem> => Result.flatMap(objectOf(line), decode)

/** Reads a line with its label. */
export const labelled = (line: string): Result.Result<Labelled, Problem> =>
  Result.flatMap(objectOf(line), (fields) =>
    Result.flatMap(decode(fields), (decoded) => {
      const { expected, alt = null, right = null, retry_after_ms: wait = null } = fields
      const oneOf = `one of ${labels.join(", ")}`
      if (!isLabel(expected)) return wrong("expected", oneOf)
      if (alt !== null && !(Array.isArray(alt) && alt.every(isLabel)))
        return wrong("alt", `a list of ${oneOf}`)
      if (right !== null && !(Array.isArray(right) && right.length > 0 && right.every(isAction)))
        return wrong("right", `a list of one or more of ${actions.join(", ")}`)
      if (wait !== null && !(isFinite(wait) && wait >= 0))
        return wrong("retry_after_ms", "null or a number from 0 up")
      return Result.succeed({
        case: decoded,
        expected,
        alt: alt ?? [],
        right: right ?? rightOf(expected, wait ?? undefined),
        retryAfterMs: wait ?? undefined
      })
    })
  )

type Fields = Readonly<Record<string, unknown>>

const objectOf = (line: string): Result.Result<Fields, Problem> => {
  let json: unknown
  try {
    json = JSON.parse(line)
  } catch {
    return Result.fail(`is not JSON. Expected one object a line, with the fields ${fields}.`)
  }
  return isRecord(json)
    ? Result.succeed(json)
    : Result.fail(`is ${kindOf(json)}. Expected an object with the fields ${fields}.`)
}

const decode = (fields: Fields): Result.Result<Case, Problem> => {
  const miswritten = Object.keys(fields).find(
    (name) => !names.includes(name) && names.includes(name.toLowerCase())
  )
  if (miswritten !== undefined)
    return Result.fail(
      `has a field "${miswritten}". Expected it in lower case: "${miswritten.toLowerCase()}".`
    )
  const { id = null, provider = null, status = null, code = null, headers = null } = fields
  const { body = null, message = null, cause_chain: causes = null } = fields
  if (id !== null && !isWord(id)) return wrong("id", "a string")
  if (provider !== null && typeof provider !== "string") return wrong("provider", "a string")
  if (status !== null && !isStatus(status)) return wrong("status", "an HTTP status from 100 to 599")
  if (code !== null && !isWord(code)) return wrong("code", "a string")
  if (headers !== null && !isHeaders(headers))
    return wrong("headers", "an object of strings, or of lists of strings")
  if (body !== null && typeof body !== "string" && !Predicate.isObject(body) && !Array.isArray(body))
    return wrong("body", "a JSON object or a string")
  const bodyText = body === null || typeof body === "string" ? (body ?? undefined) : textOfJson(body)
  if (body !== null && bodyText === undefined) return wrong("body", "an object that is nested less deeply")
  if (message !== null && typeof message !== "string") return wrong("message", "a string")
  if (causes !== null && !(Array.isArray(causes) && causes.every(isLink)))
    return wrong("cause_chain", "a list of { name, message, code }, each a string or null")
  return Result.succeed({
    id: textOf(id),
    provider: provider ?? undefined,
    status: status ?? undefined,
    code: textOf(code),
    headers: Object.fromEntries(Object.entries(headers ?? {}).flatMap(headerOf)),
    body: bodyText,
    message: message ?? undefined,
    causes: (causes ?? []).map((link) => ({
      name: link.name ?? undefined,
      message: link.message ?? undefined,
      code: textOf(link.code ?? null)
    }))
  })
}

/** Builds the error that a client would have thrown. */
export const errorOf = (given: Case): unknown => ({
  message: given.message ?? "",
  ...(given.status === undefined ? {} : { statusCode: given.status }),
  ...(given.code === undefined ? {} : { code: given.code }),
  ...(Object.keys(given.headers).length === 0 ? {} : { responseHeaders: given.headers }),
  ...(given.body === undefined ? {} : { responseBody: given.body }),
  ...(given.causes.length === 0 ? {} : { cause: given.causes.reduceRight(linkTo, undefined) })
})

const linkTo = (cause: unknown, { name, message, code }: Link): unknown => ({
  ...(name === undefined ? {} : { name }),
  message: message ?? "",
  ...(code === undefined ? {} : { code }),
  ...(cause === undefined ? {} : { cause })
})

const wrong = (field: string, expected: string): Result.Result<never, Problem> =>
  Result.fail(`has a wrong "${field}". Expected ${expected}${field === "expected" ? "" : ", or null"}.`)

const isRecord = (value: unknown): value is Fields => Predicate.isObject(value) && !Array.isArray(value)

const isFinite = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value)

const isStatus = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 100 && value <= 599

/** True for text or a number, because some providers use numeric codes. */
const isWord = (value: unknown): value is string | number => typeof value === "string" || isFinite(value)

const textOf = (value: string | number | null): string | undefined =>
  value === null ? undefined : String(value)

/** Returns JSON as text. A value that was parsed may still be nested too deeply to be written. */
const textOfJson = (json: unknown): string | undefined => {
  try {
    return JSON.stringify(json)
  } catch {
    return undefined
  }
}

type Value = string | number | null

/** True for an object of headers. A header may be absent, or a list of values, of which the first counts. */
const isHeaders = (value: unknown): value is Readonly<Record<string, Value | ReadonlyArray<Value>>> =>
  isRecord(value) &&
  Object.values(value).every((one) => isValue(one) || (Array.isArray(one) && one.every(isValue)))

const isValue = (value: unknown): value is Value => value === null || isWord(value)

const headerOf = ([name, value]: readonly [string, Value | ReadonlyArray<Value>]): ReadonlyArray<
  readonly [string, string]
> => {
  const first = isValue(value) ? value : value.find((one) => one !== null)
  return first === undefined || first === null ? [] : [[name, String(first)]]
}

interface RawLink {
  readonly name?: string | null
  readonly message?: string | null
  readonly code?: string | number | null
}

const isLink = (value: unknown): value is RawLink => {
  if (!isRecord(value)) return false
  const { name = null, message = null, code = null } = value
  return (
    (name === null || typeof name === "string") &&
    (message === null || typeof message === "string") &&
    (code === null || isWord(code))
  )
}

const kindOf = (json: unknown): string =>
  json === null ? "null" : Array.isArray(json) ? "a list" : `a ${typeof json}`
