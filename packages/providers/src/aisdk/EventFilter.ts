/**
 * Filters a stream of server-sent events: ends it at its last event, and drops events that the client does not know.
 * Pure.
 *
 * Push the chunks in order, then call `end` if the body ends before its last event. The joined output does not depend
 * on how the bytes are divided into chunks. A run of events inside one chunk passes as a view of it, without a
 * copy. Events that span chunks are copied, and so are events whose lines end in CR: they get LF.
 *
 * - An error in place of the first event throws, if the filter has a `refused`. So does a later one in a form that is not
 *   the protocol's own, unless the answer is complete.
 * - An object without a field name is an event, as gateways write errors of their upstream.
 * - Comments, other blocks without data and a byte order mark are dropped.
 * - An event that the end of the body cuts is dropped, unless its data is complete and only its blank line is missing.
 * - Bytes are read as Latin-1, one character for each. No text is decoded.
 *
 * Limits: an event above its limit fails, so the filter never buffers more than that. So do comments and dropped events in
 * a row, and the stream as a whole.
 */
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import { EventFacts } from "@outlast/agent/failure"
import { maxBytes, tooLong } from "./BodyLimit.ts"
import type { AnswerForm } from "./form/AnswerForm.ts"
import * as Form from "./form/AnswerForm.ts"
import type { StreamProtocol } from "./StreamProtocol.ts"

/** Bytes. A longer event is not read as an error. */
const maxError = 65_536

type Limits = { readonly [Name in "event" | "comments" | "stream"]: number }

export class EventFilter {
  /** The answer is complete, although its last event may still be missing. */
  isComplete = false
  /** The last event has come. Everything after it is dropped. */
  isEnded = false
  /** The stream has failed after the events that the last `push` returned. */
  failure: unknown

  readonly #protocol: StreamProtocol
  readonly #limits: Limits
  readonly #form: AnswerForm
  readonly #refused: ((event: string) => Error) | undefined
  /** An event has passed. */
  #isBegun = false
  /** Earlier bytes of the current event: the first `#size` of this buffer. */
  #held = Buffer.alloc(0)
  #size = 0
  /** Bytes that were pushed, in all and since an event passed. */
  #total = 0
  #idle = 0
  /** The current event has a complete line. */
  #hasLine = false
  /** True when the current line is not empty. */
  #inLine = false
  /** The chunk before ended in CR. A leading LF belongs to it. */
  #afterCr = false
  #isFirst = true
  #out: Array<Uint8Array> = []
  #chunk: Uint8Array = this.#held
  /** Start and end, in the chunk, of the run of events that pass unchanged. */
  #from = 0
  #to = 0

  /** `refused` makes the error to throw for an error in place of a stream, from the text of its event. */
  constructor(
    protocol: StreamProtocol,
    limits: Limits = maxBytes,
    refused?: (event: string) => Error,
    form: AnswerForm = Form.none
  ) {
    this.#protocol = protocol
    this.#limits = limits
    this.#form = form
    this.#refused = refused
  }

