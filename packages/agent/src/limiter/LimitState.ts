/**
 * Order of calls under the limits of one key and model. Pure state machine.
 *
 * **State.** Number of running calls, usage of the last minute, limits that the provider named, and two queues of
 * waiting calls: interactive and background.
 *
 * **Order.** Interactive calls come before background calls, and each queue is first in, first out. While a
 * background call waits, at most {@link turns} interactive calls go first; then it is next. No call overtakes the
 * next one, not even a smaller call that would fit: large calls would otherwise wait without end.
 *
 * **Invariants**, for every order of events: at most `concurrency` calls run. In any minute at most
 * `requestsPerMinute` calls begin, with at most `tokensPerMinute` estimated tokens. (Usage beyond an estimate counts
 * against later calls.) A waiting call gets exactly one verdict, never after its deadline, and a call that leaves has
 * no further effect. A call larger than a limit uses all of it.
 *
 * `CallLimiter` is the service around it. Times are monotonic milliseconds.
 */
import { Options } from "@outlast/resilience"
import type { Amount, KnownLimits } from "./KnownLimits.ts"
import * as Known from "./KnownLimits.ts"
import type { MinuteWindow } from "./MinuteWindow.ts"
import * as Window from "./MinuteWindow.ts"
import type { Priority } from "./Priority.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** Limits of one key and model. An absent field means no limit. */
export interface Limits {
  /** Maximum number of concurrent calls, at least 1. */
  readonly concurrency?: number | undefined
  /** Maximum number of calls that begin within a minute, at least 1. */
  readonly requestsPerMinute?: number | undefined
  /** Maximum tokens of calls that begin within a minute, input and output together, at least 1. */
  readonly tokensPerMinute?: number | undefined
}

/** Resolved limits. `Infinity` means no limit. */
export interface Rule {
  readonly concurrency: number
  readonly requests: number
  readonly tokens: number
}

/** A call that asks for a permit. */
export interface Asking {
  /** Unique and ascending. */
  readonly id: number
  readonly priority: Priority
  /** Estimated tokens of the prompt. */
  readonly input: number
  /** Estimated tokens of the answer. */
  readonly output: number
  /** Latest time at which a permit is useful. */
  readonly deadline: number
}

/** The amounts counted for a granted call. */
export interface Grant {
  readonly amount: Amount
  /** The slot in which the call is counted. */
  readonly slot: number
  /** Counted tokens. */
  readonly tokens: number
}

export type Verdict =
  | { readonly _tag: "Granted"; readonly id: number; readonly grant: Grant }
  /** `until` is the earliest time at which the call could be granted. */
  | { readonly _tag: "Refused"; readonly id: number; readonly until: number }

export interface LimitState {
  readonly running: number
  readonly requests: MinuteWindow
  readonly tokens: MinuteWindow
  readonly known: KnownLimits
  /** No call is granted before this time. */
  readonly heldUntil: number
  readonly interactive: ReadonlyArray<Asking>
  readonly background: ReadonlyArray<Asking>
  /** Number of interactive calls granted while a background call waits. */
  readonly passed: number
}

export type Step = readonly [ReadonlyArray<Verdict>, LimitState]

/** Number of interactive calls that may go before a waiting background call, which therefore gets at least a fifth. */
export const turns = 4

/** Maximum number of waiting calls for one key and model. */
export const maxWaiters = 1_000

/** Assumed wait in milliseconds when it depends on the end of other calls. */
export const unknownWait = 1_000

export const initial: LimitState = {
  running: 0,
  requests: Window.empty,
  tokens: Window.empty,
  known: Known.empty,
  heldUntil: -Infinity,
  interactive: [],
  background: [],
  passed: 0
}

const limit = Options.is.integer({ min: 1 })

/** Checks of the fields of {@link Limits}. */
export const checks: Options.Checks<Limits> = {
  concurrency: limit,
  requestsPerMinute: limit,
  tokensPerMinute: limit
}

/** Resolves limits. Throws an `InvalidOption` (a `RangeError`) for a limit below 1 or an unknown one. */
export const rule = (limits: Limits = {}): Rule => {
  Options.fields("CallLimiter", limits, checks)
  const { concurrency = Infinity, requestsPerMinute = Infinity, tokensPerMinute = Infinity } = limits
  return { concurrency, requests: requestsPerMinute, tokens: tokensPerMinute }
}

// -----------------------------------------------------------------------------
// The machine
// -----------------------------------------------------------------------------

/**
 * Asks for a permit. The call is granted at once, rejected at once when it would wait beyond its deadline, or queued
 * until a later step.
 */
export const ask = (rule: Rule, state: LimitState, asking: Asking, now: number): Step => {
  if (!hasWaiters(state) && freeAt(rule, state, asking, now) <= now) {
    const [granted, after] = grant(rule, state, asking, now)
    return [[granted], after]
  }
  const until = soonest(rule, state, asking, now)
  if (until > asking.deadline || count(state) >= maxWaiters) return [[refused(asking.id, until, now)], state]
  return tick(rule, { ...state, [asking.priority]: [...state[asking.priority], asking] }, now)
}

