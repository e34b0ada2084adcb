/**
 * Which words of a tool's arguments and results say nothing: request ids, timestamps, durations, addresses.
 *
 * Two calls that differ in such words alone are the same call, and two results the same result. What may be data is
 * kept: numbers, percentages, plain dates, the page that a cursor stands for. Arguments are read more strictly than
 * results: an id that a program asks for is what it asks for, an id that a server made up is not. Pure.
 *
 * **What it does not do.** It does not know what a word means: a counter of nothing in particular counts as progress.
 *
 * **Example**
 *
 * ```ts
 * Volatile.inResult("2026-01-02T03:04:05Z") // true
 * Volatile.inResult("42%")                  // false
 * Volatile.whereNamed("request_id")         // "anywhere"
 * ```
 */

const moment = String.raw`\d{4}-\d\d-\d\d[T_].*|\d{8}T\d{6}.*|1\d{9}(?:\d{3})?(?:\.\d+)?`
const clock = String.raw`\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:z|am|pm)?`
const uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
const duration = String.raw`(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|us|µs|ns|mins?|secs?))+`
const hex = String.raw`0x[0-9a-f]+|(?=\d*[a-f])[0-9a-f]{7,64}`
/** `req_8f3a91b2`, `OPS-311`, `tmpx81b`, and long words of all kinds of characters. */
const made = String.raw`[a-z]{2,12}[_-](?=\w*\d)[0-9a-z]{8,}|tmp[\w.]*|\d{12,}`

/** A longer word is no name: expressions that look at all of it would run out of stack. */
const longest = 1_000

const momentWord = new RegExp(`^(?:${moment})$`, "i")
const uuidWord = new RegExp(`^${uuid}$`, "i")
const volatileWord = new RegExp(`^(?:${moment}|${clock}|${uuid}|${hex}|${made})$`, "i")
/** In small letters: 31M are millions. */
const durationWord = new RegExp(`^${duration}$`)
const ticket = /^[A-Z]{2,10}-\d{1,14}$/
const encoded = /^(?=.*[a-z])(?=.*[A-Z])[\w-]{20,}$/

/** Of a word with a digit: whether it is a point in time. What an argument may lose; but not a day, which begins at 0. */
export const isMoment = (word: string): boolean =>
  word.length <= longest && momentWord.test(word) && !midnight.test(word)

const midnight = /T00:00(?::00(?:\.0+)?)?(?:Z|[+-]\d\d:?\d\d)?$/i

const momentIn =
  /(?:19|20)\d\d-?[01]\d-?[0-3]\d[T_-]?[0-2]\d[:-]?[0-5]\d|(?:^|\D)1[4-9]\d{8}(?:\d{3})?(?:\D|$)/

/** Of the name of a session, of what signs a call: whether nobody chose it. */
export const isRandom = (word: string): boolean => uuidWord.test(word) || code.test(word)

const code = /^(?=.*\d)(?=.*[a-f])[0-9a-f]{6,128}$/i

/** Of a word with many digits: whether a point in time is a part of it. */
export const hasMoment = (word: string): boolean =>
  word.length <= longest && momentIn.test(word) && !uuidWord.test(word)

/** Of a word with a digit: whether a result is the same without it. */
export const inResult = (word: string): boolean =>
  word.length > longest ||
  volatileWord.test(word) ||
  durationWord.test(word) ||
  (word.length >= 20 ? encoded.test(word) : ticket.test(word))

/**
 * Whether a word may say nothing, by its first two characters and its length: most are no number, not hexadecimal, and
 * too short to be made up.
 */
export const mayBe = (first: number, second: number, length: number): boolean => {
  if (length >= 11 || (first >= 48 && first < 58)) return true
  const lowered = first | 32
  if (lowered === 116) return (second | 32) === 109
  // A ticket is in capitals.
  return (length >= 7 && lowered >= 97 && lowered <= 102) || (first > 64 && first < 91)
}

/** Where a name says that its value says nothing. */
export type Where =
  /** Anywhere: a request's id, a nonce. */
  | "anywhere"
  /** In results, and as a field of arguments; in a text that is written somewhere such numbers are data. */
  | "field"
  /** In results, where it is assigned: `port: 8080`. */
  | "result"
  /** In results, in a sentence too: `PID 4411`. */
  | "spoken"

const named = (where: Where, names: string): ReadonlyArray<readonly [string, Where]> =>
  names.split(" ").map((name) => [name, where])

/** Such names, in lower case, their words joined by `_`. */
export const names: ReadonlyArray<readonly [name: string, where: Where]> = [
  ...named(
    "anywhere",
    "ts timestamp now nonce uuid guid cb cache_buster request_id trace trace_id span span_id correlation_id invocation_id call_id " +
      "client_nonce jsessionid phpsessid idempotency_key client_token client_request_id x_request_id req_ts csrf csrf_token xsrf_token authenticity_token sleep traceparent tracestate"
  ),
  ...named("field", "attempt attempts retry retries tries try heartbeat wait elapsed elapsed_ms took"),
  ...named(
    "result",
    "id port request session order ticket rev revision rid req sig server served_by ms duration duration_ms latency latency_ms time date uptime age " +
      "etag ref seq sequence key execution_count checked updated generated expires as_of server_time response_time"
  ),
  ...named("spoken", "pid tid seed")
]

const byName: ReadonlyMap<string, Where> = new Map(names.map(([name, where]) => [plain(name), where]))

const cursors =
  /^(?:since|until|from|to|start|end|begin|before|after|cursor|page|pagina|página|seite|strona|desde|offset|skip|marker|next)|token$/

/** Where the value of a field says nothing, going by its name: `request_id`, `created_at`; `undefined` if nowhere. */
export const whereNamed = (name: string): Where | undefined =>
  byName.get(plain(name.replace(/^x[_-]/i, ""))) ??
  (madeUp.test(plain(name)) ? "anywhere" : undefined) ??
  ((/(?:_at|[a-z]At|_id|[a-z]Id|_ms|[a-z]Ms|_s|_secs?)$/.test(name) || clocks.test(name)) && !isDistance(name)
    ? "result"
    : undefined)

/** Names of what is made up for each call: `client_msg_id`, `x-amzn-trace-id`; but not `client_id`. */
const madeUp =
  /^x\w*(?:request|trace|correlation)id$|^x?(?:client\w+|request|req|trace|span|correlation|idempotency|dedup\w*|invocation)(?:id|uuid|key|token|nonce)$/

/** Names of what goes on by itself. */
const clocks =
  /elapsed|uptime|runtime|rate_?limit|^frame$|^ticks?$|duration|latency|heartbeat|timestamp|seconds|millis|nonce|attempt|retries|retry_?count/i

/** Words of names of what there is less of as something gets on: `lag_seconds`, `Seconds_Behind_Master`. */
const distances = new Set(["lag", "behind", "backlog"])
const isDistance = (name: string): boolean => {
  const words = name
    .replaceAll(/([a-z\d])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z]+/)
  return words.some((word) => distances.has(word))
}

/** A name whose value says where in a list a call is: times and ids are kept there. */
export const isCursorKey = (name: string): boolean => cursors.test(plain(name))

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, "")
}
