/**
 * What a provider's error body says: codes, statuses, sentences and waits, wherever they are nested.
 *
 * JSON is walked along the keys under which providers put errors, JSON inside strings included, so that an echo
 * of the request is not taken for an error. What looks like JSON and is none (cut, escaped twice, Python's
 * dictionaries, a sentence with a body behind it) is scanned for the same keys. Of a stream of events only the
 * error parts are read, and of a success only what is an error from its beginning and how its answer ended: the
 * rest is an answer, which may talk about errors and repeat what its caller had sent.
 */
import * as Answer from "./AnswerFacts.ts"
import * as Escapes from "../../secrets/Escapes.ts"
import * as Events from "./EventFacts.ts"
import { isList, itemsOf, keysOf, property } from "./Looking.ts"

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
  "error_msg",
  "errmsg",
  "errormessage",
  "error_message",
  "error_description",
  "body",
  "data",
  "title",
  "status_msg",
  // Portkey's, of an upstream that answered with no JSON.
  "html-message",
  "quotaid",
  "quotametric"
])
/** Where a provider names the field of the request that it does not take: OpenAI's `param`, Pydantic's `loc`. */
const fieldKeys = new Set(["param", "loc"])
/** Of these, numbers are a provider's own: a small one means something else than it would under `code`. */
const numberedKeys = new Set(["error_code", "errorcode", "errcode"])
const nestingKeys = new Set([
  // Mistral's is an object.
  "message",
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
  "retryafterseconds",
  // OpenAI, of a subscription's window.
  "resets_in_seconds",
  "resets_at",
  // Hugging Face, of a model that is being loaded.
  "estimated_time"
])

/** Beside an error in a success, these are the answer, or what the caller had sent. */
const echoKeys = new Set(["metadata", "data", "body", "raw", "result", "title"])

/** What a key may hold. */
interface Meaning {
  readonly code: boolean
  readonly status: boolean
  readonly text: boolean
  readonly nesting: boolean
  readonly wait: boolean
  readonly numbered: boolean
}

/** By lower-cased key: most keys of a body mean nothing, and are not looked at. */
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

/** Objects of one body that are looked at, at most. */
const maxVisited = 500

/** Keys of one object that are looked at, at most. */
const maxKeys = 64

/** Texts of one body that are read, at most. */
const maxTexts = 32

/** The middle of a long text says least. */
export const cut = (text: string, limit = maxText): string =>
  text.length <= limit ? text : `${text.slice(0, limit * 0.75)} ${text.slice(-limit * 0.25)}`

/** What a body says, and whether it is a page or plain text. */
export interface Read {
  readonly seen: Seen
  readonly page: boolean
}

/** Reads the body of a response; `status` is that of the response, if one is known. */
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

/** What an answer says about itself: how it ended, and the errors among its parts. */
export const walkAnswer = (answer: unknown, seen: Seen): void => {
  if (isList(answer))
    return itemsOf(answer, maxItems).forEach((part) => !isList(part) && walkAnswer(part, seen))
  seen.codes.push(...Answer.endsOf(answer))
  if (Answer.isErrorPart(answer)) walkPart(answer, seen)
}

/** An error that came as a part of a success: without what stands beside it, which may be an echo. */
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

/** Bytes of a body beyond this number are not decoded; the end of a stream says most. */
const maxBytes = 262_144

/** Bytes as text, whatever they are kept in. */
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

