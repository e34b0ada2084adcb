/**
 * What a provider's error body says: codes, statuses, sentences and waits, wherever they are nested.
 *
 * JSON is walked along the keys under which providers put errors, JSON inside strings included, so that an echo
 * of the request is not taken for an error. What looks like JSON and is none (cut, escaped twice, Python's
 * dictionaries, a sentence with a body behind it) is scanned for the same keys.
 */
import { Predicate } from "effect"

export interface Seen {
  /** As they stand, in the order of discovery: the deepest last. */
  readonly codes: Array<string>
  readonly statuses: Array<number>
  readonly texts: Array<string>
  /** Waits by lower-cased key, as they stand. */
  readonly waits: Array<readonly [key: string, value: string]>
  readonly headers: Array<unknown>
  readonly visited: Set<object>
}

export const empty = (): Seen => ({
  codes: [],
  statuses: [],
  texts: [],
  waits: [],
  headers: [],
  visited: new Set()
})

/** Texts longer than this are cut in the middle before they are read, in characters. */
export const maxText = 8_192

const maxNesting = 8
const maxItems = 20

const codeKeys = new Set([
  "code",
  "type",
  "status",
  "reason",
  "error_code",
  "errorcode",
  "errortype",
  "error_type",
  "__type",
  "provider_error_code",
  "name"
])
const statusKeys = new Set(["code", "status", "statuscode", "status_code", "http_status", "httpstatuscode"])
const textKeys = new Set([
  "message",
  "msg",
  "error",
  "detail",
  "details",
  "raw",
  "error_msg",
  "errormessage",
  "error_message",
  "error_description",
  "body",
  "data",
  "title",
  "quotaid",
  "quotametric"
])
const nestingKeys = new Set([
  "error",
  "errors",
  "detail",
  "details",
  "metadata",
  "$metadata",
  "raw",
  "upstream_error",
  "innererror",
  "inner_error",
  "response",
  "body",
  "data",
  "violations",
  "result",
  "exception",
  "incomplete_details",
  "fault"
])
const waitKeys = new Set([
  "retrydelay",
  "retry_delay",
  "retry_after",
  "retryafter",
  "retry-after",
  "retry_after_ms",
  "retryafterms",
  "retry_after_seconds",
  "retryafterseconds"
])

/** Objects of one body that are looked at, at most. */
const maxVisited = 500

/** The middle of a long text says least. */
export const cut = (text: string, limit = maxText): string =>
  text.length <= limit ? text : `${text.slice(0, limit * 0.75)} ${text.slice(-limit * 0.25)}`

/** Walks a value that is an error body, or holds one. Each object once: bodies may hold themselves. */
export const walk = (value: unknown, seen: Seen, nesting = 0): void => {
  if (nesting > maxNesting) return
  if (typeof value === "object" && value !== null) {
    if (seen.visited.has(value) || seen.visited.size >= maxVisited) return
    seen.visited.add(value)
  }
  if (typeof value === "string") return readText(value, seen, nesting)
  if (Array.isArray(value)) {
    for (let i = 0; i < Math.min(value.length, maxItems); i++)
      walk(property(value, String(i)), seen, nesting + 1)
    return
  }
  if (!Predicate.isObject(value)) return
  for (const key of keysOf(value)) {
    const name = key.toLowerCase()
    const content = property(value, key)
    if (typeof content === "string") {
      if (codeKeys.has(name)) addCode(name, content, seen)
      if (waitKeys.has(name)) seen.waits.push([name, content])
      if (textKeys.has(name)) readText(content, seen, nesting + 1)
    } else if (typeof content === "number") {
      if (statusKeys.has(name)) addNumber(content, seen)
      if (waitKeys.has(name)) seen.waits.push([name, String(content)])
    } else if (name === "headers") {
      seen.headers.push(content)
    } else if (nestingKeys.has(name)) {
      walk(content, seen, nesting + 1)
    }
  }
}

const readText = (text: string, seen: Seen, nesting: number): void => {
  const json = parse(text)
  if (json !== undefined) return walk(json, seen, nesting + 1)
  const plain = unescape(cut(text))
  seen.texts.push(plain)
  if (plain.includes('":') || plain.includes("':") || plain.includes('" :')) scan(plain, seen)
}

const field = /["']([a-z_$-]{3,20})["'] ?: {0,4}(?:\{ ?["']?seconds["']?: ?)?["']?([^"',{}[\]\s]{1,80})/gi

/** Reads the fields of something that is not quite JSON. */
const scan = (text: string, seen: Seen): void => {
  for (const [, key = "", content = ""] of text.matchAll(field)) {
    const name = key.toLowerCase()
    if (codeKeys.has(name)) addCode(name, content, seen)
    if (statusKeys.has(name) && /^\d{3,4}$/.test(content)) addNumber(Number(content), seen)
    if (waitKeys.has(name)) seen.waits.push([name, content])
  }
}

const addCode = (key: string, content: string, seen: Seen): void => {
  if (content === "" || content.length > 80) return
  // A name is often that of a tool or of a model.
  if (key === "name" && !/(?:Error|Exception|Timeout)$/.test(content)) return
  if (statusKeys.has(key) && /^[1-5]\d\d$/.test(content)) addNumber(Number(content), seen)
  else seen.codes.push(content)
}

/** A status, or a code that is a number. */
const addNumber = (content: number, seen: Seen): void => {
  const status = httpStatus(content)
  if (status !== undefined) seen.statuses.push(status)
  else if (Number.isInteger(content) && content > 599) seen.codes.push(String(content))
}

export const httpStatus = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) && value >= 100 && value <= 599 ? value : undefined

/** Undoes escapes, however often they were escaped themselves. */
const unescape = (text: string): string =>
  text.includes("\\")
    ? text
        .replace(/\\+u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
        .replace(/\\+[nrt]/g, " ")
        .replace(/\\+(["'/])/g, "$1")
    : text

/** Longer bodies are not parsed but scanned, in characters. */
const maxJson = 65_536

export const parse = (text: string): unknown => {
  if (text.length > maxJson || !/^\s*(?:\{\s*["}]|\[\s*[[{"])/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Reads a property without trusting getters: some errors throw from them. */
export const property = (value: unknown, key: string): unknown => {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined
  try {
    return (value as Record<string, unknown>)[key] // narrowed to a non-null object above
  } catch {
    return undefined
  }
}

/** Own keys, as far as the object gives them. */
const keysOf = (value: object): ReadonlyArray<string> => {
  try {
    return Object.keys(value).slice(0, 64)
  } catch {
    return []
  }
}

/** All headers, the last source first in rank. */
export const headersOf = (sources: ReadonlyArray<unknown>): Readonly<Record<string, string>> => {
  const headers: Record<string, string> = {}
  for (const source of sources) {
    if (!Predicate.isObject(source)) continue
    try {
      const entries: Iterable<readonly [string, unknown]> =
        source instanceof Headers ? source.entries() : Object.entries(source)
      for (const [name, content] of entries) {
        if (typeof content === "string") headers[name.toLowerCase()] = content
      }
    } catch {
      // A getter that throws has nothing to tell.
    }
  }
  return headers
}
