/**
 * Who may call now, and who waits, under the limits of one key and model: a pure machine.
 *
 * **State.** How many calls run, what was used within the last minute, what the provider has said about its limits,
 * and two queues of those who wait: interactive and background.
 *
 * **Who is next.** Interactive before background; within each, whoever came first. While somebody in the background
 * waits, at most {@link turns} interactive calls go before it: then it is its turn. Nobody passes whoever is next, not
 * even with a smaller call that would fit: otherwise large calls would wait for ever.
 *
 * **Always true**, for every order of events: no more than `concurrency` calls run; in no minute more than
 * `requestsPerMinute` calls begin, nor more than `tokensPerMinute` tokens by their estimates (what a call turns out to
 * have used beyond its estimate was used already; it counts against those that follow). A waiter gets one verdict,
 * never after its deadline, and one that has left leaves no trace. A call that is larger than a limit takes all of it.
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

/** Limits of one key and model. What is absent is not limited. */
export interface Limits {
  /** Calls that run at the same time, at least 1. */
  readonly concurrency?: number | undefined
  /** Calls that begin within a minute, at least 1. */
  readonly requestsPerMinute?: number | undefined
  /** Tokens of calls that begin within a minute, input and output together, at least 1. */
  readonly tokensPerMinute?: number | undefined
}

/** Limits that were read; Infinity: none. */
export interface Rule {
  readonly concurrency: number
  readonly requests: number
  readonly tokens: number
}

/** Somebody who wants to call. */
export interface Asking {
  /** Grows with time: it tells waiters apart. */
  readonly id: number
  readonly priority: Priority
  /** Tokens, as estimated: of the prompt. */
  readonly input: number
  /** Tokens, as estimated: of the answer. */
  readonly output: number
  /** Until when it is worth waiting. */
  readonly deadline: number
}

/** What is counted for a call. */
export interface Grant {
  readonly amount: Amount
  /** The slot in which it is counted. */
  readonly slot: number
  /** What is counted of its tokens. */
  readonly tokens: number
}

export type Verdict =
  | { readonly _tag: "Granted"; readonly id: number; readonly grant: Grant }
  /** It would wait at least until then. */
  | { readonly _tag: "Refused"; readonly id: number; readonly until: number }

export interface LimitState {
  readonly running: number
  readonly requests: MinuteWindow
  readonly tokens: MinuteWindow
  readonly known: KnownLimits
  /** Nobody is next before. */
  readonly heldUntil: number
  readonly interactive: ReadonlyArray<Asking>
  readonly background: ReadonlyArray<Asking>
  /** Interactive calls since somebody in the background waits. */
  readonly passed: number
}

export type Step = readonly [ReadonlyArray<Verdict>, LimitState]

/** Interactive calls that go before one in the background that waits: it gets a fifth at least. */
export const turns = 4

/** Those who may wait for one key and model. */
export const maxWaiters = 1_000

/** Milliseconds: what is said of a wait that depends on others being done. Nobody knows it. */
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

/** The checks of the fields of {@link Limits}. */
export const checks: Options.Checks<Limits> = {
  concurrency: limit,
  requestsPerMinute: limit,
  tokensPerMinute: limit
}

/** Throws an `InvalidOption` (a `RangeError`) for a limit below 1 and for an unknown one. */
export const rule = (limits: Limits = {}): Rule => {
  Options.fields("CallLimiter", limits, checks)
  const { concurrency = Infinity, requestsPerMinute = Infinity, tokensPerMinute = Infinity } = limits
  return { concurrency, requests: requestsPerMinute, tokens: tokensPerMinute }
}

// -----------------------------------------------------------------------------
// The machine
// -----------------------------------------------------------------------------

/**
 * Somebody wants to call: granted at once, refused at once because it would wait beyond its deadline, or left waiting
 * for a verdict of a later step.
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

/** A waiter does not want to call any more. */
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

/** A call is done. */
export const release = (rule: Rule, state: LimitState, now: number): Step =>
  tick(rule, { ...state, running: state.running - 1 }, now)

/** A call was granted and not made: nothing of it counts. */
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

/** What a call has used is known: `tokens` in all. The grant counts that from now on. */
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

/** The headers of an answer. */
export const learn = (rule: Rule, state: LimitState, headers: unknown, now: number): Step => {
  const known = Known.learn(state.known, headers, now)
  return known === state.known ? [[], state] : tick(rule, { ...state, known }, now)
}

/** Nobody is to be let through until then. */
export const hold = (state: LimitState, until: number): LimitState =>
  until > state.heldUntil ? { ...state, heldUntil: until } : state

/** Grants what can be granted at this time, and refuses those whose deadline has come. */
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

/** When the next {@link tick} has something to do, if nothing else happens before; `undefined`: nothing. */
export const wakeAt = (rule: Rule, state: LimitState, now: number): number | undefined => {
  const next = nextOf(state)
  if (next === undefined) return undefined
  let soonest = freeAt(rule, state, next, now)
  for (const { deadline } of state.interactive) soonest = Math.min(soonest, deadline)
  for (const { deadline } of state.background) soonest = Math.min(soonest, deadline)
  return Number.isFinite(soonest) ? soonest : undefined
}

/** Whether nothing would be lost if this state were forgotten. */
export const isIdle = (state: LimitState, now: number): boolean =>
  isUnused(state) &&
  state.heldUntil <= now &&
  Window.used(state.requests, now) === 0 &&
  Window.used(state.tokens, now) === 0 &&
  Known.isOver(state.known, now)

/** Whether nobody calls or waits. */
export const isUnused = (state: LimitState): boolean => state.running === 0 && !hasWaiters(state)

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/**
 * One limit as it is now.
 *
 * `concurrency`, `requests` and `tokens` of the user's own {@link Limits}; the same kinds, and those of input and output,
 * where a provider has named them. `shared` is what other processes have used up.
 */
export interface LimitStatus {
  readonly kind: "concurrency" | Known.Kind | "shared"
  readonly source: "user" | "provider"
  /** `undefined`: not said. */
  readonly limit: number | undefined
  readonly remaining: number
  /** When all of it is there again, if nothing else is used; `undefined`: when calls have ended. */
  readonly resetsAt: number | undefined
  /** When it lets the next call through: `now`, or later; Infinity: when another has ended. */
  readonly freeAt: number
}

/** All limits of a key and model that hold at `now`. */
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

/** Which limit a call has to wait for, and until when as far as that is known. */
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
      // What nobody limits need not be counted.
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

/** When a call can be granted if it is next; Infinity: when another is done. */
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

/** The earliest time for a call behind those who wait before it, as far as limits tell: others may come between. */
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
