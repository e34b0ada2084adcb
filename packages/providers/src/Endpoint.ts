/**
 * The base URL of an endpoint in the one spelling that targets, circuits and clients share.
 */

/** The URL without trailing slashes. Throws when it is no base URL: not http(s), or with more than a path. */
export const normalize = (field: string, baseUrl: string): string => {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  const plain =
    url !== undefined &&
    (url.protocol === "https:" || url.protocol === "http:") &&
    `${url.username}${url.password}${url.search}${url.hash}` === ""
  // The value is not quoted: a wrong one may hold a key.
  if (!plain) throw new RangeError(`${field} must be an http(s) URL without credentials, query and fragment`)
  return url.href.replace(/\/+$/, "")
}
