/**
 * Limits the retries of all calls of a process together. Pure.
 *
 * **Two forms.** With `paidBy: "calls"`, each call of the last `window` pays for `ratio` retries, so retries stay a
 * fixed share of the traffic. With `paidBy: "successes"`, each success of the last `window` pays for `ratio` retries.
 * An attempt in flight then counts as a success until it ends, for at most `inFlight` after its start or last progress.
 * Retries are plentiful while they work, and run out during an outage.
 *
 * **State.** Payments and retries of the last `window`, in {@link slots} time slots, and the time at which the reserve
 * is full again. Attempts in flight are counted separately, in as many slots ({@link Flights}). A retry is allowed
 * while the payments of the window cover it. Beyond that it takes a token from the reserve, which holds `burst` tokens
 * and gets one back every `refillEvery`.
 *
 * With `calls`, payments and retries expire together. With `successes`, a retry spends the oldest payments, and only
 * what attempts in flight paid for is counted as a retry. If such retries expired too, each burst of retries would be
 * allowed again one window later.
 *
 * **Invariant**, for every order of payments and retries: between any two instants, retries never exceed `ratio` times
 * the payments in that time and in the window before it (attempts in flight included), plus `burst`, plus one for each
 * `refillEvery`. Payments expire, so a long period of success saves up no more than one window.
 *
 * Times are monotonic milliseconds. `RetryBudget` is the service around this machine. The machine does not know which
 * call a retry belongs to, and never waits.
 */
import { Duration } from "effect"
import * as Options from "../Options.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface RetryBudgetOptions {
  /** The event that pays for retries. Default: `"calls"`. */
  readonly paidBy?: "calls" | "successes" | undefined
  /** Retries for each call or success in the window, from 0 to 10. Default: 0.2 for calls, 1.5 for successes. */
  readonly ratio?: number | undefined
  /** Size of the reserve: retries allowed without any payment. 0 leaves only the share. Default: 10. */
  readonly burst?: number | undefined
  /** Time until one token of the reserve is back. Default: 6 seconds. */
  readonly refillEvery?: Duration.Input | undefined
  /** Time for which a call or a success pays for retries. Default: 1 minute for calls, 20 seconds for successes. */
  readonly window?: Duration.Input | undefined
  /**
   * Time for which an attempt in flight counts as a success, with `paidBy: "successes"`. 0 turns it off. Default: 10
   * seconds.
   */
  readonly inFlight?: Duration.Input | undefined
}

/**
 * Defaults when calls pay: a fifth of the calls, and a reserve of ten refilled at ten a minute, so that a program with
 * few calls can retry at all.
 *
 * Finagle and Tower use the same fifth, with a window of 10 seconds. Calls to a model take longer than that, and the
 * window must outlast the calls counted in it.
 */
export const defaults = {
  ratio: 0.2,
  burst: 10,
  refillEvery: "6 seconds",
  window: "1 minute",
  inFlight: 0
} as const

/**
 * Defaults when successes pay: 1.5 retries for each success of the last 20 seconds, with the same reserve. When half of
 * all attempts fail, each success needs one retry, and a ratio of 1.0 ran out during bursts. `docs/internals/load.md` has the
 * measurements.
 */
export const defaultsOfSuccesses = {
  ...defaults,
  ratio: 1.5,
  window: "20 seconds",
  inFlight: "10 seconds"
} as const

/** Validated options. Times are in milliseconds. */
export interface Rule {
  readonly paidBy: "calls" | "successes"
  readonly ratio: number
  readonly burst: number
  readonly refillEvery: number
  readonly window: number
  /** 0 when attempts in flight do not pay. */
  readonly inFlight: number
}

/** Number of slots in a window. Between nine and ten tenths of the window are counted, as in Tower. */
export const slots = 10

export interface Slot {
  /** Index of the slot: `floor(now · slots / window)`. */
  readonly index: number
  /** Calls, or successes that no retry has spent. A retry may spend a part of a success. */
  readonly paid: number
  /** Retries that count against the payments. Those from the reserve are not included. */
  readonly retries: number
}

/**
 * Number of attempts in flight, by the slot in which they started or made progress: `floor(now · slots / inFlight)`.
 * Mutated, because each attempt changes it twice. Holds at most {@link slots} counts, or one when attempts do not pay.
 */
export type Flights = Map<number, number>

