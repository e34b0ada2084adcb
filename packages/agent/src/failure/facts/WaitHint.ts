/**
 * Reads how long a provider asked to wait.
 *
 * Precedence, over all links of a chain; the first form that can be parsed wins:
 *
 * 1. the body: Google's `RetryInfo.retryDelay`, `retry_after_ms`, `retry_after`, `resets_in_seconds`, `resets_at`;
 *    a zero there does not override a longer wait in a header;
 * 2. `retry-after-ms`, `x-ms-retry-after-ms`;
 * 3. `retry-after` in seconds ("30", "30s"; the longest of several), as an HTTP date, or as an epoch that some
 *    servers send;
 * 4. `x-ratelimit-reset*`, `anthropic-ratelimit-*-reset` and the IETF's `ratelimit`, for a dimension that is used
 *    up or that rejected the request; the longest of several. They are read only for a rate limit, an overload or a
 *    used-up quota, because servers send these headers with every answer;
 * 5. prose ("try again in 1.242s", "retry after 2 minutes", "please wait 1h30m", "resets 3pm (America/New_York)"),
 *    except for an error that waiting does not fix, because such a text may quote anything;
 * 6. the wait of an effect/ai reason.
 *
 * An instant (HTTP date, epoch, RFC 3339) is compared with the response's own `Date`, so that a skewed local clock
 * does not matter. Without a `Date` it is ignored. A client's own backoff ("Retrying in 5 seconds") is not a hint,
 * but "retrying in 20m" is: only a provider asks for so long a wait.
 * The result is never negative, NaN or infinite; zero means now.
 */
import { Duration } from "effect"
import type { ErrorFacts } from "./ErrorFacts.ts"
import * as Instant from "./Instant.ts"
import type { ReasonTag } from "../reasons/FailoverReason.ts"
import { definitions } from "../reasons/FailoverReason.ts"

type Headers = Readonly<Record<string, string>>

/** The wait that a chain of facts states, given the reason that was found in it. */
export const from = (chain: ReadonlyArray<ErrorFacts>, reason: ReasonTag): Duration.Duration | undefined => {
  const { wait } = definitions[reason]
  const date = first(chain, ({ headers }) => headers["date"])
  const body = first(chain, ({ waits, headers }) =>
    first(waits, (wait) => bounded(ofBody(wait, headers["date"])))
  )
  const millis =
    (body === 0 ? undefined : body) ??
    first(chain, ({ headers }) => bounded(ofHeaders(headers))) ??
    body ??
    (wait === "reset"
      ? first(chain, ({ headers, status }) => bounded(ofResets(headers, status)))
      : undefined) ??
    (wait === "field"
      ? undefined
      : (first(chain, ({ text }) => bounded(ofProse(text))) ??
        (wait === "reset" ? first(chain, ({ text }) => bounded(ofInstant(text, date))) : undefined)))
  return millis === undefined
    ? first(chain, ({ retryAfter }) =>
        retryAfter !== undefined && isWait(Duration.toMillis(retryAfter)) ? retryAfter : undefined
      )
    : Duration.millis(millis)
}

const first = <A, B>(items: ReadonlyArray<A>, read: (item: A) => B | undefined): B | undefined => {
  for (const item of items) {
    const found = read(item)
    if (found !== undefined) return found
  }
  return undefined
}

const ofBody = (
  [key, value]: readonly [key: string, value: string],
  now: string | undefined
): number | undefined =>
  /^resets?_?(?:at|time)$/.test(key)
    ? resetIn(value, now)
    : (number(value, /_?ms$/.test(key) ? 1 : 1_000) ?? duration(value.toLowerCase()))

const ofHeaders = (headers: Headers): number | undefined =>
  number(headers["retry-after-ms"], 1) ??
  number(headers["x-ms-retry-after-ms"], 1) ??
  ofRetryAfter(headers["retry-after"]?.trim(), headers["date"])

const ofRetryAfter = (value: string | undefined, now: string | undefined): number | undefined =>
  value === undefined
    ? undefined
    : (seconds(longest(value), now) ?? duration(value.toLowerCase(), true) ?? instant(value, now))

/** The longest wait of a header that was sent twice and that the client joined: "30, 30". */
const longest = (value: string): string =>
  /^\d{1,12}(?: *, *\d{1,12}){1,8}$/.test(value) ? String(Math.max(...value.split(",").map(Number))) : value

const reset =
  /^(?:x-ratelimit-reset(-.+)?|anthropic-ratelimit-(.+)-reset|x-ratelimit-(.+)-reset|ratelimit-reset)$/