/** Removes a waiting call. */
export const leave = (rule: Rule, state: LimitState, id: number, now: number): Step =>
  tick(
    rule,
    {
      ...state,
      interactive: state.interactive.filter((waiter) => waiter.id !== id),
      background: state.background.filter((waiter) => waiter.id !== id)
    },
    now
  )

/** Ends a call. */
export const release = (rule: Rule, state: LimitState, now: number): Step =>
  tick(rule, { ...state, running: state.running - 1 }, now)

/** Takes back a grant whose call was not sent. */
export const undo = (rule: Rule, state: LimitState, { amount, slot, tokens }: Grant, now: number): Step =>
  release(
    rule,
    {
      ...state,
      requests: Window.correct(state.requests, slot, -amount.requests),
      tokens: Window.correct(state.tokens, slot, -tokens),
      known: Known.take(state.known, { requests: -1, input: -amount.input, output: -amount.output })
    },
    now
  )

/** Replaces the estimate of a grant with the real usage of `tokens`. Returns the corrected grant. */
export const settle = (
  rule: Rule,
  state: LimitState,
  granted: Grant,
  tokens: number,
  now: number
): readonly [Grant, Step] => [
  { ...granted, tokens },
  tick(rule, { ...state, tokens: Window.correct(state.tokens, granted.slot, tokens - granted.tokens) }, now)
]

/** Learns from the headers of an answer. */
export const learn = (rule: Rule, state: LimitState, headers: unknown, now: number): Step => {
  const known = Known.learn(state.known, headers, now)
  return known === state.known ? [[], state] : tick(rule, { ...state, known }, now)
}

/** Grants no call until the given time. */
export const hold = (state: LimitState, until: number): LimitState =>
  until > state.heldUntil ? { ...state, heldUntil: until } : state

/** Grants all calls that are possible now, and rejects those whose deadline has passed. */
export const tick = (rule: Rule, state: LimitState, now: number): Step => {
  if (!hasWaiters(state)) return [[], state]
  const verdicts: Array<Verdict> = []
  let after = state
  for (let next = nextOf(after); next !== undefined; next = nextOf(after)) {
    if (freeAt(rule, after, next, now) > now) break
    const [granted, rest] = grant(rule, withoutFirst(after, next.priority), next, now)
    verdicts.push(granted)
    after = rest
  }
  const isLate = (waiter: Asking): boolean => waiter.deadline <= now
  for (const waiter of [...after.interactive, ...after.background].filter(isLate))
    verdicts.push(refused(waiter.id, soonest(rule, after, waiter, now), now))
  if (verdicts.length === 0) return [verdicts, after]
  const isThere = (waiter: Asking): boolean => !isLate(waiter)
  return [
    verdicts,
    {
      ...after,
      interactive: after.interactive.filter(isThere),
      background: after.background.filter(isThere)
    }
  ]
}

/** Time of the next necessary {@link tick} if nothing else happens; `undefined` for none. */
export const wakeAt = (rule: Rule, state: LimitState, now: number): number | undefined => {
  const next = nextOf(state)
  if (next === undefined) return undefined
  let soonest = freeAt(rule, state, next, now)
  for (const { deadline } of state.interactive) soonest = Math.min(soonest, deadline)
  for (const { deadline } of state.background) soonest = Math.min(soonest, deadline)
  return Number.isFinite(soonest) ? soonest : undefined
}

/** True when forgetting this state loses nothing. */
export const isIdle = (state: LimitState, now: number): boolean =>
  isUnused(state) &&
  state.heldUntil <= now &&
  Window.used(state.requests, now) === 0 &&
  Window.used(state.tokens, now) === 0 &&
  Known.isOver(state.known, now)

/** True when no call runs or waits. */
export const isUnused = (state: LimitState): boolean => state.running === 0 && !hasWaiters(state)

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/**
 * One limit as it is now.
 *
 * The kinds `concurrency`, `requests` and `tokens` come from the user's {@link Limits}. A provider may name the same
 * kinds, and those of input and output tokens. `shared` is the amount used by other processes.
 */
export interface LimitStatus {
  readonly kind: "concurrency" | Known.Kind | "shared"
  readonly source: "user" | "provider"
  /** `undefined` when not named. */
  readonly limit: number | undefined
  readonly remaining: number
  /**
   * Time when the limit is fully available again without further use; `undefined` when it depends on the end of
   * calls.
   */
  readonly resetsAt: number | undefined
  /** Time when the limit admits the next call: `now` or later, Infinity when another call must end first. */
  readonly freeAt: number
}

