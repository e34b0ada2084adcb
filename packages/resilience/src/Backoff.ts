/**
 * Computes the delay before the next attempt. Pure.
 *
 * A specification is plain data in one of two forms. `Exponential` waits `initial · factor^(n−1)` before retry `n`, at
 * most `cap`. `Sequence` takes its delays from a list and repeats the last entry. Jitter turns a delay into a range
 * ({@link range}), in which the caller's draw chooses. A cap shortens the range, and the draw covers the rest of it, so
 * that delays do not pile up at the cap.
 *
 * {@link delay} has no state, no clock and no randomness: the caller counts retries and draws. {@link schedule} is the
 * same formula as a `Schedule`, with a draw of `Random` for each delay. {@link withHint} combines a delay with a
 * server's Retry-After.
 *
 * **Limits.** The module does not count attempts (`AttemptLimits`), does not remember failures across calls
 * (`FailureStreaks`), and does not know the remaining time (`Deadline`).
 *
 * **Example** (The delays of a specification)
 *
 * ```ts
 * const spec = Backoff.exponential({ initial: "1 second", cap: "30 seconds", jitter: 0.2 })
 * Backoff.delay(spec, 3, undefined, 0.5) // => 4000
 * // The middle of 3200 to 4800 milliseconds.
 * Backoff.delay(spec, 1_000, undefined, 0.99) // => 29940
 * // Never above `Backoff.max(spec)`.
 * ```
 *
 * **Example** (The same delays as a `Schedule`)
 *
 * ```ts
 * fetchAnswer.pipe(Effect.retry({ schedule: Backoff.schedule(spec), times: 4 }))
 * ```
 */
import { Duration, Effect, Random, Schedule } from "effect"
import * as Options from "./Options.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** Shares by which a delay may become shorter or longer, each from 0 to 1. */
export interface Spread {
  readonly below: number
  readonly above: number
}

/** Jitter of a list of delays. See {@link Jitter}. */
export type SequenceJitter = number | "full" | "equal" | Spread

/**
 * The random variation of a delay:
 *
 * - a number from 0 to 1: shorter or longer by up to that share; 0 turns jitter off
 * - `"full"`: from 0 to the delay
 * - `"equal"`: from half of the delay to the delay
 * - `"decorrelated"`: from `initial` to `factor` times the previous delay, regardless of `n`
 * - a {@link Spread}, for different shares: `{ below: 0, above: 0.25 }` only lengthens. With `beyondCap` (default:
 *   false) jitter is added after the cap, so that the longest delay is `cap · (1 + above)`
 *
 * "Full", "equal" and "decorrelated" are defined in Marc Brooker, "Exponential Backoff And Jitter" (AWS, 2015).
 */
export type Jitter =
  | number
  | "full"
  | "equal"
  | "decorrelated"
  | (Spread & { readonly beyondCap?: boolean | undefined })

export interface Exponential {
  readonly _tag: "Exponential"
  /** The delay before the first retry, without jitter. */
  readonly initial: Duration.Duration
  /** Growth per retry. At least 1. */
  readonly factor: number
  /** Longest delay, except for jitter `beyondCap`. */
  readonly cap: Duration.Duration
  readonly jitter: Jitter
}

export interface Sequence {
  readonly _tag: "Sequence"
  /** The delays in order. The last one repeats. */
  readonly delays: readonly [Duration.Duration, ...Array<Duration.Duration>]
  readonly jitter: SequenceJitter
}

export type Backoff = Exponential | Sequence

/** Defaults of {@link exponential}. */
export const defaults = { initial: "1 second", factor: 2, cap: "30 seconds", jitter: 0.2 } as const

/** Longest delay and cap that a specification may have. */
export const maxDuration: Duration.Duration = Duration.days(365)

const module = "Backoff"
const { is } = Options
const delayCheck = is.duration({ max: maxDuration })

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/**
 * Creates delays that grow by a factor, up to a cap.
 *
 * Defaults: see {@link defaults}. Throws an `InvalidOption` (a `RangeError`) for a specification that {@link validate}
 * rejects.
 */
