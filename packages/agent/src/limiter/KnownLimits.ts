/**
 * What a provider has said about its own limits, and how much of that is left. Pure.
 *
 * Answers carry, per kind, a limit, what remains of it and when it is full again: `x-ratelimit-limit-requests`,
 * `x-ratelimit-remaining-requests`, `x-ratelimit-reset-requests` (OpenAI and those that follow it; requests and
 * tokens) and `anthropic-ratelimit-requests-limit`, `-remaining`, `-reset` (requests, tokens, input-tokens,
 * output-tokens). Whether a limit is one of a minute or of a day is not said and need not be known: the reset is when
 * it will be full, and it fills evenly until then. After that nothing is known, until the next answer.
 *
 * What is sent while an answer is on its way is not in its numbers, so that a few calls may still run into a limit.
 * Times are monotonic milliseconds.
 */
import * as HeaderFacts from "../failure/facts/HeaderFacts.ts"
import * as WaitHint from "../failure/facts/WaitHint.ts"

export const kinds = ["requests", "tokens", "input-tokens", "output-tokens"] as const
export type Kind = (typeof kinds)[number]

/** One limit, as an answer described it. */
export interface Known {
  /** `undefined`: not said. */
  readonly limit: number | undefined
  /** Left at `at`. */
  readonly remaining: number
  readonly at: number
  /** When it will be full, and this description is worth nothing any more. */
  readonly fullAt: number
  /** Used by calls that began after `at`. */
  readonly used: number
}

export type KnownLimits = { readonly [K in Kind]?: Known | undefined }

export const empty: KnownLimits = {}

/** What a call takes, in tokens. */
export interface Amount {
  readonly requests: number
  readonly input: number
  readonly output: number
}

/** What the headers of an answer say, over what is known. The same object where they say nothing. */
export const learn = (known: KnownLimits, headers: unknown, now: number): KnownLimits => {
  const fields = HeaderFacts.from([headers])
  let next = known
  for (const kind of kinds) {
    const said =
      read(fields, (part) => `x-ratelimit-${part}-${kind}`, now) ??
      read(fields, (part) => `anthropic-ratelimit-${kind}-${part}`, now)
    if (said !== undefined) next = { ...next, [kind]: said }
  }
  return next
}

/** Counts a call; a negative amount takes one back. */
export const take = (known: KnownLimits, amount: Amount): KnownLimits => {
  if (known === empty) return known
  const next: { [K in Kind]?: Known } = {}
  for (const kind of kinds) {
    const of = known[kind]
    if (of !== undefined) next[kind] = { ...of, used: Math.max(0, of.used + amountOf(kind, amount)) }
  }
  return next
}

/** When so much is left of everything that is known: `now` or later. */
export const freeAt = (known: KnownLimits, amount: Amount, now: number): number => {
  if (known === empty) return now
  let latest = now
  for (const kind of kinds) {
    const of = known[kind]
    // No answer is without a token, so that nothing is needed where nothing was estimated.
    if (of !== undefined) latest = Math.max(latest, freeOf(of, Math.max(1, amountOf(kind, amount))))
  }
  return latest
}

/** The amount left at `now`, assuming that it refills evenly; never below 0. */
export const leftAt = ({ limit, remaining, at, fullAt, used }: Known, now: number): number => {
  const filled = limit === undefined ? 0 : ((limit - remaining) * (now - at)) / (fullAt - at)
  return Math.max(0, Math.floor(Math.min(limit ?? Infinity, remaining + filled - used)))
}

/** When one more call or token is left: `now` or later. */
export const nextAt = (known: Known, now: number): number => Math.max(now, freeOf(known, 1))

/** Whether nothing that is known still holds. */
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

/** When so much is left; what is over by now was so before. */
const freeOf = ({ limit, remaining, at, fullAt, used }: Known, amount: number): number => {
  // More than all of it never fits: such a call has it all to itself.
  const needed = Math.min(amount, limit ?? amount) + used - remaining
  if (needed <= 0) return at
  const rate = limit === undefined ? 0 : (limit - remaining) / (fullAt - at)
  return rate > 0 ? Math.min(fullAt, at + needed / rate) : fullAt
}

const read = (
  fields: Readonly<Record<string, string>>,
  nameOf: (part: "limit" | "remaining" | "reset") => string,
  now: number
): Known | undefined => {
  const remaining = count(fields[nameOf("remaining")])
  const reset = fields[nameOf("reset")]
  if (remaining === undefined || reset === undefined) return undefined
  const wait = WaitHint.resetIn(reset, fields["date"])
  if (wait === undefined) return undefined
  const limit = count(fields[nameOf("limit")])
  return { limit, remaining, at: now, fullAt: now + Math.min(wait, longest), used: 0 }
}

/** A day: a longer reset is a mistake, or no reason to hold calls back on this one's word. */
const longest = 86_400_000

const count = (value: string | undefined): number | undefined =>
  value !== undefined && /^\s*\d{1,15}(?:\.\d{1,6})?\s*$/.test(value) ? Number(value) : undefined
