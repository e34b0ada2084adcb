/**
 * The base URL of an endpoint in the one spelling that targets, circuits and clients share.
 */
import { isKey } from "@outlast/agent/failure/KeyForm"
import { InvalidOption } from "@outlast/resilience/Options"

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
  if (!isPlain || hasKey(url)) {
    const allowed = isPlain
      ? "an http(s) URL without a key in its host or path"
      : "an http(s) URL without credentials, query and fragment"
    throw new InvalidOption(module, field, undefined, allowed, `${module}: ${field} must be ${allowed}`)
  }
  return url.href.replace(/\/+$/, "")
}

/** Hexadecimal parts are ids of accounts at gateways. */
const hasKey = ({ hostname, pathname }: URL): boolean =>
  [...hostname.split("."), ...pathname.split("/")].some((part) => isKey(part) && !/^[0-9a-f]+$/.test(part))