const ofResets = (headers: Headers, status: number | undefined): number | undefined => {
  let longest = ofIetf(headers["ratelimit"])
  for (const [name, value] of Object.entries(headers)) {
    if (!reset.test(name) || !isSpent(name, headers, status)) continue
    const wait = resetIn(value, headers["date"])
    if (wait !== undefined) longest = Math.max(longest ?? 0, wait)
  }
  return longest
}

/**
 * Milliseconds until the instant that the value of a reset header names, in any form. `date` is the response's own.
 * `undefined` if the value cannot be parsed.
 */
export const resetIn = (value: string, date: string | undefined): number | undefined =>
  duration(value.toLowerCase(), true) ?? seconds(value, date) ?? instant(value, date)

const unified = "anthropic-ratelimit-unified-"

/** True when the dimension of a reset header is the one that rejected the request. */
const isSpent = (name: string, headers: Headers, status: number | undefined): boolean => {
  if (name.startsWith(unified)) return isRejected(name, headers)
  const remaining = headers[name.replace("reset", "remaining")]
  // A dimension with something left is not a reason to wait. One without a count may be, after a 429.
  return remaining === undefined ? status === 429 : Number(remaining) <= 0
}

/**
 * Anthropic's subscriptions have a window of five hours and others of seven days. Each window has a status.
 * `representative-claim` names the window that binds, and its reset counts.
 */
const isRejected = (name: string, headers: Headers): boolean => {
  const own = headers[name.replace(/reset$/, "status")]
  if (own !== undefined) return own === "rejected"
  if (name === `${unified}reset`) return true
  // The claim names a window without a status. Without a claim, the reset for all windows is used.
  const window = windows[headers[`${unified}representative-claim`] ?? ""]
  return window !== undefined && name === `${unified}${window}-reset`
}

const windows: Readonly<Record<string, string>> = { five_hour: "5h", seven_day: "7d" }

/** Parses `limit=100, remaining=0, reset=50` of the older drafts and `"default";r=0;t=30` of the newer ones. */
const ofIetf = (value: string | undefined): number | undefined => {
  if (value === undefined) return undefined
  const policies = /remaining=/.test(value) ? [value] : value.split(",")
  let longest: number | undefined
  for (const policy of policies) {
    if (!/\b(?:remaining|r)=0(?![\d.])/.test(policy)) continue
    const wait = number(/\b(?:reset|t)=(\d{1,9})(?![\d.])/.exec(policy)?.[1], 1_000)
    if (wait !== undefined) longest = Math.max(longest ?? 0, wait)
  }
  return longest
}

/** Parses a number of seconds, or an epoch in seconds or milliseconds. */
const seconds = (value: string, now: string | undefined): number | undefined => {
  const parsed = number(value, 1)
  if (parsed === undefined || parsed < 100_000_000) return number(value, 1_000)
  const from = now === undefined ? Number.NaN : Date.parse(now)
  const wait = (parsed < 100_000_000_000 ? parsed * 1_000 : parsed) - from
  return Number.isFinite(wait) ? Math.max(0, wait) : undefined
}

