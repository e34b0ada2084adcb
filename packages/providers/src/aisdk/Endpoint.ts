/**
 * The base URL of an endpoint in the one spelling that targets, circuits and clients share.
 */
import { KeyForm } from "@outlast/agent/failure"
import { Options } from "@outlast/resilience"

/**
 * The URL without trailing slashes. Throws an `InvalidOption` for a value that is no base URL: not http(s), more than a
 * path, or a key in its host or path. The message does not quote the value, which may hold a key.
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

/**
 * As {@link normalize}, for a client that appends a path. Throws an `InvalidOption` if the URL already ends with it.
 */
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
 * True when a key stands anywhere in the text of a URL, also percent-encoded. Reads the text as it was written, because
 * `URL` lowers the case of the host. Hexadecimal parts are account ids at gateways and do not count.
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
