/**
 * Rules on what Node, undici and TLS report when no answer came: their codes stand in the error or its causes.
 */
import type { Rule } from "../Classifier.ts"
import type { FailoverReason } from "../FailoverReason.ts"
import { Cancelled, Network, PermanentNetwork, Timeout } from "../FailoverReason.ts"

const errno = (id: string, words: ReadonlyArray<string>, reason: () => FailoverReason): Rule => {
  const known = new Set(words)
  return {
    id: `connection/${id}`,
    match: ({ code }) =>
      code !== undefined && known.has(code) ? { reason: reason(), signal: "cause", matched: code } : undefined
  }
}

const named = (id: string, name: string, reason: () => FailoverReason): Rule => ({
  id: `connection/${id}`,
  match: (facts) => (facts.name === name ? { reason: reason(), signal: "cause", matched: name } : undefined)
})

export const connection: ReadonlyArray<Rule> = [
  errno(
    "certificate",
    [
      "CERT_HAS_EXPIRED",
      "DEPTH_ZERO_SELF_SIGNED_CERT",
      "SELF_SIGNED_CERT_IN_CHAIN",
      "UNABLE_TO_GET_ISSUER_CERT",
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      "ERR_TLS_CERT_ALTNAME_INVALID",
      "ERR_SSL_WRONG_VERSION_NUMBER"
    ],
    () => new PermanentNetwork()
  ),
  errno("address", ["ERR_INVALID_URL"], () => new PermanentNetwork()),
  errno(
    "connect-timeout",
    ["UND_ERR_CONNECT_TIMEOUT"],
    () => new Timeout({ phase: "connect", local: false })
  ),
  errno(
    "headers-timeout",
    ["UND_ERR_HEADERS_TIMEOUT"],
    () => new Timeout({ phase: "first-token", local: false })
  ),
  errno("body-timeout", ["UND_ERR_BODY_TIMEOUT"], () => new Timeout({ phase: "idle", local: false })),
  errno("timed-out", ["ETIMEDOUT"], () => new Timeout({ phase: "connect", local: false })),
  errno(
    "broken",
    [
      "ECONNREFUSED",
      "ECONNRESET",
      "ECONNABORTED",
      "ENOTFOUND",
      "EAI_AGAIN",
      "EHOSTUNREACH",
      "ENETUNREACH",
      "ENETDOWN",
      "EPIPE",
      "UND_ERR_SOCKET"
    ],
    () => new Network()
  ),
  named("aborted", "AbortError", () => new Cancelled())
]
