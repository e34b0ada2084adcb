/**
 * Secrets of a target: its keys and headers, and names where a key may stand by mistake.
 *
 * Names, models and endpoints appear in events and errors. A key in their place throws an `InvalidOption` that does
 * not quote it. Headers never appear: if a server echoes a value, failures omit it.
 */
import { KeyForm } from "@outlast/agent/failure"
import { Options } from "@outlast/resilience"

export type Headers = Readonly<Record<string, string>>

/** True for a value that a header can carry: no inner line break, and no character beyond Latin-1. */
export const isSendable = (value: string): boolean => !notSendable.test(value)

// White space at the ends is trimmed before sending.
const notSendable = /\S[\r\n]+\S|[^\t\r\n\x20-\x7e\x80-\xff]/

/** Throws an `InvalidOption` for a name that is or contains the key of a vendor. */
export const checkName = (module: string, field: string, name: unknown): void => {
  if (typeof name === "string" && (KeyForm.isKey(name.trim()) || KeyForm.holdsKey(name))) {
    throw refused(module, field, "a name, not a key", 'Give keys by name: keys: ["ANTHROPIC_API_KEY"]')
  }
}

/**
 * The headers as an object. Throws an `InvalidOption`, without quoting values, unless every value is a string that can
 * be sent. An instance without own fields, such as a `Map`, is rejected: none of its entries would be sent.
 */
export const headersOf = (module: string, given: unknown): Headers => {
  const headers = given instanceof globalThis.Headers ? Object.fromEntries(given) : given
  if (!isFields(headers)) {
    throw refused(
      module,
      "headers",
      "an object of texts or a Headers",
      headers instanceof Map
        ? "Write headers: Object.fromEntries(map)"
        : 'Write headers: { "x-team": "search" }'
    )
  }
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      if (KeyForm.isKey(name) || KeyForm.holdsKey(name) || !/^[\w!#$%&'*+.^`|~-]{1,128}$/.test(name)) {
        throw refused(module, "headers", "an object of texts by their names", "Check the names")
      }
      if (typeof value !== "string" || !isSendable(value)) {
        throw refused(
          module,
          `headers.${name}`,
          "a text without line breaks that a header can carry",
          "Check its value"
        )
      }
      return [name, value]
    })
  )
}

const isFields = (value: unknown): value is object =>
  typeof value === "object" &&
  value !== null &&
  Object.prototype.toString.call(value) === "[object Object]" &&
  (Object.keys(value).length > 0 || [Object.prototype, null].includes(Object.getPrototypeOf(value)))

/** The error for a field, without its value, which may be a key. */
export const refused = (
  module: string,
  field: string,
  allowed: string,
  advice: string
): Options.InvalidOption =>
  new Options.InvalidOption(
    module,
    field,
    undefined,
    allowed,
    `${module}: ${field} must be ${allowed}. ${advice}.`
  )

/**
 * The secrets in headers: each value, its words, and decoded Basic credentials. In a header that is not a credential
 * (`x-team: search`), values below {@link shortest} characters count as flags or numbers.
 */
export const ofHeaders = (headers: Headers): ReadonlyArray<string> =>
  Object.entries(headers).flatMap(([name, value]) => {
    const least = credential.test(name) ? shortestCredential : shortest
    return [value, ...value.split(/\s+/), ...basic(value)].filter(
      (part) => part.length >= least && !scheme.test(part)
    )
  })

/** True for the name of a header that carries a key. */
export const isCredential = (name: string): boolean => credential.test(name)

const shortest = 8
const shortestCredential = 4
const credential = /auth|key|token|secret|passw|cookie|credential|signature/i
const scheme = /^(?:bearer|basic|token|digest|negotiate|oauth|api-?key)$/i

const basic = (value: string): ReadonlyArray<string> => {
  const [, encoded] = /^basic\s+([A-Za-z0-9+/=_-]+)\s*$/i.exec(value) ?? []
  if (encoded === undefined) return []
  const plain = Buffer.from(encoded, "base64").toString("utf8")
  return [plain, ...plain.split(":").slice(1)]
}
