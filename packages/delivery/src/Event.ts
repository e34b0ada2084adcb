/**
 * Events: bytes under a subject, with an id.
 *
 * The `id` identifies the event in the store, in the broker's header {@link idHeader} and in a dead letter. Consumers
 * drop repeated events by this id. After a replay the broker's message has a new id (`Nats-Msg-Id`), because a broker
 * drops a message whose id it has seen.
 */
import { Schema } from "effect"
import * as Options from "@outlast/resilience/Options"

/** An event to publish. */
export interface NewEvent {
  /** Identifies the event; publishing it again has no effect while the first is known. Default: a random UUID. */
  readonly id?: string | undefined
  /** Parts separated by dots, without wildcards and spaces: `orders.created`. */
  readonly subject: string
  readonly body: Uint8Array
  /** Names are letters, digits and `-`. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** An event with its id. */
export interface OutboxEvent {
  readonly id: string
  readonly subject: string
  readonly body: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}

/** The header of a broker's message that holds the id of the event. */
export const idHeader = "Outlast-Event-Id"

/** Longest id and longest subject, in characters. */
const maxName = 255

/** Error of an event that is larger than the broker or the outbox accepts. The event was not stored. */
export class TooLarge extends Schema.TaggedError<TooLarge>("@outlast/delivery/TooLarge")("TooLarge", {
  subject: Schema.String,
  /** Body, headers, id and subject, in bytes. */
  bytes: Schema.Number,
  limit: Schema.Number
}) {
  readonly isRetryable = false

  override get message(): string {
    return `The event for \`${this.subject}\` has ${this.bytes} bytes, and ${this.limit} are allowed. It was not stored. Store the content elsewhere and publish a reference to it.`
  }
}

const headerName = /^[A-Za-z0-9-]{1,100}$/
/** Headers that the transport sets itself. */
const reserved = /^(?:nats-|outlast-)/i

/** Adds an id to an event. Throws an `InvalidOption` for an event that no broker would accept. */
export const make = (event: NewEvent, module = "Outbox"): OutboxEvent => {
  Options.check(isRecord(event), module, "event", event, "an object with a subject and a body")
  const { id = globalThis.crypto.randomUUID(), subject, body, headers = none } = event
  Options.check(
    typeof subject === "string" && isSubject(subject),
    module,
    "subject",
    subject,
    `parts separated by dots, without wildcards and spaces, at most ${maxName} characters`
  )
  Options.check(
    typeof id === "string" && id !== "" && id.length <= maxName && isPlain(id),
    module,
    "id",
    id,
    `a text of 1 to ${maxName} characters without control characters`
  )
  Options.check(body instanceof Uint8Array, module, "body", body, "a Uint8Array")
  if (headers !== none) {
    Options.check(isRecord(headers), module, "headers", headers, "an object of texts")
    for (const [name, value] of Object.entries(headers)) {
      Options.check(
        headerName.test(name) && !reserved.test(name),
        module,
        "headers",
        name,
        "names of letters, digits and -, which do not begin with Nats- or Outlast-"
      )
      if (typeof value === "string" && isPlain(value) && value === value.trim()) continue
      const allowed = "a text without control characters and outer spaces"
      // The value may be a secret.
      throw new Options.InvalidOption(
        module,
        `headers.${name}`,
        undefined,
        allowed,
        `${module}: headers.${name} must be ${allowed}; its value is not shown`
      )
    }
  }
  return { id, subject, body, headers }
}

const none: Readonly<Record<string, string>> = {}

/** True for a subject that an event can have. */
const isSubject = (subject: string): boolean =>
  subject.length <= maxName && /^[^\s.*>\p{Cc}\p{Cs}]+(?:\.[^\s.*>\p{Cc}\p{Cs}]+)*$/u.test(subject)

/** True for a subject that a consumer can have: `*` and `>` stand for whole parts, and `>` is the last one. */
export const isPattern = (pattern: string): boolean => {
  const parts = pattern.split(".")
  const isAll = parts.at(-1) === ">"
  const named = (isAll ? parts.slice(0, -1) : parts).map((part) => (part === "*" ? "any" : part))
  return (isAll && named.length === 0) || (pattern.length <= maxName && isSubject(named.join(".")))
}

/** No control characters, and no half of a surrogate pair: UTF-8 has none, so two different ids would become one. */
const isPlain = (text: string): boolean => !/[\p{Cc}\p{Cs}]/u.test(text)

const isRecord = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const encoder = new TextEncoder()

/** Size of an event in bytes: body, headers, id and subject. All limits count it so. */
export const sizeOf = ({ id, subject, body, headers }: OutboxEvent): number => {
  let size = body.byteLength + lengthOf(id) + lengthOf(subject)
  for (const name in headers) size += name.length + lengthOf(headers[name] ?? "") + 4
  return size
}

const lengthOf = (text: string): number =>
  // Most are ASCII, which needs no encoding.
  /^[\0-\x7f]*$/.test(text) ? text.length : encoder.encode(text).byteLength

/** True when a subject is covered by a pattern: `*` is one part, `>` is one or more at the end. */
export const matches = (pattern: string, subject: string): boolean => {
  const wanted = pattern.split(".")
  const parts = subject.split(".")
  for (const [index, part] of wanted.entries()) {
    if (part === ">") return index === wanted.length - 1 && parts.length > index
    if (parts[index] === undefined || (part !== "*" && part !== parts[index])) return false
  }
  return wanted.length === parts.length
}
