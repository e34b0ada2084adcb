/**
 * Limits that a provider has named, and the amounts left of them. Pure.
 *
 * For each kind, an answer carries a limit, the remaining amount and the time of the reset:
 * `x-ratelimit-limit-requests`, `x-ratelimit-remaining-requests`, `x-ratelimit-reset-requests` (OpenAI and compatible
 * servers; requests and tokens) and `anthropic-ratelimit-requests-limit`, `-remaining`, `-reset` (requests, tokens,
 * input-tokens, output-tokens). The period of a limit (minute or day) is not named and not needed: the limit is
 * assumed to refill evenly until its reset. After the reset nothing is known until the next answer.
 *
 * Calls that are sent while an answer is on its way are not in its numbers, so a few calls may still reach a limit.
 * Times are monotonic milliseconds.
 */
import * as HeaderFacts from "../failure/facts/HeaderFacts.ts"
import * as WaitHint from "../failure/facts/WaitHint.ts"

export const kinds = ["requests", "tokens", "input-tokens", "output-tokens"] as const
export type Kind = (typeof kinds)[number]

/** One limit as described by an answer. */
export interface Known {
  /** `undefined` when not named. */
  readonly limit: number | undefined
  /** Amount left at the time `at`. */
  readonly remaining: number
  readonly at: number
  /** Time of the reset. From then on this description is obsolete. */
  readonly fullAt: number
  /** Amount used by calls that began after `at`. */
  readonly used: number
}

export type KnownLimits = { readonly [K in Kind]?: Known | undefined }

export const empty: KnownLimits = {}

/** Amount that a call uses. */
export interface Amount {
  readonly requests: number
  readonly input: number
  readonly output: number
}

/** Updates the limits from the headers of an answer. Returns the same object when the headers name none. */
export const learn = (known: KnownLimits, headers: unknown, now: number): KnownLimits => {
  const fields = HeaderFacts.from([headers])
  let next = known
  for (const { kind, names } of named) {
    for (const of of names) {
      const said = read(fields, of, now)
      if (said === undefined) continue
      next = { ...next, [kind]: said }
      break
    }
  }
  return next
}

/** Counts a call. A negative amount takes a call back. */
export const take = (known: KnownLimits, amount: Amount): KnownLimits => {
  if (known === empty) return known
  const next: { [K in Kind]?: Known } = {}
  for (const kind of kinds) {
    const of = known[kind]
    if (of !== undefined) next[kind] = { ...of, used: Math.max(0, of.used + amountOf(kind, amount)) }
  }
  return next
}

/** Earliest time at which all known limits have the amount left: `now` or later. */
export const freeAt = (known: KnownLimits, amount: Amount, now: number): number => {
  if (known === empty) return now
  let latest = now
  for (const kind of kinds) {
    const of = known[kind]
    // Every answer has at least one token, even without an estimate.
    if (of !== undefined) latest = Math.max(latest, freeOf(of, Math.max(1, amountOf(kind, amount))))
  }
  return latest
}

/** Amount left at `now` with an even refill; never below 0. */
export const leftAt = ({ limit, remaining, at, fullAt, used }: Known, now: number): number => {
  const filled = limit === undefined ? 0 : ((limit - remaining) * (now - at)) / (fullAt - at)
  return Math.max(0, Math.floor(Math.min(limit ?? Infinity, remaining + filled - used)))
}

/** Earliest time at which one more call or token is left: `now` or later. */
export const nextAt = (known: Known, now: number): number => Math.max(now, freeOf(known, 1))

/** True when all known limits are obsolete. */
export const isOver = (known: KnownLimits, now: number): boolean =>
  kinds.every((kind) => (known[kind]?.fullAt ?? now) <= now)

const amountOf = (kind: Kind, { requests, input, output }: Amount): number => {
  switch (kind) {
    case "requests":
      return requests
    case "tokens":
      return input + output
    case "input-tokens":
      return input
    case "output-tokens":
      return output
  }
}

/** Earliest time at which the amount is left. May lie before `now` for an obsolete limit. */
const freeOf = ({ limit, remaining, at, fullAt, used }: Known, amount: number): number => {
  // A call that is larger than the limit waits for the whole limit.
  const needed = Math.min(amount, limit ?? amount) + used - remaining
  if (needed <= 0) return at
  const rate = limit === undefined ? 0 : (limit - remaining) / (fullAt - at)
  return rate > 0 ? Math.min(fullAt, at + needed / rate) : fullAt
}

/** The headers of one limit. */
interface Names {
  readonly limit: string
  readonly remaining: string
  readonly reset: string
}

const namesOf = (nameOf: (part: keyof Names) => string): Names => ({
  limit: nameOf("limit"),
  remaining: nameOf("remaining"),
  reset: nameOf("reset")
})

// Made once: building the names for each answer took longer than looking them up.
const named = kinds.map((kind) => ({
  kind,
  names: [
    namesOf((part) => `x-ratelimit-${part}-${kind}`),
    namesOf((part) => `anthropic-ratelimit-${kind}-${part}`)
  ]
}))

const read = (fields: Readonly<Record<string, string>>, names: Names, now: number): Known | undefined => {
  const remaining = count(fields[names.remaining])
  const reset = fields[names.reset]
  if (remaining === undefined || reset === undefined) return undefined
  const wait = WaitHint.resetIn(reset, fields["date"])
  if (wait === undefined) return undefined
  const limit = count(fields[names.limit])
  return { limit, remaining, at: now, fullAt: now + Math.min(wait, longest), used: 0 }
}

/** One day. A longer reset is a mistake, or no reason to hold calls back. */
const longest = 86_400_000

const count = (value: string | undefined): number | undefined =>
  value !== undefined && /^\s*\d{1,15}(?:\.\d{1,6})?\s*$/.test(value) ? Number(value) : undefined
