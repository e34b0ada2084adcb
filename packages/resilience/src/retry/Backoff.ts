/**
 * How long to wait before the next attempt: one pure formula.
 *
 * The delay before retry `n` is `initial · factor^(n−1)`, at most `cap`, moved by up to `±jitter` of itself and
 * never beyond `cap`. No clock, no randomness: the draw comes from the caller.
 *
 * **Example** (The delays of a specification)
 *
 * ```ts
 * const spec = Backoff.exponential({ initial: "1 second", cap: "30 seconds", jitter: 0 })
 * Backoff.delay(spec, 3, 0.5) // => 4 seconds, in milliseconds: 4000
 * ```
 */
import { Duration } from "effect"

export interface Backoff {
  /** The delay before the first retry. */
  readonly initial: Duration.Duration
  readonly factor: number
  /** No delay is longer, jitter included. */
  readonly cap: Duration.Duration
  /** The share of a delay by which it may be shorter or longer, from 0 to 1. */
  readonly jitter: number
}

export const defaults = { initial: "1 second", factor: 2, cap: "30 seconds", jitter: 0.2 } as const

/**
 * An exponential backoff.
 *
 * Defaults: see {@link defaults}. Throws a `RangeError` for a factor below 1, a jitter outside [0, 1], or a
 * negative or infinite duration.
 */
export const exponential = (
  options: {
    readonly initial?: Duration.Input | undefined
    readonly factor?: number | undefined
    readonly cap?: Duration.Input | undefined
    readonly jitter?: number | undefined
  } = {}
): Backoff => {
  const initial = finite("initial", options.initial ?? defaults.initial)
  const cap = finite("cap", options.cap ?? defaults.cap)
  const factor = options.factor ?? defaults.factor
  const jitter = options.jitter ?? defaults.jitter
  if (!(factor >= 1 && Number.isFinite(factor))) {
    throw new RangeError(`Backoff.exponential: factor must be a finite number of at least 1, got ${factor}`)
  }
  if (!(jitter >= 0 && jitter <= 1)) {
    throw new RangeError(`Backoff.exponential: jitter must be from 0 to 1, got ${jitter}`)
  }
  return { initial, factor, cap, jitter }
}

/**
 * The delay before retry `n` (1 for the first) in milliseconds; `draw` is in [0, 1).
 * Finite and from 0 to the cap for every `n`.
 */
export const delay = (spec: Backoff, n: number, draw: number): number => {
  const cap = Duration.toMillis(spec.cap)
  const nominal = Math.min(cap, Duration.toMillis(spec.initial) * spec.factor ** Math.max(0, n - 1))
  return Math.min(cap, nominal * (1 + spec.jitter * (2 * draw - 1)))
}

const finite = (field: string, input: Duration.Input): Duration.Duration => {
  const duration = Duration.fromInputUnsafe(input)
  const millis = Duration.toMillis(duration)
  if (!(millis >= 0 && Number.isFinite(millis))) {
    throw new RangeError(
      `Backoff.exponential: ${field} must be finite and not negative, got ${String(input)}`
    )
  }
  return duration
}
