/**
 * Rules on the general words of failing transports. They come after the specific statuses, because clients wrap any
 * error in such words.
 */
import * as Rule from "./Rule.ts"
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import { cancelled, network, serverError, timeout } from "./reasons.ts"

/**
 * A rule on words that mean a broken connection only as a whole message or a part of one: "TypeError: terminated",
 * "Stream error: terminated (caused by …)". A time limit that broke the connection is more specific.
 */
const whole = (id: string, why: string, words: string, anchors: ReadonlyArray<string>): Rule.Rule => {
  const form = new RegExp(`(?:^|[:"'({] ?)(${words})(?:$|["',;:)}]| ?[(|]| at |\\.(?: |$))`)
  const find = ({ text }: ErrorFacts) => (/timed?[- ]?out/.test(text) ? undefined : form.exec(text)?.[1])
  return Rule.rule({ id: `transport/${id}`, why, reason: network }, "text", find, anchors)
}

const firstOrTotal = ({ text }: ErrorFacts) =>
  /headers|first token/.test(text) ? timeout.firstToken : timeout.total

/** Time limits of a server or a client, and crashes, which no status and no wrapper states more precisely. */
export const deadlines: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "transport/context-canceled",
    why: "Go reports this when its caller has disconnected, whatever status a gateway adds.",
    phrases: ["context (canceled|cancelled)"],
    reason: cancelled
  }),
  Rule.text({
    id: "transport/deadline",
    why: "A deadline passed on any side.",
    phrases: [
      "deadline (exceeded|reached|expired|has passed)",
      "deadline of…exceeded",
      "-second deadline",
      "(awaiting headers|no first token)"
    ],
    reason: firstOrTotal
  }),
  Rule.text({
    id: "transport/panic",
    why: "The server's process crashed, whatever it was doing.",
    phrases: ["panic: ", "due to an internal error"],
    reason: serverError
  })
]

/**
 * Time limits. They come after the rules on sizes and quotas, whose texts may also mention time limits, and before
 * the statuses. A 429 is excluded.
 */
export const timeLimits: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "transport/time-limit",
    why: "A time limit was exceeded, not only mentioned next to another limit.",
    phrases: [
      "(exceeded|exceeds|past|missed|hit) (deadline|time limit|*timeout*)",
      "(exceeded|exceeds|past|missed|hit) (the |its |our |)* (deadline|time limit|timeout)",
      "(killed|stopped) by timeout"
    ],
    when: ({ said, status }) => (said ?? status) !== 429,
    reason: firstOrTotal
  }),
  Rule.text({
    id: "transport/stalled",
    why: "An answer began and then stalled. Some servers call it incomplete.",
    phrases: ["(response|stream|generation|answer|connection) (has |)stalled"],
    reason: timeout.idle
  })
]

/** Connection errors of the operating system, gRPC or nginx, even inside a 503 or a sentence about time limits. */
export const unreachable: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "transport/unreachable",
    why: "The address could not be resolved, routed or connected to, or the upstream closed a gateway's connection.",
    phrases: [
      "failed to connect to all addresses",
      "cannot assign requested address",
      "(temporary failure in name resolution|name or service not known|nodename nor servname|no such host)",
      "no route to host",
      "all connection attempts failed",
      "prematurely closed connection",
      "disconnected without sending a response",
      "(do|making|sending) request (failed|to provider)",
      "connection reset"
    ],
    reason: network
  }),
  whole(
    "terminated",
    "undici's only word for a connection that broke mid-response. Inside a sentence it may mean anything that ended.",
    "terminated",
    ["terminated"]
  )
]

