/**
 * How many retries the calls of a process may make together, as a pure machine.
 *
 * **State.** The calls and retries of the last `window`, in {@link slots} slots of time, and when the reserve will be
 * full again. A retry is allowed while the retries of the window are fewer than `ratio` times its calls; beyond that
 * it takes a token of the reserve, which holds `burst` and gets one back every `refillEvery`.
 *
 * **Always true**, for every order of calls and retries: between any two instants, retries never exceed `ratio` times
 * the calls of that time and of the window before it, plus `burst`, plus one for each `refillEvery`. Because retries
 * age with the calls that paid for them, a long success saves up nothing beyond its last window, and even traffic
 * never retries more than `ratio` of itself in a window.
 *
 * Times are monotonic milliseconds. `RetryBudget` is the service around it. It does not know which call a retry
 * belongs to, and it never makes anybody wait.
 */
import type { Duration } from "effect"
import * as Options from "../Options.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface RetryBudgetOptions {
  /** Retries for each call of the window, from 0 to 1. */
  readonly ratio?: number | undefined
  /** Retries that are allowed without calls to pay for them. 0 leaves only the share. */
  readonly burst?: number | undefined
  /** How long it takes until one token of the reserve is back. */
  readonly refillEvery?: Duration.Input | undefined
  /** How long a call pays for retries. */
  readonly window?: Duration.Input | undefined
}

/**
 * A fifth of the calls, and a reserve of ten, refilled at ten a minute, so that a program with few calls can retry at
 * all. The fifth is Finagle's and Tower's. Their window is 10 seconds; a call to a model takes longer than that, and a
 * window must outlast the calls that are counted in it.
 */
export const defaults = {
  ratio: 0.2,
  burst: 10,
  refillEvery: "6 seconds",
  window: "1 minute"
} as const

/** Options that were read, in milliseconds. */
export interface Rule {
  readonly ratio: number
  readonly burst: number
  readonly refillEvery: number
  readonly window: number
}

/** Into how many parts the window is cut: what is counted is between nine and ten tenths of it. As in Tower. */
export const slots = 10

interface Slot {
  /** Which part of time it is: `floor(now · slots / window)`. */
  readonly index: number
  readonly calls: number
  /** Those that the calls paid for; the reserve's are not among them. */
  readonly retries: number
}

export interface State {
  /** Oldest first, at most {@link slots}. */
  readonly recent: ReadonlyArray<Slot>
  /** When the reserve is full again. */
  readonly fullAt: number
  /** Since the beginning. */
  readonly calls: number
  /** Since the beginning. */
  readonly retries: number
}

export const initial: State = { recent: [], fullAt: -Infinity, calls: 0, retries: 0 }

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Defaults: see {@link defaults}. Throws an `InvalidOption` (a `RangeError`) for a number out of range. */
export const rule = (options: RetryBudgetOptions = {}): Rule => ({
  ratio: Options.share("RetryBudget", "ratio", options.ratio ?? defaults.ratio),
  burst: Options.integer("RetryBudget", "burst", options.burst ?? defaults.burst, { min: 0 }),
  refillEvery: Options.millis("RetryBudget", "refillEvery", options.refillEvery ?? defaults.refillEvery, {
    min: "1 millis"
  }),
  window: Options.millis("RetryBudget", "window", options.window ?? defaults.window, { min: "1 second" })
})

// -----------------------------------------------------------------------------
// The machine
// -----------------------------------------------------------------------------

/** Counts a call. */
export const deposit = (rule: Rule, state: State, now: number): State => ({
  ...state,
  recent: add(rule, state, now, 1, 0),
  calls: state.calls + 1
})

/** Whether there may be one more retry, which is counted if so. */
export const withdraw = (rule: Rule, state: State, now: number): readonly [boolean, State] => {
  const recent = live(rule, state, now)
  const retries = state.retries + 1
  if (sum(recent, "retries") + 1 <= rule.ratio * sum(recent, "calls")) {
    return [true, { ...state, recent: add(rule, state, now, 0, 1), retries }]
  }
  const fullAt = Math.max(now, state.fullAt) + rule.refillEvery
  return fullAt - now <= rule.burst * rule.refillEvery
    ? [true, { ...state, fullAt, retries }]
    : [false, state]
}

/** Attempts for each call since the beginning: 1 without retries. */
export const amplification = ({ calls, retries }: State): number =>
  calls === 0 ? 1 : (calls + retries) / calls

const slotAt = (rule: Rule, now: number): number => Math.floor((now * slots) / rule.window)

const live = (rule: Rule, { recent }: State, now: number): ReadonlyArray<Slot> => {
  const oldest = slotAt(rule, now) - slots
  return recent.filter(({ index }) => index > oldest)
}

const add = (rule: Rule, state: State, now: number, calls: number, retries: number): ReadonlyArray<Slot> => {
  const index = slotAt(rule, now)
  const others = live(rule, state, now)
  const current = others.find((slot) => slot.index === index)
  return [
    ...others.filter((slot) => slot !== current),
    { index, calls: (current?.calls ?? 0) + calls, retries: (current?.retries ?? 0) + retries }
  ]
}

const sum = (recent: ReadonlyArray<Slot>, of: "calls" | "retries"): number =>
  recent.reduce((total, slot) => total + slot[of], 0)