  /**
   * The bytes that pass. Throws a `ProviderFailure` for an event above the limit, and the error of `refused`. Events that
   * came before it in the same bytes pass first: {@link failure} then has the error.
   */
  push(bytes: Uint8Array): ReadonlyArray<Uint8Array> {
    this.#out = []
    try {
      this.#pushed(bytes)
    } catch (error) {
      this.#flush()
      if (this.#out.length === 0) throw error
      this.failure = error
    }
    return this.#out
  }

  #pushed(bytes: Uint8Array): void {
    if (this.isEnded || bytes.length === 0) return
    this.#total += bytes.length
    this.#idle += bytes.length
    const { comments, stream } = this.#limits
    if (this.#total > stream) throw tooLong(`The stream has more than ${stream} bytes.`)
    if (this.#idle > comments + bytes.length) {
      throw tooLong(`The stream has more than ${comments} bytes without an event.`)
    }
    this.#chunk = bytes
    const text = latin1Slice.call(bytes, 0, bytes.length)
    // Where the current event and line begin in this chunk.
    let start = this.#afterCr && text.startsWith("\n") ? 1 : 0
    let line = start
    this.#afterCr = false
    this.#from = this.#to = start
    let lf = text.indexOf("\n", start)
    let cr = text.indexOf("\r", start)
    const hasCr = cr !== -1
    while (lf !== -1 || cr !== -1) {
      const isCr = cr !== -1 && (lf === -1 || cr < lf)
      const end = isCr ? cr : lf
      const next = isCr && lf === end + 1 ? end + 2 : end + 1
      this.#afterCr = isCr && end + 1 === text.length
      if (end === line && !this.#inLine) {
        this.#event(text.slice(start, line), start, next, hasCr)
        if (this.isEnded) break
        start = next
        this.#hasLine = false
      } else if (!this.#hasLine && this.#first(text, start) === colon) {
        // Comments are never buffered, however many follow each other.
        this.#size = 0
        this.#isFirst = false
        start = next
      } else this.#hasLine = true
      this.#inLine = false
      line = next
      if (lf !== -1 && lf < next) lf = text.indexOf("\n", next)
      if (cr !== -1 && cr < next) cr = text.indexOf("\r", next)
    }
    this.#flush()
    if (this.isEnded) this.#size = 0
    else if (start < text.length) this.#hold(this.#chunk.subarray(start))
    this.#inLine ||= text.length > line
  }

  /** The bytes that pass when the body ends without its last event. */
  end(): ReadonlyArray<Uint8Array> {
    this.#out = []
    const rest = normalized(this.#taken(""))
    const event = rest.endsWith("\n") ? rest : `${rest}\n`
    const { data } = fieldsOf(event)
    if (data === "[DONE]" || isJson(data)) this.#rewritten(event)
    if (this.isComplete && !this.isEnded) this.#complete()
    return this.#out
  }

  /** Adds the event that the server left out. */
  #complete(): void {
    const missing = this.#protocol.missing()
    if (missing === undefined) return
    this.#flush()
    this.#out.push(Buffer.from(`data: ${missing}\n\n`))
  }

  /**
   * Handles an event at its blank line. `text` is its part in the chunk, from `start`; the next event begins at `next`.
   */
  #event(text: string, start: number, next: number, hasCr: boolean): void {
    if (this.#size + text.length > this.#limits.event) throw tooLarge(this.#limits.event)
    const isInside = this.#size === 0
    const event = this.#taken(text)
    const hasMark = this.#isFirst && event.startsWith(byteOrderMark)
    this.#isFirst = false
    if (!isInside || hasCr || hasMark) {
      this.#flush()
      this.#rewritten(normalized(hasMark ? event.slice(byteOrderMark.length) : event))
    } else {
      const passed = this.#passed(event)
      if (passed === undefined) return
      if (passed !== event) {
        this.#flush()
        this.#out.push(Buffer.from(`${passed}\n`, "latin1"))
        return
      }
      if (start !== this.#to) {
        this.#flush()
        this.#from = start
      }
      this.#to = next
    }
  }

  #rewritten(event: string): void {
    const passed = this.#passed(event)
    if (passed !== undefined) this.#out.push(Buffer.from(`${passed}\n`, "latin1"))
  }