export const transport: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "transport/connect-timeout",
    why: "The sentence says that no connection was made in time.",
    phrases: [
      "connect* (timeout|timed out|time out)",
      "timed out (while |)(connecting|to connect)",
      "connect to…timed out"
    ],
    reason: timeout.connect
  }),
  Rule.text({
    id: "transport/idle-timeout",
    why: "The sentence says that an answer began and then stalled.",
    phrases: [
      "(body|read|idle|stream|chunk|inactivity|sse) (operation |)(timeout|timed out|time out|stalled)",
      "(no data|no chunk|no chunks|no events|no tokens|no activity|idle)…(for|within|timeout|seconds|ms)"
    ],
    reason: timeout.idle
  }),
  Rule.text({
    id: "transport/timeout",
    why: "The sentence says that the request did not finish in time.",
    phrases: [
      "timed out",
      "timed-out",
      "(timeout|timeouterror|apitimeouterror|readtimeout|timeoutexception|timeouts)",
      "time out",
      "took too long",
      "gateway time-out"
    ],
    unless: ["(api|request|connection|keep-alive) timeout (value|parameter|option|setting)"],
    reason: timeout.total
  }),
  Rule.text({
    id: "transport/broken",
    why: "The connection was refused, reset or cut.",
    phrases: [
      "connection (was |is |has been |unexpectedly |forcibly |prematurely |)(refused|reset|closed|aborted|lost|broken|dropped|interrupted|terminated|failed|ended|severed|error|errored|failure)",
      "(socket|connection) hang up",
      "websocket (was |is |has been |connection |connection was |)(closed|disconnected|terminated|error)",
      "error (decoding response body|sending request)",
      "socket (closed|connection was closed|disconnected|error|ended)",
      "other side closed",
      "premature close",
      "(broken pipe|forcibly closed|actively refused|connection reset by peer)",
      "(getaddrinfo|name resolution)",
      "dns (error|failure|lookup|resolution|resolver|query|name|server)",
      "could not resolve host*",
      "(network|host) is (unreachable|down)",
      "(failed|unable|cannot|could not|can't|couldn't) (to |)(connect|reach|establish)",
      "connect call failed",
      "(peer|server|remote|upstream) (closed|disconnected|has closed|prematurely closed|unexpectedly closed|terminated|reset)",
      "(incomplete chunked read|chunked encoding|remoteprotocolerror|protocolerror|incompleteread|readerror|connecterror|apiconnectionerror|connectionerror|clientconnectorerror)",
      "(unexpected eof|eof occurred|eof while|unexpected end of stream|stream reset|stream was reset|stream error: stream id|http2:|goaway)",
      "net::err_*",
      "(stream|response|connection|request) (was |)(ended|closed|disconnected|cut|interrupted|terminated) (before|unexpectedly|prematurely|without|early|while)",
      "stream disconnected",
      "(post|get)…: eof",
      "tcp handshake",
      "connection appears to be offline",
      "transport (error|failure|closed)",
      "tls handshake eof",
      "empty reply from server",
      "not closed cleanly",
      "(unknownhostexception|connectexception|socketexception|noroutetohostexception)"
    ],
    reason: network
  }),
  whole(
    "fetch",
    "All that browsers, Node and axios say of a broken connection.",
    "(?:load|fetch|network request) failed|failed to fetch|network ?error(?: when attempting to fetch resource)?",
    ["failed", "network", "networkerror"]
  ),
  Rule.text({
    id: "transport/cancelled",
    why: "The request was cancelled.",
    phrases: [
      "(abort|aborted|aborterror|aborting)",
      "(canceled|cancelled|cancels|cancelation|cancellation|cancellederror|cancelederror|apiuseraborterror)",
      "interrupted by user",
      "(user|client) (interrupted|closed request|closed the connection|disconnected)",
      "keyboardinterrupt"
    ],
    reason: cancelled
  }),
  Rule.text({
    id: "transport/crashed",
    why: "The server, or the process that runs the model, failed.",
    phrases: [
      "internal (server |service |)(error|failure)",
      "(server|api|upstream|system|service|engine|enginecore|model) (had|encountered|experienced|returned|threw) (an |a |)(unexpected |internal |unknown |)(error|exception|failure|problem|issue)",
      "(unexpected|unknown|unhandled|internal) (server |api |)(error|exception) (occurred|has occurred)",
      "an error occurred while processing your request",
      "(runner|process|worker|engine|server|model) (process |loop |core |)(has |is |)(unexpectedly |)(crashed|terminated|stopped|died|exited|dead)",
      "(out of memory|cuda error|cudamalloc|segmentation fault|core dumped|unable to allocate|sigkill|oom|enginedeaderror|asyncenginedeaderror|ggml_assert)",
      "(runner|process|worker|engine|server)…exit (status|code)",
      "(model runner|llama runner|llama-server)…(stopped|terminated|crashed|exited|failed|exit)",
      "error loading model",
      "channel error",
      "server error",
      "web server is returning an unknown error",
      "unable to process your request",
      "model produced invalid content"
    ],
    reason: serverError
  })
]
