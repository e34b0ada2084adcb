/**
 * How many retries the calls of a process may make together, as a pure machine.
 *
 * **Two forms.** With `paidBy: "calls"`, each call of the last `window` pays for `ratio` retries: retries stay a fixed
 * share of the traffic. With `paidBy: "successes"`, each success of the last `window` pays for `ratio` retries, and an
 * attempt in flight counts as a success until it ends, at most for `inFlight` since it began or made progress. Then
 * retries are plentiful where they work, and dry up in an outage.
 *
 * **State.** What paid and the retries of the last `window`, in {@link slots} slots of time, and when the reserve will be
 * full again. Attempts in flight are counted beside it, in as many slots ({@link Flights}). A retry is allowed while the retries of the window are fewer
 * than what it has paid for; beyond that it takes a token of the reserve, which holds `burst` and gets one back every
 * `refillEvery`.
 *
 * **Always true**, for every order of payments and retries: between any two instants, retries never exceed `ratio`
 * times what paid in that time and in the window before it (attempts in flight included), plus `burst`, plus one for
 * each `refillEvery`. Retries age with what paid for them, so a long success saves up nothing beyond its last window.
 *
 * Times are monotonic milliseconds. `RetryBudget` is the service around it. It does not know which call a retry
 * belongs to, and it never waits.
 */
import { Duration } from "effect"
import * as Options from "../Options.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface RetryBudgetOptions {
  /** What pays for retries. Default `"calls"`. */
  readonly paidBy?: "calls" | "successes" | undefined
  /** Retries for each call or success of the window, from 0 to 10. Default 0.2 for calls, 1.5 for successes. */
  readonly ratio?: number | undefined
  /** Retries that are allowed without anything to pay for them. 0 leaves only the share. Default 10. */
  readonly burst?: number | undefined
  /** How long it takes until one token of the reserve is back. Default 6 seconds. */
  readonly refillEvery?: Duration.Input | undefined
  /** How long a call or a success pays for retries. Default 1 minute for calls, 20 seconds for successes. */
  readonly window?: Duration.Input | undefined
  /** How long an attempt in flight counts as a success, with `paidBy: "successes"`. Default 10 seconds; 0: not at all. */
  readonly inFlight?: Duration.Input | undefined
}

/**
 * Paid by calls: a fifth of the calls, and a reserve of ten, refilled at ten a minute, so that a program with few calls
 * can retry at all. The fifth is Finagle's and Tower's. Their window is 10 seconds; a call to a model takes longer than
 * that, and a window must outlast the calls that are counted in it.
 */
export const defaults = {
  ratio: 0.2,
  burst: 10,
  refillEvery: "6 seconds",
  window: "1 minute",
  inFlight: 0
} as const

/**
 * Paid by successes: 1.5 retries for each of the last 20 seconds, with the same reserve. Where half of all attempts
 * fail, each success needs one retry: with 1.0 a burst ran dry. `docs/load.md` has the numbers.
 */
export const defaultsOfSuccesses = {
  ...defaults,
  ratio: 1.5,
  window: "20 seconds",
  inFlight: "10 seconds"
} as const

/** Options that were read, in milliseconds. */
export interface Rule {
  readonly paidBy: "calls" | "successes"
  readonly ratio: number
  readonly burst: number
  readonly refillEvery: number
  readonly window: number
  /** 0: attempts in flight pay for nothing. */
  readonly inFlight: number
}

/** Into how many parts the window is cut: what is counted is between nine and ten tenths of it. As in Tower. */
export const slots = 10

export interface Slot {
  /** Which part of time it is: `floor(now · slots / window)`. */
  readonly index: number
  /** Calls or successes. */
  readonly paid: number
  /** Those that were paid for; the reserve's are not among them. */
  readonly retries: number
}

/**
 * Attempts in flight, by the part of time in which they began or made progress: `floor(now · slots / inFlight)`. Changed
 * in place, because each attempt changes it twice. Holds at most {@link slots} counts, or one where they do not pay.
 */
export type Flights = Map<number, number>

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
  current: { index: -Infinity, paid: 0, retries: 0 },
  past: [],
  fullAt: -Infinity,
  calls: 0,
  retries: 0
}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Defaults: see {@link defaults}. Throws an `InvalidOption` (a `RangeError`) for an option that is not allowed. */
export const rule = (options: RetryBudgetOptions = {}): Rule => {
  Options.fields("RetryBudget", options, checks)
  const { paidBy = "calls" } = options
  const usual = paidBy === "calls" ? defaults : defaultsOfSuccesses
  const millis = (field: "refillEvery" | "window" | "inFlight"): number =>
    Duration.toMillis(Duration.fromInputUnsafe(options[field] ?? usual[field]))
  return {
    paidBy,
    ratio: options.ratio ?? usual.ratio,
    burst: options.burst ?? usual.burst,
    refillEvery: millis("refillEvery"),
    window: millis("window"),
    inFlight: paidBy === "calls" ? 0 : millis("inFlight")
  }
}