/** All limits of a key and model that apply at `now`. */
export const limitsAt = (rule: Rule, state: LimitState, now: number): ReadonlyArray<LimitStatus> => {
  const { concurrency } = rule
  const places = concurrency - state.running
  const own = (kind: "requests" | "tokens", window: MinuteWindow): ReadonlyArray<LimitStatus> => {
    const limit = rule[kind]
    if (limit === Infinity) return []
    const remaining = Math.max(0, limit - Window.used(window, now))
    const resetsAt = Window.freeAt(window, limit, limit, now)
    return [
      { kind, source: "user", limit, remaining, resetsAt, freeAt: Window.freeAt(window, limit, 1, now) }
    ]
  }
  return [
    ...(concurrency === Infinity
      ? []
      : [
          {
            kind: "concurrency" as const,
            source: "user" as const,
            limit: concurrency,
            remaining: Math.max(0, places),
            resetsAt: undefined,
            freeAt: places > 0 ? now : Infinity
          }
        ]),
    ...own("requests", state.requests),
    ...own("tokens", state.tokens),
    ...Known.kinds.flatMap((kind): ReadonlyArray<LimitStatus> => {
      const known = state.known[kind]
      if (known === undefined || known.fullAt <= now) return []
      const { limit, fullAt } = known
      const remaining = Known.leftAt(known, now)
      return [
        { kind, source: "provider", limit, remaining, resetsAt: fullAt, freeAt: Known.nextAt(known, now) }
      ]
    }),
    ...(state.heldUntil > now
      ? [
          {
            kind: "shared" as const,
            source: "user" as const,
            limit: undefined,
            remaining: 0,
            resetsAt: state.heldUntil,
            freeAt: state.heldUntil
          }
        ]
      : [])
  ]
}

/** The limit that a call waits for, and the earliest time, if known. */
export const waitOf = (
  rule: Rule,
  state: LimitState,
  asking: Asking,
  now: number
): { readonly kind: LimitStatus["kind"]; readonly until: number | undefined } => {
  const last = limitsAt(rule, state, now).reduce<LimitStatus | undefined>(
    (last, one) => (last === undefined || one.freeAt > last.freeAt ? one : last),
    undefined
  )
  const until = state.running >= rule.concurrency ? undefined : soonest(rule, state, asking, now)
  return { kind: last?.kind ?? "shared", until: until === Infinity ? undefined : until }
}

/** Forgets the limits that providers named, and grants the calls that waited for them. */
export const forget = (rule: Rule, state: LimitState, now: number): Step =>
  tick(rule, { ...state, known: Known.empty }, now)

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

const hasWaiters = ({ interactive, background }: LimitState): boolean =>
  interactive.length > 0 || background.length > 0

const count = ({ interactive, background }: LimitState): number => interactive.length + background.length

const nextOf = ({ interactive, background, passed }: LimitState): Asking | undefined => {
  const [first] = interactive
  const [behind] = background
  return behind !== undefined && (first === undefined || passed >= turns) ? behind : first
}

const withoutFirst = (state: LimitState, priority: Priority): LimitState => ({
  ...state,
  [priority]: state[priority].slice(1),
  passed: priority === "interactive" && state.background.length > 0 ? state.passed + 1 : 0
})

const grant = (
  rule: Rule,
  state: LimitState,
  { id, input, output }: Asking,
  now: number
): readonly [Verdict, LimitState] => {
  const amount: Amount = { requests: 1, input, output }
  const tokens = Math.min(input + output, rule.tokens)
  return [
    { _tag: "Granted", id, grant: { amount, slot: Window.slotOf(now), tokens } },
    {
      ...state,
      running: state.running + 1,
      // Unlimited amounts are not counted.
      requests: rule.requests < Infinity ? Window.add(state.requests, 1, now) : state.requests,
      tokens: rule.tokens < Infinity ? Window.add(state.tokens, tokens, now) : state.tokens,
      known: Known.take(state.known, amount)
    }
  ]
}

const refused = (id: number, until: number, now: number): Verdict => ({
  _tag: "Refused",
  id,
  until: until > now ? until : now + unknownWait
})

/** Earliest time for a call that is next; Infinity when another call must end first. */
const freeAt = (rule: Rule, state: LimitState, { input, output }: Asking, now: number): number =>
  state.running >= rule.concurrency
    ? Infinity
    : limitsFreeAt(rule, state, { requests: 1, input, output }, Math.min(input + output, rule.tokens), now)

const limitsFreeAt = (rule: Rule, state: LimitState, amount: Amount, tokens: number, now: number): number => {
  let free = Math.max(now, state.heldUntil)
  if (rule.requests !== Infinity)
    free = Math.max(free, Window.freeAt(state.requests, rule.requests, amount.requests, now))
  if (rule.tokens !== Infinity) free = Math.max(free, Window.freeAt(state.tokens, rule.tokens, tokens, now))
  return Math.max(free, Known.freeAt(state.known, amount, now))
}

/** Earliest time for a call after those that wait before it, judged only by limits: others may still come between. */
const soonest = (rule: Rule, state: LimitState, asking: Asking, now: number): number => {
  const before =
    asking.priority === "interactive" ? state.interactive : [...state.interactive, ...state.background]
  let requests = 1
  let input = asking.input
  let output = asking.output
  for (const waiter of before) {
    if (waiter.id >= asking.id && waiter.priority === asking.priority) break
    requests += 1
    input += waiter.input
    output += waiter.output
  }
  return limitsFreeAt(rule, state, { requests, input, output }, input + output, now)
}
