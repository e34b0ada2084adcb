/**
 * Reads codes, statuses, sentences and waits from a provider's error body, at any depth.
 *
 * JSON is walked only along the keys under which providers put errors, including JSON inside strings. An echo of
 * the request is therefore not read as an error. Text that only resembles JSON (cut, escaped twice, a Python
 * dictionary, a sentence followed by a body) is scanned for the same keys. In a stream of events only the error
 * parts are read. In a successful response only error parts and the finish reason are read: the rest is an answer,
 * which may talk about errors and repeat what the caller sent.
 */
import * as Answer from "./AnswerFacts.ts"
import * as Escapes from "../../secrets/Escapes.ts"
import * as Events from "./EventFacts.ts"
import { isList, itemsOf, keysOf, property } from "./Looking.ts"

export interface Seen {
  /** As the body has them, in the order of discovery, the deepest last. */
  readonly codes: Array<string>
  readonly statuses: Array<number>
  readonly texts: Array<string>
  /** Index of the first text of the innermost error that a gateway wrapped. */
  inner: number
  /** Waits by lower-cased key, with the value as the body has it. */
  readonly waits: Array<readonly [key: string, value: string]>
  readonly headers: Array<unknown>
  readonly visited: Set<object>
}

export const empty = (): Seen => ({
  codes: [],
  statuses: [],
  texts: [],
  inner: 0,
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
  "errcode",
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
  "response_body",
  "responsebody",
  "error_msg",
  "errmsg",
  "errormessage",
  "error_message",
  "error_description",
  "body",
  "data",
  "title",
  "status_msg",
  // Portkey: the upstream's answer was not JSON.
  "html-message",
  "quotaid",
  "quotametric"
])
/** Keys under which a provider names the rejected field of the request: OpenAI's `param`, Pydantic's `loc`. */
const fieldKeys = new Set(["param", "loc"])
/** Keys whose numbers belong to the provider: a small number means something else here than under `code`. */
const numberedKeys = new Set(["error_code", "errorcode", "errcode"])
const nestingKeys = new Set([
  // An object at Mistral.
  "message",
  "error",
  "errors",
  "detail",
  "details",
  "metadata",
  "$metadata",
  "raw",
  "upstream_error",
  "provider_error",
  "original_error",
  "innererror",
  "inner_error",
  "cause",
  "header",
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
  "retryafterseconds",
  // OpenAI: the usage window of a subscription.
  "resets_in_seconds",
  "resets_at",
  "reset_at",
  "resetat",
  "reset_time",
  "resettime",
  // Hugging Face: the model is still loading.
  "estimated_time"
])

/** Keys under which gateways pass on the error of the provider behind them. */
const wrapperKeys = new Set([
  "raw",
  "body",
  "response_body",
  "responsebody",
  "upstream_error",
  "provider_error",
  "original_error",
  "innererror",
  "inner_error",
  "cause"
])

/** Keys next to an error in a successful response that hold the answer, or what the caller sent. */
const echoKeys = new Set(["metadata", "data", "body", "raw", "result", "title"])

/** Kinds of content that a key may hold. */
interface Meaning {
  readonly code: boolean
  readonly status: boolean
  readonly text: boolean
  readonly nesting: boolean
  readonly wait: boolean
  readonly numbered: boolean
}

/** Meaning of each lower-cased key. Other keys of a body are skipped. */
const meanings: ReadonlyMap<string, Meaning> = new Map(
  [
    ...codeKeys,
    ...statusKeys,
    ...textKeys,
    ...nestingKeys,
    ...waitKeys,
    ...fieldKeys,
    "headers",
    "base_resp",
    "value"
  ].map((name) => [
    name,
    {
      code: codeKeys.has(name),
      status: statusKeys.has(name),
      text: textKeys.has(name),
      nesting: nestingKeys.has(name),
      wait: waitKeys.has(name),
      numbered: numberedKeys.has(name)
    }
  ])
)

/** Number of objects of one body that are visited, at most. */
const maxVisited = 500

/** Number of keys of one object that are visited, at most. */
const maxKeys = 64

/** Number of texts of one body that are read, at most. */
const maxTexts = 32

/** Shortens a long text by removing its middle, which matters least. `limit` is in characters. */
export const cut = (text: string, limit = maxText): string =>
  text.length <= limit ? text : `${text.slice(0, limit * 0.75)} ${text.slice(-limit * 0.25)}`

/** Facts of a body. `page` is true for an HTML page or plain text. */
export interface Read {
  readonly seen: Seen
  readonly page: boolean
}

/** Reads the body of a response. `status` is the response's own, if known. */
export const read = (given: unknown, status: number | undefined): Read => {
  const seen = empty()
  const success = status !== undefined && status < 300
  const body = textOfBytes(given)
  const json = typeof body === "string" ? parse(body) : body
  const page = typeof body === "string" && json === undefined && !Events.isStream(body)
  if (page) {
    if (!success) readPlain(body, seen)
    else if (cutError.test(body)) scan(Escapes.undo(cut(body)), seen)
  } else if (json === undefined) walk(body, seen)
  else if (success || (status === undefined && Answer.isAnswer(json))) walkAnswer(json, seen)
  else walk(json, seen)
  return { seen, page }
}

