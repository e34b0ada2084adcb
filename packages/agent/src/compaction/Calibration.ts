/**
 * By how much a counter is wrong about a model, learned from what providers report. Pure.
 *
 * How many characters a token has differs between words, numbers and scripts by more than between models, so that the
 * error is a sum over the kinds of {@link Content}: `real = counted + Σ error × content`. Each report moves the errors
 * of what it was about, the more the less is known of them (a Kalman filter whose state does not move). What a provider
 * adds to every request counts as a kind of its own, `hidden`.
 *
 * Wrong reports do little: {@link isPlausible} keeps out what cannot be, such as a usage without its cached tokens, and
 * a report is never believed further than {@link surprise} standard deviations from what was expected. One that
 * surprises more leaves a doubt, so that the next ones are believed sooner: what was wrong may be what was learned.
 */
import type { Content } from "./Content.ts"
import { kinds } from "./Content.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** One number for each of {@link kinds}. */
type Vector = ReadonlyArray<number>

export interface Calibration {
  /** Tokens that are missing for each token's worth of a kind. */
  readonly errors: Vector
  /** How uncertain they are, row by row. */
  readonly covariance: ReadonlyArray<Vector>
}

/** What is expected of an error before anything was reported, as a standard deviation. */
const uncertain = 0.5

/** A report is not explained better than to this share of its size, and so many tokens. */
const noise = { share: 0.03, tokens: 10 } as const

/** Standard deviations that a report may surprise by. */
const surprise = 3

/**
 * Errors stay a little uncertain: models change. As a standard deviation, gained with each report, and with one that
 * surprises; never to more than before anything was reported.
 */
const drift = 0.01
const doubt = 0.1

/** How far the tokens of a request may be from what was counted, and how many may be hidden. */
export const bounds = { min: 0.25, max: 4, hidden: 10_000 } as const

/**
 * Share of a window that is believed to be hidden. One report cannot tell what is added to a request from what its texts
 * take; of a small window a wrong guess would leave nothing, and what is hidden cannot be cut.
 */
const hiddenShare = 0.1

/** The counter is right. */
export const initial: Calibration = {
  errors: kinds.map(() => 0),
  covariance: kinds.map((kind) => kinds.map((other) => (kind === other ? uncertain ** 2 : 0)))
}

// -----------------------------------------------------------------------------
// Machine
// -----------------------------------------------------------------------------

/** Tokens of a model with this window, as far as is known. */
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

/** A provider has counted `real` tokens. */
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

/** Whether a report of a whole request, of `counted` tokens, can be one. */
export const isPlausible = (counted: number, real: number): boolean =>
  Number.isFinite(real) &&
  real > 0 &&
  real >= bounds.min * counted &&
  real <= bounds.max * counted + bounds.hidden

/** A kind that nobody reports would become so uncertain that its first report is believed whatever it says. */
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