const { is } = Options

const checks: Options.Checks<RetryBudgetOptions> = {
  paidBy: is.oneOf("calls", "successes"),
  ratio: is.number({ min: 0, max: 10 }),
  burst: is.integer({ min: 0 }),
  refillEvery: is.duration({ min: "1 millis" }),
  window: is.duration({ min: "1 second" }),
  inFlight: is.duration()
}

// -----------------------------------------------------------------------------
// The machine
// -----------------------------------------------------------------------------

/** Counts a call. It pays, if calls do. */
export const deposit = (rule: Rule, state: State, now: number): State =>
  rule.paidBy === "calls"
    ? count({ ...at(rule, state, now), calls: state.calls + 1 }, 1, 0)
    : { ...state, calls: state.calls + 1 }

/** Counts a success. It pays, if successes do. */
export const succeeded = (rule: Rule, state: State, now: number): State =>
  rule.paidBy === "successes" ? count(at(rule, state, now), 1, 0) : state

/** Whether there may be one more retry, which is counted if so. `flying`: attempts in flight that pay. */
export const withdraw = (
  rule: Rule,
  state: State,
  now: number,
  flying: number = 0
): readonly [boolean, State] => {
  const live = at(rule, state, now)
  if (sum(live, "retries") + 1 <= rule.ratio * (sum(live, "paid") + flying)) {
    return [true, count({ ...live, retries: state.retries + 1 }, 0, 1)]
  }
  const fullAt = Math.max(now, state.fullAt) + rule.refillEvery
  return fullAt - now <= rule.burst * rule.refillEvery
    ? [true, { ...state, fullAt, retries: state.retries + 1 }]
    : [false, state]
}

/** Attempts for each call since the beginning: 1 without retries. */
export const amplification = ({ calls, retries }: State): number =>
  calls === 0 ? 1 : (calls + retries) / calls

// -----------------------------------------------------------------------------
// Attempts in flight
// -----------------------------------------------------------------------------

/** The part of time that an attempt which begins or makes progress now is counted in. */
export const flightAt = ({ inFlight }: Rule, now: number): number =>
  inFlight === 0 ? 0 : Math.floor((now * slots) / inFlight)

/** Counts an attempt that began, or made progress, in this part of time. Forgets those that have been silent for too long. */
export const began = (flights: Flights, index: number): void => {
  const count = flights.get(index)
  if (count === undefined) forget(flights, index)
  flights.set(index, (count ?? 0) + 1)
}

const forget = (flights: Flights, now: number): void => {
  for (const index of flights.keys()) {
    if (index <= now - slots) flights.delete(index)
  }
}

/** Takes an attempt out that is counted in this part of time, because it ended or made progress. */
export const left = (flights: Flights, index: number): void => {
  const count = flights.get(index)
  if (count !== undefined) flights.set(index, count - 1)
}

/** Attempts in flight that pay for retries now. */
export const flyingAt = (rule: Rule, flights: Flights, now: number): number => {
  if (rule.inFlight === 0) return 0
  const oldest = flightAt(rule, now) - slots
  let total = 0
  for (const [index, count] of flights) {
    if (index > oldest) total += count
  }
  return total
}

// -----------------------------------------------------------------------------
// Slots
// -----------------------------------------------------------------------------

/** The state with the slot of this time as its current one, and without those that are too old. */
const at = (rule: Rule, state: State, now: number): State => {
  const { current, past } = state
  const index = Math.floor((now * slots) / rule.window)
  if (index <= current.index) return state
  const oldest = index - slots
  return {
    ...state,
    current: { index, paid: 0, retries: 0 },
    past: [...past, current].filter((slot) => slot.index > oldest)
  }
}

const count = (state: State, paid: number, retries: number): State => {
  const { current } = state
  return {
    ...state,
    current: { index: current.index, paid: current.paid + paid, retries: current.retries + retries }
  }
}

const sum = ({ current, past }: State, of: "paid" | "retries"): number =>
  past.reduce((total, slot) => total + slot[of], current[of])
