/**
 * Decides whether a request may be answered, by its headers alone. Pure.
 *
 * A browser on the same machine reaches loopback addresses for any page that it shows. Two checks keep such pages out:
 *
 * - **Host**: a page whose name was pointed to this machine (DNS rebinding) sends its own name. Only addresses,
 *   `localhost` and the names in `hosts` are answered.
 * - **Origin** and **Sec-Fetch-Site**: a request of another page names its origin, which must be that of the Host.
 *
 * On loopback, reading and sending need no token. Elsewhere they do, in the header `authorization: Bearer …`: a token in
 * an address would be written to logs. Changes need a token everywhere. What is sent with POST must be JSON, which
 * another page cannot send without asking first. It cannot send other methods without asking either.
 */

/**
 * - `open`: a file of the page, which holds no data
 * - `read`: data of the program, and every request that a page cannot send to another one without asking first
 * - `send`: POST, such as a prompt
 * - `change`: an action of an operator
 */
export type Kind = "open" | "read" | "send" | "change"

/** The headers that decide. */
export interface Request {
  readonly kind: Kind
  readonly host: string | undefined
  readonly origin: string | undefined
  readonly authorization: string | undefined
  /** `sec-fetch-site`: what the browser says about the page that asks. */
  readonly site: string | undefined
  readonly contentType: string | undefined
}

export interface Policy {
  /** True when the server listens on a loopback address only. */
  readonly isLoopback: boolean
  /** Names beside addresses and `localhost` under which the server is reached. In lower case. */
  readonly hosts: ReadonlySet<string>
  /** Compares a token in constant time. Absent: there is no token, so nothing that needs one is answered. */
  readonly isToken: ((candidate: string) => boolean) | undefined
}

export interface Refusal {
  readonly status: 401 | 403 | 415
  /** Problem and remedy. Never a value of the request. */
  readonly message: string
}

const refuse = (status: Refusal["status"], message: string): Refusal => ({ status, message })

/** `undefined`: the request may be answered. */
export const verdict = (policy: Policy, request: Request): Refusal | undefined => {
  const name = hostName(request.host)
  if (name === undefined || !isOwn(policy, name)) {
    return refuse(403, "This Host is not served. Use the address of the server, or add the name to `hosts`.")
  }
  if (request.origin !== undefined && !isSameOrigin(request.origin, request.host)) {
    return refuse(403, "Requests of other pages are refused (Origin).")
  }
  if (
    request.kind !== "open" &&
    request.site !== undefined &&
    request.site !== "same-origin" &&
    request.site !== "none"
  ) {
    return refuse(403, "Requests of other pages are refused (Sec-Fetch-Site).")
  }
  if (request.kind === "open") return undefined
  if (request.kind === "change" || !policy.isLoopback) {
    if (policy.isToken === undefined) return refuse(403, "No token is configured, so this cannot be used.")
    const token = bearer(request.authorization)
    if (token === undefined || !policy.isToken(token)) {
      return refuse(401, "Send the token in the header `authorization: Bearer …`.")
    }
  }
  if (request.kind !== "read" && !isJson(request.contentType)) {
    return refuse(415, "Send JSON, with `content-type: application/json`.")
  }
  return undefined
}

/** True for text that fits into the header of a request as it is. */
export const isToken = (text: string): boolean => /^[!-~]+$/.test(text)

/** True for a name or an address as it is in a Host header, without a port and without brackets. */
export const isName = (text: string): boolean =>
  hostName(text.split(":").length > 2 ? `[${text}]` : text) === text.toLowerCase()

/** The name of a Host header in lower case, without the port and the brackets. */
const hostName = (host: string | undefined): string | undefined => {
  const found = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(host ?? "")
  return (found?.[1] ?? found?.[2])?.toLowerCase()
}

/** True for `127.0.0.1`, the other addresses of 127.0.0.0/8, and `::1`. */
export const isLoopback = (address: string): boolean =>
  /^127(?:\.\d{1,3}){3}$/.test(address) || address === "::1" || address === "localhost"

const isAddress = (name: string): boolean => /^\d{1,3}(?:\.\d{1,3}){3}$/.test(name) || name.includes(":")

const isOwn = ({ isLoopback: onLoopback, hosts }: Policy, name: string): boolean =>
  isLoopback(name) || hosts.has(name) || (!onLoopback && isAddress(name))

const isSameOrigin = (origin: string, host: string | undefined): boolean => {
  const own = host?.toLowerCase()
  return origin.toLowerCase() === `http://${own}` || origin.toLowerCase() === `https://${own}`
}

const bearer = (authorization: string | undefined): string | undefined =>
  /^Bearer +([!-~]+)$/i.exec(authorization ?? "")?.[1]

const isJson = (contentType: string | undefined): boolean =>
  /^application\/json *(?:;.*)?$/i.test(contentType ?? "")