export interface State {
  /** The newest slot, the only one that most calls change. */
  readonly current: Slot
  /** Earlier slots, oldest first, at most {@link slots} − 1. */
  readonly past: ReadonlyArray<Slot>
  /** Time at which the reserve is full again. */
  readonly fullAt: number
  /** Total number of calls. */
  readonly calls: number
  /** Total number of retries. */
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

/** Counts a call, which pays if calls pay. */
export const deposit = (rule: Rule, state: State, now: number): State =>
  rule.paidBy === "calls"
    ? paid({ ...at(rule, state, now), calls: state.calls + 1 })
    : { ...state, calls: state.calls + 1 }

/** Counts a success, which pays if successes pay. */
export const succeeded = (rule: Rule, state: State, now: number): State =>
  rule.paidBy === "successes" ? paid(at(rule, state, now)) : state

/** Decides about one more retry, and counts it if allowed. `flying`: number of attempts in flight that pay. */
export const withdraw = (
  rule: Rule,
  state: State,
  now: number,
  flying: number = 0
): readonly [boolean, State] => {
  const live = at(rule, state, now)
  // Stryker disable next-line EqualityOperator: parts that add up to a whole number never differ by exactly `rounding`.
  if (sum(live, "retries") + 1 <= rule.ratio * (sum(live, "paid") + flying) + rounding) {
    return [true, spent(rule, { ...live, retries: state.retries + 1 })]
  }
  const fullAt = Math.max(now, state.fullAt) + rule.refillEvery
  return fullAt - now <= rule.burst * rule.refillEvery
    ? [true, { ...state, fullAt, retries: state.retries + 1 }]
    : [false, state]
}

/** Counts a retry that needs no permission. Uses a payment or a token of the reserve, if there is one. */
export const take = (rule: Rule, state: State, now: number): State => {
  const [isPaid, after] = withdraw(rule, state, now)
  return isPaid ? after : { ...state, retries: state.retries + 1 }
}

/** Retries that would be allowed now, one after the other: those that are paid for, and the tokens of the reserve. */
export const available = (
  rule: Rule,
  state: State,
  now: number,
  flying: number = 0
): { readonly paid: number; readonly reserve: number } => {
  const live = at(rule, state, now)
  const left = rule.ratio * (sum(live, "paid") + flying) - sum(live, "retries")
  const missing = Math.max(0, state.fullAt - now) / rule.refillEvery
  return {
    paid: Math.max(0, Math.floor(left + rounding)),
    reserve: Math.max(0, Math.floor(rule.burst - missing + rounding))
  }
}

/** Attempts per call in total: 1 without retries. */
export const amplification = ({ calls, retries }: State): number =>
  calls === 0 ? 1 : (calls + retries) / calls

// -----------------------------------------------------------------------------
// Attempts in flight
// -----------------------------------------------------------------------------

/** Returns the slot for an attempt that starts or makes progress now. */
export const flightAt = ({ inFlight }: Rule, now: number): number =>
  inFlight === 0 ? 0 : Math.floor((now * slots) / inFlight)

/** Counts an attempt that started or made progress in this slot. Removes slots that are too old to pay. */
export const began = (flights: Flights, index: number): void => {
  const count = flights.get(index)
  // Stryker disable next-line ConditionalExpression: it saves time and changes nothing.
  if (count === undefined) forget(flights, index)
  flights.set(index, (count ?? 0) + 1)
}

const forget = (flights: Flights, now: number): void => {
  for (const index of flights.keys()) {
    if (index <= now - slots) flights.delete(index)
  }
}

/** Removes an attempt from its slot, because it ended or made progress. */
export const left = (flights: Flights, index: number): void => {
  const count = flights.get(index)
  if (count !== undefined) flights.set(index, count - 1)
}

/** Returns the number of attempts in flight that pay for retries now. */
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

/** Moves the state to the current slot, and drops slots that are too old. */
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

/** Parts of payments add up to a whole number within this. */
const rounding = 1e-9

const paid = (state: State): State => ({
  ...state,
  current: { ...state.current, paid: state.current.paid + 1 }
})

/** Counts a retry. Where successes pay, it spends the oldest of them, and only the rest of it is counted. */
const spent = ({ paidBy, ratio }: Rule, { current, past, ...state }: State): State => {
  let price = 1 / ratio
  const without = (slot: Slot): Slot => {
    const part = paidBy === "successes" ? Math.min(slot.paid, price) : 0
    price -= part
    // Stryker disable next-line ConditionalExpression: it saves a copy and changes nothing.
    return part === 0 ? slot : { ...slot, paid: slot.paid - part }
  }
  const left = past.map(without)
  const newest = without(current)
  return { ...state, past: left, current: { ...newest, retries: newest.retries + price * ratio } }
}

const sum = ({ current, past }: State, of: "paid" | "retries"): number =>
  past.reduce((total, slot) => total + slot[of], current[of])