// Words that introduce a wait. A client's own "will retry in" is excluded, and so is the expiry of anything but a
// limit. "Retrying in" counts from this time on: no client's own backoff is as long.
const longestBackoff = 300_000
const lead =
  /(?<!\w)(?:(?:try|retry|come back|check back)(?: your request)?(?: again)?(?: in|[ _-]?after[:=]?)|retrying in|retrydelay["':= ]{1,4}|retry_delay ?\{ ?seconds:|wait(?: for| at least| about)?|(?:reset|resets|available|replenished|replenishes|refilled|recover|(?:limit|cooldown|ban|block|penalty) (?:ends|expires))(?: again)?(?: in| after)[:=]?|请在|请等待|请于|请|将在|将于|(?=\d{1,9} ?(?:秒|分|小时|天)钟?后(?:再|自动)?重?试)) ?(?:about |another |approximately |around |~)?(?=\d)/g

/** The first wait that a lower-cased text names, in milliseconds. */
const ofProse = (text: string): number | undefined => {
  if (!/retry|again|back|wait|reset|available|replenish|refilled|ends|expires|recover|[请将后]/.test(text))
    return undefined
  for (const match of text.matchAll(lead)) {
    const before = text.slice(Math.max(0, match.index - 12), match.index)
    if (/^(?:re)?try/.test(match[0]) && /(?:will|ll|next|back-?off:?) $|auto-$/.test(before)) continue
    // A past or negated wait ("had to wait", "did not wait") is not a request.
    if (match[0].startsWith("wait") && /(?:had to|used to|would|did|not|n't) $/.test(before)) continue
    const rest = text.slice(match.index + match[0].length, match.index + match[0].length + 60)
    const wait = duration(rest) ?? (/ (?:in|after)[:=]? $/.test(match[0]) ? clock(rest) : undefined)
    if (match[0].startsWith("retrying") && (wait ?? 0) < longestBackoff) continue
    if (wait !== undefined) return wait
    if (/after[:=]|seconds:|delay/.test(match[0])) {
      const bare = /^\d{1,9}(?:\.\d{1,12})?(?![\w:/-])/.exec(rest)
      if (bare !== null) return number(bare[0], 1_000)
    }
  }
  return undefined
}

const ofInstant = (text: string, date: string | undefined): number | undefined => {
  const now = date === undefined ? Number.NaN : Date.parse(date)
  return Number.isNaN(now) ? undefined : Instant.until(text, now)
}

const units: Readonly<Record<string, number>> = {
  ms: 1,
  millisecond: 1,
  毫秒: 1,
  s: 1_000,
  sec: 1_000,
  second: 1_000,
  秒: 1_000,
  秒钟: 1_000,
  m: 60_000,
  min: 60_000,
  minute: 60_000,
  分: 60_000,
  分钟: 60_000,
  h: 3_600_000,
  hr: 3_600_000,
  hour: 3_600_000,
  小时: 3_600_000,
  d: 86_400_000,
  day: 86_400_000,
  天: 86_400_000,
  w: 604_800_000,
  wk: 604_800_000,
  week: 604_800_000,
  周: 604_800_000
}
const part =
  /(?:,? ?(?:and )?)(?:\d{1,6}(?: ?[-–~] ?| to ))?(\d{1,3}(?:,\d{3}){1,3}|\d{1,12}(?:\.\d{1,12})?) ?(?:more |further |additional )?(毫秒|秒钟|秒|分钟|分|小时|天|周|[a-z]{1,12})/y

/**
 * Parses "6m0s", "1m47.58s", "2 minutes", "1 hour and 5 min" at the beginning of a lower-cased text, to
 * milliseconds.
 */
const duration = (text: string, whole = false): number | undefined => {
  let total: number | undefined
  let end = 0
  part.lastIndex = 0
  for (let match = part.exec(text); match !== null; match = part.exec(text)) {
    const word = match[2] ?? ""
    const unit = units[word] ?? (word.endsWith("s") ? units[word.slice(0, -1)] : undefined)
    if (unit === undefined) break
    total = (total ?? 0) + Number(match[1]?.replaceAll(",", "")) * unit
    end = part.lastIndex
  }
  return total === undefined || !isWait(total) || (whole && end < text.length) ? undefined : Math.round(total)
}

/** Parses "12:34:56", with which Azure counts down a quota. A time of day is excluded: a zone or am/pm follows it. */
const clock = (text: string): number | undefined => {
  const match = /^(\d{1,3}):([0-5]\d):([0-5]\d)(?![\d:]| ?(?:utc|gmt|am|pm|z|\+))/.exec(text)
  if (match === null) return undefined
  return (Number(match[1]) * 3_600 + Number(match[2]) * 60 + Number(match[3])) * 1_000
}

const number = (value: string | undefined, unit: number): number | undefined => {
  if (value === undefined || !/^\s*\d+(\.\d+)?\s*$/.test(value)) return undefined
  const millis = Number(value) * unit
  return isWait(millis) ? Math.round(millis) : undefined
}

// `Date.parse` accepts "May 5", too, so only the forms of HTTP and RFC 3339 are allowed.
const forms = {
  imfFixdate: /^[a-z]{3}, \d{2} [a-z]{3} \d{4} \d{2}:\d{2}:\d{2} gmt$/i,
  rfc850: /^[a-z]{6,9}, \d{2}-[a-z]{3}-\d{2} \d{2}:\d{2}:\d{2} gmt$/i,
  asctime: /^[a-z]{3} [a-z]{3} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/i,
  rfc3339: /^\d{4}-\d{2}-\d{2}t\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:z|[+-]\d{2}:\d{2})$/i
}
const isDate = (value: string): boolean => Object.values(forms).some((form) => form.test(value))

const instant = (value: string | undefined, now: string | undefined): number | undefined => {
  if (value === undefined || now === undefined || !isDate(value)) return undefined
  // The asctime form has no zone. HTTP defines it as GMT.
  const zoned = forms.asctime.test(value) ? `${value} GMT` : value
  const millis = Date.parse(zoned) - Date.parse(now)
  return Number.isFinite(millis) ? Math.max(0, millis) : undefined
}

/** Longest wait, in milliseconds. A larger number is an instant or a mistake. */
const month = 31 * 24 * 60 * 60 * 1_000

const bounded = (millis: number | undefined): number | undefined =>
  millis !== undefined && millis <= month ? millis : undefined

const isWait = (millis: number): boolean => Number.isFinite(millis) && millis >= 0
