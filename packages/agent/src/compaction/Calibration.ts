/**
 * Learns the error of a token counter for one model from the usage that providers report. Pure.
 *
 * The number of characters in a token differs more between words, numbers and scripts than between models. The error
 * is therefore a sum over the kinds of {@link Content}: `real = counted + Σ error × content`. Each report corrects
 * the errors of the kinds it contains, most where least is known (a Kalman filter with a constant state). Tokens that
 * a provider adds to every request are a kind of their own, `hidden`.
 *
 * Wrong reports do little harm. {@link isPlausible} rejects impossible ones, e.g. a usage without its cached tokens.
 * A report moves the estimate by at most {@link surprise} standard deviations. A report that differs by more raises
 * the uncertainty, so the next reports weigh more: the learned errors may be the wrong part.
 */
import type { Content } from "./Content.ts"
import { kinds } from "./Content.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** One number for each of {@link kinds}, in their order. */
type Vector = ReadonlyArray<number>

export interface Calibration {
  /** Missing tokens for each counted token of a kind. */
  readonly errors: Vector
  /** Covariance matrix of the errors, row by row. */
  readonly covariance: ReadonlyArray<Vector>
}

/** Standard deviation of an error before the first report. */
const uncertain = 0.5

/** Measurement noise of a report: a share of its size plus a number of tokens. */
const noise = { share: 0.03, tokens: 10 } as const

/** Largest correction by one report, in standard deviations. */
const surprise = 3

/**
 * Standard deviation that each report (`drift`) and each surprising report (`doubt`) adds to the errors. Models
 * change, so the errors stay a little uncertain; they never exceed the initial `uncertain`.
 */
const drift = 0.01
const doubt = 0.1

/** Accepted range of the real tokens, as factors of the counted tokens, and the largest number of hidden tokens. */
export const bounds = { min: 0.25, max: 4, hidden: 10_000 } as const

/**
 * Largest share of the window that is attributed to hidden tokens. One report cannot separate hidden tokens from the
 * tokens of its texts. Hidden tokens cannot be cut, so a wrong guess would leave nothing of a small window.
 */
const hiddenShare = 0.1

/** The initial state: the counter is assumed to be right. */
export const initial: Calibration = {
  errors: kinds.map(() => 0),
  covariance: kinds.map((kind) => kinds.map((other) => (kind === other ? uncertain ** 2 : 0)))
}

// -----------------------------------------------------------------------------
// Machine
// -----------------------------------------------------------------------------

/** Estimated tokens of a request to a model with this window. */
export const estimate = (
  { errors }: Calibration,
  counted: number,
  content: Content,
  window: number
): number => {
  const hidden = at(errors, hiddenAt) * content.hidden
  const unbelieved = Math.max(0, hidden - hiddenShare * window)
  const missing = dot(errors, vectorOf(content)) - unbelieved
  return clamp(counted + missing, bounds.min * counted, bounds.max * counted + bounds.hidden)
}

/** Updates the errors with a report: the provider counted `real` tokens. */
export const learn = (
  calibration: Calibration,
  counted: number,
  content: Content,
  real: number
): Calibration => {
  const x = vectorOf(content)
  const { errors } = calibration
  const covariance = uncertainBy(drift, calibration.covariance)
  const spread = covariance.map((row) => dot(row, x))
  const variance = dot(spread, x) + (noise.share * counted + noise.tokens) ** 2
  const most = surprise * Math.sqrt(variance)
  const missing = real - counted - dot(errors, x)
  const error = clamp(missing, -most, most)
  const gain = spread.map((value) => value / variance)
  const known = covariance.map((row, i) => row.map((value, j) => value - at(gain, i) * at(spread, j)))
  return {
    errors: errors.map((value, i) => value + at(gain, i) * error),
    covariance: error === missing ? known : uncertainBy(doubt, known)
  }
}

/** True when `real` is a possible report for a whole request of `counted` tokens. */
export const isPlausible = (counted: number, real: number): boolean =>
  Number.isFinite(real) &&
  real > 0 &&
  real >= bounds.min * counted &&
  real <= bounds.max * counted + bounds.hidden

/**
 * Adds uncertainty up to the initial value. Without the cap, a kind that is never reported would accept its first
 * report unchecked.
 */
const uncertainBy = (deviation: number, covariance: Calibration["covariance"]): Calibration["covariance"] =>
  covariance.map((row, i) =>
    row.map((value, j) =>
      i === j ? Math.max(value, Math.min(uncertain ** 2, value + deviation ** 2)) : value
    )
  )

const vectorOf = (content: Content): Vector => kinds.map((kind) => content[kind])

const hiddenAt = kinds.indexOf("hidden")

const at = (vector: Vector, i: number): number => vector[i] ?? 0

const dot = (a: Vector, b: Vector): number => a.reduce((sum, value, i) => sum + value * at(b, i), 0)

const clamp = (value: number, min: number, max: number): number => Math.min(max, Math.max(min, value))