  /** The event, in the form that the client reads; `undefined` if it does not pass. Expects lines that end in LF. */
  #passed(event: string): string | undefined {
    const { name, data: given, isBare } = fieldsOf(event)
    if (given === undefined) return undefined
    const refused = event.length > maxError ? undefined : this.#refused
    if (refused !== undefined && !this.#isBegun) {
      const text = decoded(event, isBare)
      if (EventFacts.partsOf(text).some(({ isError }) => isError)) throw refused(text)
    }
    const formed = this.#form.event(given)
    if (formed === undefined) return undefined
    const data = typeof formed === "string" ? formed : (formed.at(-1) ?? given)
    const verdict = this.#protocol.judge(name, data)
    if (verdict === "complete") this.isComplete = true
    if (verdict === "last") {
      this.isEnded = true
      this.#complete()
    }
    if (verdict === "error" && refused !== undefined && !this.isComplete)
      throw refused(decoded(event, isBare))
    if (verdict === "skip") return undefined
    this.#idle = 0
    this.#isBegun = true
    if (formed === given && !isBare) return event
    const before = typeof formed === "string" ? [] : formed.slice(0, -1)
    const inserted = before.map((data) => `data: ${data}\n\n`).join("")
    return `${inserted}${name === "" ? "" : `event: ${name}\n`}data: ${data}\n`
  }

  /** Outputs the current run of events. */
  #flush(): void {
    if (this.#to - this.#from === this.#chunk.length) this.#out.push(this.#chunk)
    else if (this.#to > this.#from) this.#out.push(this.#chunk.subarray(this.#from, this.#to))
    this.#from = this.#to
  }

  #hold(rest: Uint8Array): void {
    const size = this.#size + rest.length
    if (size > this.#limits.event) throw tooLarge(this.#limits.event)
    if (size > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(size * 2, 1_024))
      this.#held.copy(larger, 0, 0, this.#size)
      this.#held = larger
    }
    this.#held.set(rest, this.#size)
    this.#size = size
  }

  /** Returns the buffered bytes and `text`, and empties the buffer. */
  #taken(text: string): string {
    if (this.#size === 0) return text
    const event = this.#held.toString("latin1", 0, this.#size) + text
    this.#size = 0
    return event
  }

  /** The first character of the current event. */
  #first(text: string, start: number): number | undefined {
    return this.#size > 0 ? this.#held[0] : text.charCodeAt(start)
  }
}

/** The method behind `toString("latin1")`, called on plain bytes to save a `Buffer`. Node has it, its types do not. */
const { latin1Slice } = Buffer.prototype as unknown as {
  readonly latin1Slice: (this: Uint8Array, start: number, end: number) => string
}

const colon = 58
const byteOrderMark = "\u00ef\u00bb\u00bf"

const tooLarge = (maxEvent: number) =>
  ProviderFailure.local(
    "stream/event-size",
    new FailoverReason.Format({ side: "response" }),
    undefined,
    `An event of the stream has more than ${maxEvent} bytes.`
  )

const normalized = (event: string): string =>
  event.includes("\r") ? event.replaceAll(/\r\n?/g, "\n") : event

interface Fields {
  readonly name: string
  /** Absent: the block is no event. */
  readonly data: string | undefined
  /** The block is an object without a field name: some gateways write the error of their upstream so. */
  readonly isBare: boolean
}

const decoded = (event: string, isBare: boolean): string =>
  Buffer.from(isBare ? `data: ${event.replaceAll("\n", "")}\n` : event, "latin1").toString()

/** The fields of an event. Each of its lines ends in LF. */
const fieldsOf = (event: string): Fields => {
  let name = ""
  let data: string | undefined
  for (let at = 0; at < event.length;) {
    const end = event.indexOf("\n", at)
    if (event.startsWith("data", at)) {
      const value = valueAt(event, at + 4, end)
      if (value !== undefined) data = data === undefined ? value : `${data}\n${value}`
    } else if (event.startsWith("event", at)) name = valueAt(event, at + 5, end) ?? name
    at = end + 1
  }
  const isBare = data === undefined && event.startsWith("{")
  return { name, data: isBare ? event.replaceAll("\n", "") : data, isBare }
}

/** The value of the field whose name ends at `at`; `undefined` if the name goes on. */
const valueAt = (event: string, at: number, end: number): string | undefined => {
  if (at === end) return ""
  if (event.charCodeAt(at) !== colon) return undefined
  return event.slice(event.startsWith(" ", at + 1) ? at + 2 : at + 1, end)
}

const isJson = (data: string | undefined): boolean => {
  try {
    JSON.parse(data ?? "")
    return true
  } catch {
    return false
  }
}
