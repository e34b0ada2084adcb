/**
 * Splits a stream of server-sent events. Pure.
 *
 * Each event keeps its text, with LF as the only line end. Comments are events without data. An event that the end of the
 * body cuts is dropped, unless its data is complete and only its blank line is missing.
 *
 * Limits: a larger event, or a larger stream, fails. A part of an event is never read twice, however small the chunks are.
 */
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import { BodyLimit } from "@outlast/providers/internal"

export interface Event {
  /** Ends with a blank line. */
  readonly raw: string
  /** Empty without a name. */
  readonly name: string
  /** `undefined` for a comment. */
  readonly data: string | undefined
}

export class EventSplitter {
  readonly #decoder = new TextDecoder()
  /** Pieces of the event that has not ended. */
  #pieces: Array<string> = []
  #size = 0
  #total = 0
  /** The last piece ended in CR: a leading LF belongs to it. */
  #afterCr = false

  push(bytes: Uint8Array): ReadonlyArray<Event> {
    this.#total += bytes.length
    if (this.#total > BodyLimit.maxBytes.stream) throw tooLong("The stream", BodyLimit.maxBytes.stream)
    const events = this.#split(this.#normalized(this.#decoder.decode(bytes, { stream: true })))
    if (this.#size > BodyLimit.maxBytes.event)
      throw tooLong("An event of the stream", BodyLimit.maxBytes.event)
    return events
  }

  /** The events that are complete although the body ended. */
  end(): ReadonlyArray<Event> {
    const rest = this.#pieces.join("").replace(/\n*$/, "")
    if (rest === "") return []
    const event = eventOf(`${rest}\n\n`)
    return event.data === "[DONE]" || isJson(event.data) ? [event] : []
  }

  #normalized(text: string): string {
    const own = this.#afterCr && text.startsWith("\n") ? text.slice(1) : text
    if (own !== "") this.#afterCr = own.endsWith("\r")
    return own.includes("\r") ? own.replaceAll(/\r\n?/g, "\n") : own
  }

  #split(text: string): ReadonlyArray<Event> {
    const events: Array<Event> = []
    // The blank line may begin in the piece before.
    const isInside = this.#pieces.at(-1)?.endsWith("\n") === true && text.startsWith("\n")
    let from = 0
    let end = isInside ? 0 : text.indexOf("\n\n")
    while (end !== -1) {
      const next = end + (isInside && end === 0 && from === 0 ? 1 : 2)
      const raw = this.#pieces.join("") + text.slice(from, next)
      this.#pieces = []
      this.#size = 0
      const trimmed = raw.replace(/^\n+/, "")
      if (trimmed !== "") events.push(eventOf(trimmed))
      from = next
      end = text.indexOf("\n\n", from)
    }
    if (from < text.length) {
      const rest = text.slice(from)
      this.#pieces.push(rest)
      this.#size += rest.length
    }
    return events
  }
}

const tooLong = (what: string, limit: number): ProviderFailure.ProviderFailure =>
  ProviderFailure.local(
    "stream/size",
    new FailoverReason.Format({ side: "response" }),
    undefined,
    `${what} has more than ${limit} bytes.`
  )

const eventOf = (raw: string): Event => {
  // Most events are one line of data, or a name and one line of data.
  let name = ""
  let data: string | undefined
  for (let at = 0; at < raw.length;) {
    const end = raw.indexOf("\n", at)
    if (raw.startsWith("data:", at)) {
      const value = raw.slice(raw.charCodeAt(at + 5) === 32 ? at + 6 : at + 5, end)
      data = data === undefined ? value : `${data}\n${value}`
    } else if (raw.startsWith("event:", at)) name = raw.slice(at + 6, end).trim()
    at = end + 1
  }
  // Some gateways write the error of their upstream without a field name.
  if (data === undefined && raw.startsWith("{")) {
    const bare = raw.replaceAll("\n", "")
    return { raw: `data: ${bare}\n\n`, name, data: bare }
  }
  return { raw, name, data }
}

const isJson = (data: string | undefined): boolean => {
  try {
    JSON.parse(data ?? "")
    return true
  } catch {
    return false
  }
}