export const exponential = (
  options: {
    readonly initial?: Duration.Input | undefined
    readonly factor?: number | undefined
    readonly cap?: Duration.Input | undefined
    readonly jitter?: Jitter | undefined
  } = {}
): Exponential => {
  Options.fields(module, options, exponentialChecks)
  const spec: Exponential = {
    _tag: "Exponential",
    initial: Duration.fromInputUnsafe(options.initial ?? defaults.initial),
    factor: options.factor ?? defaults.factor,
    cap: Duration.fromInputUnsafe(options.cap ?? defaults.cap),
    jitter: options.jitter ?? defaults.jitter
  }
  validate(spec)
  return spec
}

/**
 * Creates delays from a list, whose last entry repeats. `jitter` is 0 by default, because a list usually means exact
 * delays.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a specification that {@link validate} rejects.
 */
export const sequence = (
  delays: readonly [Duration.Input, ...Array<Duration.Input>],
  options: { readonly jitter?: SequenceJitter | undefined } = {}
): Sequence => {
  delayList(module, "delays", delays)
  Options.fields(module, options, { jitter: is.anything })
  const [first, ...rest] = delays
  const spec: Sequence = {
    _tag: "Sequence",
    delays: [Duration.fromInputUnsafe(first), ...rest.map((input) => Duration.fromInputUnsafe(input))],
    jitter: options.jitter ?? 0
  }
  validate(spec)
  return spec
}

/** Creates a constant delay: a list of one. */
export const constant = (
  delay: Duration.Input,
  options: { readonly jitter?: SequenceJitter | undefined } = {}
): Sequence => sequence([delay], options)

/**
 * Throws an `InvalidOption` (a `RangeError`) for an invalid specification that was written by hand: a duration outside
 * 0 to {@link maxDuration}, a cap below the initial delay, a factor below 1, a share outside 0 to 1, an unknown jitter,
 * or an empty list. `owner` names the module in the message.
 */
export const validate = (spec: Backoff, owner = "Backoff"): void => {
  // A valid specification stays valid, because it is read-only. Most are validated on every call.
  // Stryker disable next-line ConditionalExpression: it saves time and changes nothing.
  if (valid.has(spec)) return
  switch (spec?._tag) {
    case "Exponential":
      Options.fields<Exponential>(owner, spec, {
        _tag: is.anything,
        initial: is.required(exponentialChecks.initial),
        factor: is.required(exponentialChecks.factor),
        cap: is.required(exponentialChecks.cap),
        jitter: exponentialChecks.jitter
      })
      Options.duration(owner, "cap", spec.cap, { min: spec.initial, max: maxDuration })
      break
    case "Sequence":
      Options.fields<Sequence>(owner, spec, {
        _tag: is.anything,
        delays: is.required(delayList),
        jitter: is.anything
      })
      break
    default: {
      // A field of another module is named as in that module.
      const [module = owner, field = "spec"] = owner.split(": ")
      throw new Options.InvalidOption(module, field, spec, "a Backoff, for example Backoff.exponential()")
    }
  }
  validateJitter(spec, owner)
  // Stryker disable next-line all: as above.
  valid.add(spec)
}

const valid = new WeakSet<Backoff>()

const exponentialChecks = {
  initial: delayCheck,
  factor: is.number({ min: 1 }),
  cap: delayCheck,
  // `validateJitter` checks it, because the allowed words depend on the form.
  jitter: is.anything
} as const

const delayList: Options.Check = (module, field, value) => {
  const isFilled = Array.isArray(value) && value.length > 0
  Options.check(isFilled, module, field, value, "a list of at least one duration")
  is.list(delayCheck)(module, field, value)
}

const validateJitter = ({ _tag, jitter }: Backoff, owner: string): void => {
  if (typeof jitter === "number") {
    Options.share(owner, "jitter", jitter)
  } else if (typeof jitter === "object" && jitter !== null) {
    Options.share(owner, "jitter.below", jitter.below)
    Options.share(owner, "jitter.above", jitter.above)
    if ("beyondCap" in jitter && jitter.beyondCap !== undefined) {
      Options.flag(owner, "jitter.beyondCap", jitter.beyondCap)
    }
  } else {
    const words = ["full", "equal", ...(_tag === "Exponential" ? ["decorrelated"] : [])]
    const named = words.map((word) => `"${word}"`).join(" or ")
    Options.check(
      words.includes(jitter),
      owner,
      "jitter",
      jitter,
      `a number from 0 to 1, ${named}, or { below, above }`
    )
  }
}

