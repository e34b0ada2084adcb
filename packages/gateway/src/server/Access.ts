/**
 * Who may ask a server. Pure.
 *
 * Without keys a server listens on loopback alone, and asks for nothing: every program of the machine may use it. A web
 * page may not. Its browser names the page's origin, which must be listed, and the host that it meant, which must be this
 * machine: a name of the attacker's may point here.
 */
import { createHash, timingSafeEqual } from "node:crypto"

export interface Access {
  /** Any of them opens the gateway. Empty: no key is asked for. */
  readonly keys: ReadonlyArray<string>
  /** Origins of web pages that may ask, e.g. `https://app.example.com`. */
  readonly origins: ReadonlyArray<string>
  /** Names under which the server is reached, beside loopback. Checked where no key is asked for. */
  readonly names: ReadonlyArray<string>
}

export interface Refusal {
  readonly status: number
  readonly code: string
  readonly message: string
}

type Header = (name: string) => string | undefined

/** Why the request is refused; `undefined`: it may pass. */
export const refusal = ({ keys, names, origins }: Access, header: Header): Refusal | undefined => {
  const origin = header("origin")
  if (origin !== undefined && !origins.includes(origin)) {
    return {
      status: 403,
      code: "origin_not_allowed",
      message: "Pages of this origin may not use the gateway. Allow it with --origin."
    }
  }
  if (keys.length === 0) {
    return isKnownHost(header("host"), names)
      ? undefined
      : {
          status: 421,
          code: "host_not_allowed",
          message:
            "The gateway is not reached under this host name. Use 127.0.0.1, or allow the name with --name."
        }
  }
  const given = givenKey(header)
  if (given !== undefined && isOneOf(given, keys)) return undefined
  const message =
    given === undefined
      ? "The gateway needs a key: Authorization: Bearer KEY, or x-api-key: KEY."
      : "This is not a key of the gateway."
  return { status: 401, code: "invalid_api_key", message }
}

/** True for a request of a page whose origin is listed. */
export const isAllowedPage = ({ origins }: Access, header: Header): boolean =>
  origins.includes(header("origin") ?? "")

export const isLoopback = (host: string): boolean =>
  /^(?:127(?:\.\d{1,3}){3}|::1|\[::1\]|localhost)$/i.test(host)

/** Keys shorter than this could be guessed. */
export const shortestKey = 16

const isKnownHost = (host: string | undefined, names: ReadonlyArray<string>): boolean => {
  const name = host?.replace(/:\d+$/, "") ?? ""
  return isLoopback(name) || names.some((each) => each.toLowerCase() === name.toLowerCase())
}

const givenKey = (header: Header): string | undefined => {
  const [, bearer] = /^bearer\s+(.+)$/i.exec(header("authorization")?.trim() ?? "") ?? []
  return bearer?.trim() ?? header("x-api-key")?.trim()
}

/** Takes as long for every key that is not one of them. */
const isOneOf = (given: string, keys: ReadonlyArray<string>): boolean => {
  const digest = digestOf(given)
  return keys.reduce((found, key) => timingSafeEqual(digest, digestOf(key)) || found, false)
}

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest()
