/**
 * The base URL of an endpoint in the one spelling that targets, circuits and clients share.
 */
import { KeyForm } from "@outlast/agent/failure"
import { Options } from "@outlast/resilience"

/**
 * The URL without trailing slashes. Throws an `InvalidOption` when it is no base URL: not http(s), with more than a
 * path, or with a key in its host or path. The value is not quoted: a wrong one may hold a key, and endpoints are shown.
 */
export const normalize = (module: string, field: string, baseUrl: string): string => {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  const isPlain =
    url !== undefined &&
    (url.protocol === "https:" || url.protocol === "http:") &&
    `${url.username}${url.password}${url.search}${url.hash}` === ""
  if (!isPlain || hasKey(String(baseUrl).trim())) {
    const allowed = isPlain
      ? "an http(s) URL without a key in its host or path"
      : "an http(s) URL without credentials, query and fragment"
    throw new Options.InvalidOption(
      module,
      field,
      undefined,
      allowed,
      `${module}: ${field} must be ${allowed}`
    )
  }
  return url.href.replace(/\/+$/, "")
}

/** As {@link normalize}, for a client that appends a path: throws an `InvalidOption` for a URL that ends with such a path. */
export const base = (module: string, field: string, baseUrl: string): string => {
  const url = normalize(module, field, baseUrl)
  const [, path] = appended.exec(url) ?? []
  if (path === undefined) return url
  const allowed = `the base URL, without "${path}"`
  const message = `${module}: ${field} must be ${allowed}. The client appends it.`
  throw new Options.InvalidOption(module, field, undefined, allowed, message)
}

const appended =
  /(\/(?:chat\/completions|completions|messages|responses|embeddings|models\/[^/]+:(?:generate|streamGenerate)Content))$/i

/**
 * True when a key stands anywhere in the text of a URL, also behind escapes and in the case in which it was written: a
 * `URL` has its host in lower case. Hexadecimal parts are ids of accounts at gateways.
 */
const hasKey = (text: string): boolean => {
  const plain = unescaped(unescaped(text))
  return (
    KeyForm.holdsKey(plain) ||
    namedSecret.test(plain) ||
    plain.split(/[^\w.-]+/).some((part) => KeyForm.isKey(part) && !/^[0-9a-f]+$/.test(part)) ||
    new URL(text).hostname.split(".").some((part) => KeyForm.isKey(part) && !/^[0-9a-f]+$/.test(part))
  )
}

/** `/key=…` and `;token=…` are credentials, whatever their form. */
const namedSecret = /(?:key|token|secret|passw(?:or)?d|signature|credential)s?=[^/;]/i

const unescaped = (text: string): string =>
  text.replace(/(?:%[0-9a-f]{2})+/gi, (escaped) => {
    try {
      return decodeURIComponent(escaped)
    } catch {
      return escaped
    }
  })