/** The check of an option that is a {@link Backoff}. */
export const isBackoff: Options.Check = (module, field, value) => {
  // `validate` rejects values of other types.
  const spec = value as Backoff
  // Stryker disable next-line ConditionalExpression: it saves the name of the owner and changes nothing.
  if (!valid.has(spec)) validate(spec, `${module}: ${field}`)
}

// -----------------------------------------------------------------------------
// The formula
// -----------------------------------------------------------------------------

/**
 * Returns the delay before retry `n` in milliseconds. The first retry is 1.
 *
 * `previous` is the previous delay in milliseconds, or `undefined` when there was none. Only `"decorrelated"` reads it,
 * and uses the delay without jitter when it is missing. `draw` is in [0, 1). The result is finite and from 0 to
 * {@link max} for every `n`. An `n` below 1 counts as 1.
 */
export const delay = (spec: Backoff, n: number, previous: number | undefined, draw: number): number => {
  const { shortest, longest } = range(spec, n, previous)
  // Never above `longest`: rounding cannot lift a draw below 1 over the end.
  return shortest + (longest - shortest) * draw
}

/** Bounds of the delay, in milliseconds. The draw chooses between them. */
export interface Range {
  readonly shortest: number
  readonly longest: number
}

/** Returns the bounds of the delay before retry `n`. See {@link delay}. */
export const range = (spec: Backoff, n: number, previous: number | undefined): Range => {
  // Stryker disable next-line ConditionalExpression,StringLiteral: for the types; a sequence has no such jitter.
  if (spec._tag === "Sequence") return around(spec, n, spec.jitter)
  if (spec.jitter !== "decorrelated") return around(spec, n, spec.jitter)
  const initial = Duration.toMillis(spec.initial)
  const before = Math.max(initial, previous ?? withoutJitter(spec, n - 1))
  return { shortest: initial, longest: Math.min(Duration.toMillis(spec.cap), before * spec.factor) }
}

const around = (spec: Backoff, n: number, jitter: Exclude<Jitter, "decorrelated">): Range => {
  const middle = withoutJitter(spec, n)
  const { below, above } = spreadOf(jitter)
  return { shortest: middle * (1 - below), longest: Math.min(max(spec), middle * (1 + above)) }
}

/** Returns the longest delay of a specification, in milliseconds. */
export const max = (spec: Backoff): number => {
  if (spec._tag === "Sequence") {
    return Math.max(...spec.delays.map(Duration.toMillis)) * (1 + spreadOf(spec.jitter).above)
  }
  const { jitter } = spec
  // Stryker disable next-line ConditionalExpression: it is for the types; a number or a word has no `beyondCap`.
  const beyond = typeof jitter === "object" && jitter.beyondCap === true ? jitter.above : 0
  return Duration.toMillis(spec.cap) * (1 + beyond)
}

const withoutJitter = (spec: Backoff, n: number): number => {
  const before = Math.max(0, n - 1)
  if (spec._tag === "Sequence") {
    return Duration.toMillis(spec.delays[before] ?? spec.delays[spec.delays.length - 1] ?? spec.delays[0])
  }
  // The power stays finite, so that an initial delay of 0 stays 0 for any `n`.
  const power = Math.min(spec.factor ** before, Number.MAX_VALUE)
  return Math.min(Duration.toMillis(spec.cap), Duration.toMillis(spec.initial) * power)
}

const spreadOf = (jitter: Exclude<Jitter, "decorrelated">): Spread => {
  switch (jitter) {
    case "full":
      return { below: 1, above: 0 }
    case "equal":
      return { below: 0.5, above: 0 }
    default:
      return typeof jitter === "number" ? { below: jitter, above: jitter } : jitter
  }
}

/**
 * Returns the formula as an endless `Schedule` whose output is the delay, with one draw of `Random` for each. Every
 * retry that runs the schedule counts from 1.
 */
