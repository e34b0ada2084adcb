/**
 * Rules on errors of Node, undici, TLS and libc without a response: codes of errors, of their causes, or inside a
 * sentence.
 */
import * as Rule from "./Rule.ts"
import { cancelled, clientTimeout, network, permanentNetwork, timeout } from "./reasons.ts"

const errno = (
  id: string,
  why: string,
  codes: ReadonlyArray<string>,
  reason: Rule.Common["reason"]
): Rule.Rule => Rule.code({ id: `connection/${id}`, why, codes, reason, inText: true, signal: "cause" })

/** True when no provider answered. Any status but 500 means that the address is valid. */
const nobodyAnswered = ({ status }: { readonly status: number | undefined }) =>
  status === undefined || status === 500

export const connection: ReadonlyArray<Rule.Rule> = [
  errno(
    "certificate",
    "The certificate is untrusted, expired or for another host. A retry cannot help.",
    [
      "CERT_HAS_EXPIRED",
      "CERT_NOT_YET_VALID",
      "CERT_UNTRUSTED",
      "DEPTH_ZERO_SELF_SIGNED_CERT",
      "SELF_SIGNED_CERT_IN_CHAIN",
      "UNABLE_TO_GET_ISSUER_CERT",
      "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      "ERR_TLS_CERT_ALTNAME_INVALID",
      "CERTIFICATE_VERIFY_FAILED",
      "SSLCertVerificationError"
    ],
    permanentNetwork
  ),
  errno(
    "tls-version",
    "The port does not use TLS, or the two sides share no version of it.",
    [
      "ERR_SSL_WRONG_VERSION_NUMBER",
      "WRONG_VERSION_NUMBER",
      "ERR_SSL_UNSUPPORTED_PROTOCOL",
      "UNSUPPORTED_PROTOCOL"
    ],
    permanentNetwork
  ),
  Rule.text({
    id: "connection/certificate-text",
    why: "The certificate is invalid, in the words of OpenSSL, Go, Python and browsers.",
    phrases: [
      "self(-| )signed certificate",
      "certificate (verify failed|has expired|is not trusted|signed by unknown authority)",
      "unable to (get local issuer certificate|verify the first certificate)",
      "x509:",
      "invalid (peer |)certificate",
      "(certificateunknown|unknownissuer|notvalidforname|certnotvalidforname)",
      "tls: (bad|failed|handshake|internal|no|oversized|protocol|server|unexpected|unknown|unrecognized|unsupported)",
      "(fatal alert|tls alert|ssl alert): ",
      "(ssl|tls) handshake (failure|failed)",
      "(ssl|tls) connection could not be established",
      "alert handshake failure",
      "(ssl|tls)…alert (number|protocol version|certificate|unknown ca|bad certificate)",
      "corrupt message of type",
      "(pkix path|valid certification path)",
      "hostname/ip does not match certificate*",
      "wrong version number",
      "first record does not look like a tls handshake",
      "http request (was sent |)to (an |)https (server|port)",
      "server gave http response to https client"
    ],
    unless: ["forcibly closed"],
    reason: permanentNetwork
  }),
  Rule.code({
    id: "connection/address",
    why: "The address of the endpoint is invalid.",
    codes: [
      "ERR_INVALID_URL",
      "ERR_INVALID_PROTOCOL",
      "ERR_UNSUPPORTED_ESM_URL_SCHEME",
      "UnsupportedProtocol",
      "InvalidURL",
      "MissingSchema"
    ],
    inText: true,
    signal: "cause",
    when: nobodyAnswered,
    reason: permanentNetwork
  }),
  Rule.text({
    id: "connection/address-text",
    why: "The sentence says that the address of the endpoint is invalid.",
    phrases: [
      "(missing|unsupported|invalid) (url |)(scheme|protocol)",
      "protocol…not supported",
      "only absolute urls are supported",
      "failed to parse url",
      "invalid url",
      "bad port",
      "request url is missing…protocol",
      "(no|missing) (scheme|connection adapters)"
    ],
    when: nobodyAnswered,
    reason: permanentNetwork
  }),
  errno(
    "connect-timeout",
    "No connection within the client's limit.",
    ["UND_ERR_CONNECT_TIMEOUT", "ERR_SOCKET_CONNECTION_TIMEOUT", "ConnectTimeoutError", "ConnectTimeout"],
    clientTimeout.connect
  ),
  errno(
    "headers-timeout",
    "Connected, but no answer began within the client's limit.",
    ["UND_ERR_HEADERS_TIMEOUT", "HeadersTimeoutError"],
    clientTimeout.firstToken
  ),
  errno(
    "body-timeout",
    "An answer began and then stalled for longer than the client's limit.",
    ["UND_ERR_BODY_TIMEOUT", "BodyTimeoutError", "ReadTimeout", "ReadTimeoutError"],
    clientTimeout.idle
  ),
  errno(
    "timed-out",
    "The network gave up waiting for the other side.",
    ["ETIMEDOUT", "ESOCKETTIMEDOUT", "ERR_SOCKET_TIMEOUT", "ERR_HTTP_REQUEST_TIMEOUT"],
    timeout.connect
  ),
  Rule.text({
    id: "connection/axios-timeout",
    why: "Axios reports its time limit under ECONNABORTED, and names the limit only in words.",
    phrases: ["timeout of * exceeded"],
    reason: clientTimeout.total
  }),
  Rule.code({
    id: "connection/client-timeout",
    why: "The time limit of an AbortSignal or of a provider's SDK. In a response these names may mean something else.",
    codes: ["TimeoutError", "APIConnectionTimeoutError", "APITimeoutError"],
    signal: "cause",
    when: ({ status, tag }) => status === undefined && tag === undefined,
    reason: clientTimeout.ours
  }),
  errno(
    "not-http",
    "The bytes of the response are not HTTP, or contradict its headers. The request had no part in it.",
    [
      // The HTTP parser of `fetch`, whose errors often lack a code.
      "HTTPParserError",
      "HPE_CHUNK_EXTENSIONS_OVERFLOW",
      "HPE_CLOSED_CONNECTION",
      "HPE_CR_EXPECTED",
      "HPE_HEADER_OVERFLOW",
      "HPE_INTERNAL",
      "HPE_INVALID_CHUNK_SIZE",
      "HPE_INVALID_CONSTANT",
      "HPE_INVALID_CONTENT_LENGTH",
      "HPE_INVALID_EOF_STATE",
      "HPE_INVALID_HEADER_TOKEN",
      "HPE_INVALID_STATUS",
      "HPE_INVALID_TRANSFER_ENCODING",
      "HPE_INVALID_VERSION",
      "HPE_LF_EXPECTED",
      "HPE_STRICT",
      "HPE_UNEXPECTED_CONTENT_LENGTH",
      "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"
    ],
    network
  ),
  errno("compression", "The compressed answer is cut or damaged.", ["Z_BUF_ERROR", "Z_DATA_ERROR"], network),
  errno(
    "broken",
    "The connection was refused, reset, not resolved or not routed: there is no complete answer.",
    [
      "ECONNREFUSED",
      "ECONNRESET",
      "ECONNABORTED",
      "ENOTFOUND",
      "EAI_AGAIN",
      "EAI_FAIL",
      "EAI_NODATA",
      "EAI_NONAME",
      "EHOSTUNREACH",
      "EHOSTDOWN",
      "ENETUNREACH",
      "ENETDOWN",
      "ENETRESET",
      "EADDRNOTAVAIL",
      "ENOTCONN",
      "EPIPE",
      "EPROTO",
      "UND_ERR_SOCKET",
      "ERR_STREAM_PREMATURE_CLOSE",
      "ERR_HTTP2_STREAM_ERROR",
      "ERR_HTTP2_SESSION_ERROR",
      "ERR_NETWORK",
      "ERR_INTERNET_DISCONNECTED",
      "ERR_CONNECTION_RESET",
      "ERR_CONNECTION_REFUSED",
      "ERR_CONNECTION_CLOSED",
      "ERR_NAME_NOT_RESOLVED",
      "ERR_NETWORK_CHANGED",
      "INCOMPLETE_CHUNKED_ENCODING",
      "ERR_INCOMPLETE_CHUNKED_ENCODING"
    ],
    network
  )
]

/** Run after the rules on proxies, because an abort may have its cause inside. */
export const aborts: ReadonlyArray<Rule.Rule> = [
  errno(
    "cancelled",
    "The client's own signal ended the request.",
    ["ERR_CANCELED", "ABORT_ERR", "UND_ERR_ABORTED"],
    cancelled
  )
]
