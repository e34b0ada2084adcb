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
import { Duration } from "effect"
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

export interface Slot {
  /** Which part of time it is: `floor(now · slots / window)`. */
  readonly index: number
  readonly calls: number
  /** Those that the calls paid for; the reserve's are not among them. */
  readonly retries: number
}

export interface State {
  /** The newest; it is all that most calls change. */
  readonly current: Slot
  /** Those before it, oldest first, at most {@link slots} − 1. */
  readonly past: ReadonlyArray<Slot>
  /** When the reserve is full again. */
  readonly fullAt: number
  /** Since the beginning. */
  readonly calls: number
  /** Since the beginning. */
  readonly retries: number
}

export const initial: State = {
  current: { index: -Infinity, calls: 0, retries: 0 },
  past: [],
  fullAt: -Infinity,
  calls: 0,
  retries: 0
}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Defaults: see {@link defaults}. Throws an `InvalidOption` (a `RangeError`) for a number out of range. */
export const rule = (options: RetryBudgetOptions = {}): Rule => {
  Options.fields("RetryBudget", options, checks)
  return {
    ratio: options.ratio ?? defaults.ratio,
    burst: options.burst ?? defaults.burst,
    refillEvery: Duration.toMillis(options.refillEvery ?? defaults.refillEvery),
    window: Duration.toMillis(options.window ?? defaults.window)
  }
}

const { is } = Options

const checks: Options.Checks<RetryBudgetOptions> = {
  ratio: is.share,
  burst: is.integer({ min: 0 }),
  refillEvery: is.duration({ min: "1 millis" }),
  window: is.duration({ min: "1 second" })
}

// -----------------------------------------------------------------------------
// The machine
// -----------------------------------------------------------------------------

/** Counts a call. */
export const deposit = (rule: Rule, state: State, now: number): State =>
  count(at(rule, state, now), state.fullAt, 1, 0)

/** Whether there may be one more retry, which is counted if so. */
export const withdraw = (rule: Rule, state: State, now: number): readonly [boolean, State] => {
  const live = at(rule, state, now)
  if (sum(live, "retries") + 1 <= rule.ratio * sum(live, "calls")) {
    return [true, count(live, state.fullAt, 0, 1)]
  }
  const fullAt = Math.max(now, state.fullAt) + rule.refillEvery
  return fullAt - now <= rule.burst * rule.refillEvery
    ? [true, { ...state, fullAt, retries: state.retries + 1 }]
    : [false, state]
}

/** Attempts for each call since the beginning: 1 without retries. */
export const amplification = ({ calls, retries }: State): number =>
  calls === 0 ? 1 : (calls + retries) / calls

/** The state with the slot of this time as its current one, and without those that are too old. */
const at = (rule: Rule, state: State, now: number): State => {
  const { current, past } = state
  const index = Math.floor((now * slots) / rule.window)
  if (index <= current.index) return state
  const oldest = index - slots
  return {
    ...state,
    current: { index, calls: 0, retries: 0 },
    past: [...past, current].filter((slot) => slot.index > oldest)
  }
}

const count = (
  { current, past, calls: allCalls, retries: allRetries }: State,
  fullAt: number,
  calls: number,
  retries: number
): State => ({
  current: { index: current.index, calls: current.calls + calls, retries: current.retries + retries },
  past,
  fullAt,
  calls: allCalls + calls,
  retries: allRetries + retries
})

const sum = ({ current, past }: State, of: "calls" | "retries"): number =>
  past.reduce((total, slot) => total + slot[of], current[of])