/** An error that was cut before its end; any other text inside a success is an answer. */
const cutError = /^[\s[]*\{\s*"(?:error"\s*:\s*(?:\{|"(?!n(?:one|ull|o)?"))|type"\s*:\s*"error")/

/** Walks a value that is an error body, or holds one. Each object once: bodies may hold themselves. */
export const walk = (value: unknown, seen: Seen, nesting = 0): void => {
  if (nesting > maxNesting) return
  if (typeof value === "string") return readText(value, seen, nesting)
  if (typeof value !== "object" || value === null) return
  if (seen.visited.has(value) || seen.visited.size >= maxVisited) return
  seen.visited.add(value)
  if (isList(value)) {
    for (const item of itemsOf(value, maxItems)) walk(item, seen, nesting + 1)
  } else {
    for (const key of keysOf(value, maxKeys)) walkField(value, key, seen, nesting)
  }
}

/** Walks one field of an object, if its key means something. */
export const walkField = (value: object, key: string, seen: Seen, nesting = 0): void => {
  const name = key.toLowerCase()
  const meaning = meanings.get(name)
  if (meaning === undefined) return walkMember(value, key, name, seen, nesting)
  const content = property(value, key)
  if (name === "base_resp") {
    walkMiniMax(content, seen, nesting)
  } else if (name === "value") {
    // What a client could not read, because it is an error: a gateway's form of an error part.
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

/** MiniMax's form, whoever passes it on: the number tells nothing without it. Zero is a success. */
const walkMiniMax = (content: unknown, seen: Seen, nesting: number): void => {
  const given = property(content, "status_code")
  const code = typeof given === "string" && /^\d{1,6}$/.test(given) ? Number(given) : given
  if (typeof code !== "number" || !Number.isInteger(code) || code === 0) return
  seen.codes.push(`base_resp/${code}`)
  const said = property(content, "status_msg")
  if (typeof said === "string") readText(said, seen, nesting + 1)
}

/** `{ seconds: 12, nanos: 500000000 }` as JSON has it elsewhere: "12.500000000s". */
const protobufDuration = (value: unknown): string | undefined => {
  const given = property(value, "seconds") ?? undefined
  const nanos = property(value, "nanos") ?? 0
  // 64 bits do not fit into a number of JSON, so that some write them as a string.
  const seconds = typeof given === "string" && /^\d{1,12}$/.test(given) ? Number(given) : (given ?? 0)
  if (given === undefined && nanos === 0) return undefined
  if (!isCount(seconds, 1e12) || !isCount(nanos, 1e9)) return undefined
  return `${seconds}.${String(nanos).padStart(9, "0")}s`
}

const isCount = (value: unknown, below: number): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 && value < below

const readText = (text: string, seen: Seen, nesting: number): void => {
  const json = parse(text)
  if (json !== undefined) return walk(json, seen, nesting + 1)
  if (!Events.isStream(text)) return readPlain(text, seen)
  for (const { part, isError } of Events.partsOf(text)) {
    seen.codes.push(...Answer.endsOf(part))
    if (!isError) continue
    // What is an error by the name of its event only may have any form.
    if (Answer.isErrorPart(part)) walkPart(part, seen, nesting + 1)
    else walk(part, seen, nesting + 1)
  }
}

const readPlain = (text: string, seen: Seen): void => {
  if (seen.texts.length >= maxTexts) return
  const plain = Escapes.undo(cut(text))
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
  else if (numberedKeys.has(key) && /^\d{1,9}$/.test(content)) addNumbered(Number(content), seen)
  else seen.codes.push(content)
}

/** A status, or a code that is a number; those of JSON-RPC are below zero, and zero is a success. */
export const addNumber = (content: number, seen: Seen): void => {
  const status = httpStatus(content)
  if (status !== undefined) seen.statuses.push(status)
  else if (Number.isSafeInteger(content) && content !== 0) seen.codes.push(String(content))
}

/** A number of a provider's own, which is a status only where it looks like an error's. */
const addNumbered = (content: number, seen: Seen): void => {
  if (!Number.isSafeInteger(content) || content === 0) return
  if (content >= 400 && content <= 599) return void seen.statuses.push(content)
  if (content > 599) seen.codes.push(String(content))
  seen.codes.push(`error_code/${content}`)
}

export const httpStatus = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) && value >= 100 && value <= 599 ? value : undefined

/** Longer bodies are not parsed but scanned, in characters. */
const maxJson = 65_536

const parse = (text: string): unknown => {
  if (text.length > maxJson || !/^\s*(?:\{\s*["}]|\[\s*[[{"])/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