export const schedule = (spec: Backoff): Schedule.Schedule<Duration.Duration> => {
  validate(spec)
  return Schedule.fromStepWithMetadata(
    Effect.sync(() => {
      let previous: number | undefined
      return ({ attempt }: Schedule.InputMetadata<unknown>) =>
        Effect.map(Random.next, (draw): [Duration.Duration, Duration.Duration] => {
          previous = delay(spec, attempt, previous, draw)
          const wait = Duration.millis(previous)
          return [wait, wait]
        })
    })
  )
}

// -----------------------------------------------------------------------------
// Retry-After
// -----------------------------------------------------------------------------

/** The rule for a server's Retry-After. */
export interface HintRule {
  /**
   * - `wins`: the server's wait replaces the backoff
   * - `minimum`: the longer of the two applies
   * - `ignored`: only the backoff applies
   */
  readonly retryAfter: "wins" | "minimum" | "ignored"
  /** Longest wait to accept from a server. A longer one is {@link TooLong}, and the caller has to do something else. */
  readonly maxRetryAfter: Duration.Duration
  /**
   * Share by which a server's wait is lengthened at random, from 0 to 1, so that clients do not return together. 0
   * makes the wait exact.
   */
  readonly retryAfterJitter: number
}

/**
 * Defaults of {@link hintRule}. `RecoveryPolicy` also stops sleeping at 60 seconds, and so do the SDKs of Anthropic and
 * OpenAI.
 */
export const hintDefaults = {
  retryAfter: "minimum",
  maxRetryAfter: "60 seconds",
  retryAfterJitter: 0.1
} as const

/** The allowed values of `retryAfter` in a {@link HintRule}. */
export const hints: ReadonlyArray<HintRule["retryAfter"]> = ["wins", "minimum", "ignored"]

/**
 * Creates a rule. Defaults: see {@link hintDefaults}. Throws an `InvalidOption` (a `RangeError`) for a number out of
 * range.
 */
export const hintRule = (
  options: {
    readonly retryAfter?: HintRule["retryAfter"] | undefined
    readonly maxRetryAfter?: Duration.Input | undefined
    readonly retryAfterJitter?: number | undefined
  } = {}
): HintRule => {
  Options.fields(module, options, hintChecks)
  return {
    retryAfter: options.retryAfter ?? hintDefaults.retryAfter,
    maxRetryAfter: Duration.fromInputUnsafe(options.maxRetryAfter ?? hintDefaults.maxRetryAfter),
    retryAfterJitter: options.retryAfterJitter ?? hintDefaults.retryAfterJitter
  }
}

/** The checks of the options of {@link hintRule}. */
export const hintChecks = {
  retryAfter: is.oneOf(...hints),
  maxRetryAfter: delayCheck,
  retryAfterJitter: is.share
} as const

/** Sleep for `millis` milliseconds. */
export interface Wait {
  readonly _tag: "Wait"
  readonly millis: number
}

/** The server requested a wait above the rule's `maxRetryAfter`. `retryAfter` is in milliseconds. */
export interface TooLong {
  readonly _tag: "TooLong"
  readonly retryAfter: number
}

/**
 * Combines the `delay` of the formula with the `retryAfter` of a server, both in milliseconds.
 *
 * A `retryAfter` of 0 or less means now, even when it is a minimum. NaN is ignored. `maxRetryAfter` is compared with
 * the server's value before jitter, which only lengthens.
 */
export const withHint = (
  rule: HintRule,
  delay: number,
  retryAfter: number | undefined,
  draw: number
): Wait | TooLong => {
  if (retryAfter === undefined || Number.isNaN(retryAfter) || rule.retryAfter === "ignored") {
    return { _tag: "Wait", millis: delay }
  }
  if (retryAfter > Duration.toMillis(rule.maxRetryAfter)) return { _tag: "TooLong", retryAfter }
  const named = lengthened(Math.max(0, retryAfter), rule.retryAfterJitter, draw)
  const isFinal = rule.retryAfter === "wins" || named === 0
  return { _tag: "Wait", millis: isFinal ? named : Math.max(delay, named) }
}

/** Lengthens a wait in milliseconds by up to `share` of itself. */
export const lengthened = (millis: number, share: number, draw: number): number => millis * (1 + share * draw)