/** Reads the finish reason of an answer and the errors among its parts. */
export const walkAnswer = (answer: unknown, seen: Seen): void => {
  if (isList(answer))
    return itemsOf(answer, maxItems).forEach((part) => !isList(part) && walkAnswer(part, seen))
  seen.codes.push(...Answer.endsOf(answer))
  if (Answer.isErrorPart(answer)) walkPart(answer, seen)
}

/** Walks an error that is part of a successful response, without the sibling fields that may be an echo. */
const walkPart = (part: unknown, seen: Seen, nesting = 0): void => {
  if (typeof part !== "object" || part === null || isList(part)) return walk(part, seen, nesting)
  if (nesting > maxNesting || seen.visited.has(part)) return
  seen.visited.add(part)
  const isAll = property(part, "type") === "error" || property(part, "event") === "error"
  for (const key of keysOf(part, maxKeys)) {
    const name = key.toLowerCase()
    if (name === "response") walkPart(property(part, key), seen, nesting + 1)
    else if (isAll || !echoKeys.has(name)) walkField(part, key, seen, nesting)
  }
}

/** Bytes of a body that are decoded, at most. Both ends are kept, because a stream ends with its error. */
const maxBytes = 262_144

/** Decodes bytes to text, in any container. */
const textOfBytes = (body: unknown): unknown => {
  if (typeof body !== "object" || body === null) return body
  try {
    const bytes = ArrayBuffer.isView(body)
      ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
      : body instanceof ArrayBuffer
        ? new Uint8Array(body)
        : undefined
    if (bytes === undefined) return body
    const decode = (from: number, to?: number) => new TextDecoder().decode(bytes.subarray(from, to))
    return bytes.length <= maxBytes
      ? decode(0)
      : `${decode(0, maxBytes / 2)}${decode(bytes.length - maxBytes / 2)}`
  } catch {
    return body
  }
}

/** An error that was cut before its end. Any other text inside a success is an answer. */
const cutError = /^[\s[]*\{\s*"(?:error"\s*:\s*(?:\{|"(?!n(?:one|ull|o)?"))|type"\s*:\s*"error")/

/** Walks a value that is an error body or holds one. Visits each object once, because bodies may be cyclic. */
export const walk = (value: unknown, seen: Seen, nesting = 0): void => {
  if (nesting > maxNesting) return
  if (typeof value === "string") return readText(value, seen, nesting)
  if (typeof value !== "object" || value === null) return
  if (seen.visited.has(value) || seen.visited.size >= maxVisited) return
  seen.visited.add(value)
  if (isList(value)) {
    for (const item of itemsOf(value, maxItems)) walk(item, seen, nesting + 1)
  } else {
    // An object's own code and status come before those of the error inside it, so that the innermost are the last.
    const keys = keysOf(value, maxKeys).toSorted((a, b) => Number(isInner(a)) - Number(isInner(b)))
    for (const key of keys) walkField(value, key, seen, nesting)
  }
}

const isInner = (key: string): boolean => {
  const meaning = meanings.get(key.toLowerCase())
  return meaning?.text === true || meaning?.nesting === true
}

/** Walks one field of an object if its key is known. */
export const walkField = (value: object, key: string, seen: Seen, nesting = 0): void => {
  const name = key.toLowerCase()
  if (wrapperKeys.has(name)) within(seen, () => walkKnown(value, key, name, seen, nesting))
  else walkKnown(value, key, name, seen, nesting)
}

/** Reads an error inside another one. */
const within = (seen: Seen, read: () => void): void => {
  const outer = seen.inner
  const { length } = seen.texts
  seen.inner = length
  read()
  if (seen.texts.length === length) seen.inner = outer
}

const walkKnown = (value: object, key: string, name: string, seen: Seen, nesting: number): void => {
  const meaning = meanings.get(name)
  if (meaning === undefined) return walkMember(value, key, name, seen, nesting)
  const content = property(value, key)
  if (name === "base_resp") {
    walkMiniMax(content, seen, nesting)
  } else if (name === "value") {
    // A client quotes the value that it could not parse; some gateways send an error part there.
    if (Answer.isErrorPart(content)) walkPart(content, seen, nesting + 1)
  } else if (fieldKeys.has(name)) {
    const field = isList(content) ? itemsOf(content, maxItems).at(-1) : content
    if (typeof field === "string" && field.length <= 80) seen.codes.push(`field/${field}`)
  } else if (typeof content === "string") {
    if (meaning.code) addCode(name, content, seen)
    if (meaning.wait) seen.waits.push([name, content])
    if (meaning.text) readText(content, seen, nesting + 1)
  } else if (typeof content === "number") {
    if (meaning.status) addNumber(content, seen)
    if (meaning.numbered) addNumbered(content, seen)
    if (meaning.wait) seen.waits.push([name, String(content)])
  } else if (name === "headers") {
    seen.headers.push(content)
  } else if (meaning.wait) {
    const wait = protobufDuration(content)
    if (wait !== undefined) seen.waits.push([name, wait])
  } else if (meaning.nesting) {
    walk(content, seen, nesting + 1)
  }
}

/** A member of an AWS event stream that is an exception: `{ throttlingException: { message } }`. */
const walkMember = (value: object, key: string, name: string, seen: Seen, nesting: number): void => {
  if (!name.endsWith("exception") || key.length > 80) return
  const content = property(value, key)
  if (typeof content !== "object" || content === null) return
  seen.codes.push(key)
  walk(content, seen, nesting + 1)
}

/**
 * Reads MiniMax's `base_resp`, from MiniMax or through a gateway. The code is prefixed, because the bare number is
 * ambiguous. Zero is a success.
 */
const walkMiniMax = (content: unknown, seen: Seen, nesting: number): void => {
  const given = property(content, "status_code")
  const code = typeof given === "string" && /^\d{1,6}$/.test(given) ? Number(given) : given
  if (typeof code !== "number" || !Number.isInteger(code) || code === 0) return
  seen.codes.push(`base_resp/${code}`)
  const said = property(content, "status_msg")
  if (typeof said === "string") readText(said, seen, nesting + 1)
}

/** Converts `{ seconds: 12, nanos: 500000000 }` to the usual JSON form "12.500000000s". */
const protobufDuration = (value: unknown): string | undefined => {
  const given = property(value, "seconds") ?? undefined
  const nanos = property(value, "nanos") ?? 0
  // A 64-bit integer does not fit into a JSON number, so some servers write it as a string.
  const seconds = typeof given === "string" && /^\d{1,12}$/.test(given) ? Number(given) : (given ?? 0)
  if (given === undefined && nanos === 0) return undefined
  if (!isCount(seconds, 1e12) || !isCount(nanos, 1e9)) return undefined
  return `${seconds}.${String(nanos).padStart(9, "0")}s`
}

const isCount = (value: unknown, below: number): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 && value < below

const readText = (text: string, seen: Seen, nesting: number): void => {
  const json = parse(text)
  if (json !== undefined) return within(seen, () => walk(json, seen, nesting + 1))
  if (!Events.isStream(text)) return readPlain(text, seen, nesting)
  for (const { part, isError } of Events.partsOf(text)) {
    seen.codes.push(...Answer.endsOf(part))
    if (!isError) continue
    // An event named `error` may have data of any shape.
    if (Answer.isErrorPart(part)) walkPart(part, seen, nesting + 1)
    else walk(part, seen, nesting + 1)
  }
}

const readPlain = (text: string, seen: Seen, nesting = 0): void => {
  if (seen.texts.length >= maxTexts) return
  const plain = Escapes.undo(cut(text))
  seen.texts.push(plain)
  if (!plain.includes('":') && !plain.includes("':") && !plain.includes('" :')) return
  scan(plain, seen)
  const json = embedded(text)
  if (json !== undefined) within(seen, () => walk(json, seen, nesting + 1))
}

/** The body that follows a sentence: "AnthropicException - {…}". */
const embedded = (text: string): unknown => {
  const start = text.indexOf("{")
  return start < 0 ? undefined : parse(text.slice(start, text.lastIndexOf("}") + 1))
}

const field = /["']([a-z_$-]{3,20})["'] ?: {0,4}(?:\{ ?["']?seconds["']?: ?)?["']?([^"',{}[\]\s]{1,80})/gi

/** Reads the known fields of text that is not quite JSON. */
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
  // `name` is often the name of a tool or of a model.
  if (key === "name" && !/(?:Error|Exception|Timeout)$/.test(content)) return
  if (statusKeys.has(key) && /^[1-5]\d\d$/.test(content)) addNumber(Number(content), seen)
  else if (numberedKeys.has(key) && /^\d{1,9}$/.test(content)) addNumbered(Number(content), seen)
  else seen.codes.push(content)
}

/** Adds an HTTP status or a numeric code. JSON-RPC codes are below zero; zero is a success and skipped. */
export const addNumber = (content: number, seen: Seen): void => {
  const status = httpStatus(content)
  if (status !== undefined) seen.statuses.push(status)
  else if (Number.isSafeInteger(content) && content !== 0) seen.codes.push(String(content))
}

/** Adds a provider's own number. Only 400 to 599 count as a status. */
const addNumbered = (content: number, seen: Seen): void => {
  if (!Number.isSafeInteger(content) || content === 0) return
  if (content >= 400 && content <= 599) return void seen.statuses.push(content)
  if (content > 599) seen.codes.push(String(content))
  seen.codes.push(`error_code/${content}`)
}

export const httpStatus = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) && value >= 100 && value <= 599 ? value : undefined

/** Longer bodies are scanned instead of parsed, in characters. */
const maxJson = 65_536

const parse = (text: string): unknown => {
  if (text.length > maxJson || !/^\s*(?:\{\s*["}]|\[\s*[[{"])/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
