/**
 * What to do when a call fails, as data: one row per class of failure and a few numbers for the whole call.
 *
 * `CallState` reads it and decides; nothing here has behaviour. Two policies ship, {@link interactive} (the
 * default) and {@link background}. They differ in patience, not in judgement.
 */
import { Duration } from "effect"
import { Backoff } from "@outlast/resilience"
import type { ReasonTag } from "../failure/FailoverReason.ts"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"

/** The classes of the default policies: the reason, cut further where one reason wants two answers. */
export type DefaultClass =
  | Exclude<ReasonTag, "Auth" | "Format" | "RateLimit" | "Timeout">
  | "Auth"
  | "AuthPermanent"
  | "FormatRequest"
  | "FormatResponse"
  | "RateLimit"
  | "RateLimitTooLarge"
  | "Timeout"
  | "TimeoutLocal"

/** What a cooldown keeps from being chosen. */
export type Scope = "key" | "key+model" | "model" | "endpoint"

/** How long something is not chosen after a failure. */
export interface CooldownRule {
  readonly scope: Scope
  /** `"forever"`: until it is reset. */
  readonly initial: Duration.Duration | "forever"
  /** Each further cooldown without a success between is longer by this factor, up to `cap`. */
  readonly factor: number
  readonly cap: Duration.Duration
}

/** What to do about one class of failures. */
export interface Row {
  /**
   * - `retry`: repeat on the same target, then move on
   * - `move`: never repeat on the same target
   * - `grow`: move only to a target with a larger window
   * - `stop`: it would fail everywhere
   */
  readonly then: "retry" | "move" | "grow" | "stop"
  /** Attempts on one target in one call, the first included. */
  readonly attempts: number
  /** Repeats on the same target before an equivalent one that is ready is preferred. */
  readonly repeatsBeforeEquivalent: number
  readonly backoff: Backoff.Backoff
  /** What is set when the target is left. */
  readonly cooldown: CooldownRule | undefined
  /**
   * How a wait that the server named counts for the cooldown:
   * - `minimum`: the cooldown is at least that long
   * - `not-before`: the cooldown is exactly that long, and set at once, for all calls, even if this one stays
   */
  readonly retryAfter: "minimum" | "not-before"
  /** A target that is out for this is worth waiting for. */
  readonly worthWaiting: boolean
}

export interface RecoveryPolicy<Class extends string = DefaultClass> {
  readonly classOf: (failure: ProviderFailure) => Class
  readonly rows: { readonly [C in Class]: Row }
  /** Attempts of one call over all targets. */
  readonly maxAttempts: number
  /** Waits and failed attempts of one call, together. An answer that streams on is never cut by it. */
  readonly deadline: Duration.Duration
  /** A longer wait that a server names is not slept: it becomes a cooldown and a switch. */
  readonly maxWait: Duration.Duration
  /** Time spent on failures before a different model is preferred to the one that failed. */
  readonly patience: Duration.Duration
  /** A server's wait up to this is slept even if an equivalent target is ready. */
  readonly shortWait: Duration.Duration
  /** A server's wait is lengthened by up to this share of itself, drawn per wait. 0 makes it exact. */
  readonly retryAfterJitter: number
  /** US dollars that failed attempts of one call may cost before it gives up; unlimited when absent. */
  readonly maxCost: number | undefined
  /** What happens to a stream that fails after the consumer has seen text. */
  readonly midStream: "continue" | "fail"
  /** The user message that asks a model to go on with a partial answer. */
  readonly nudge: string
  readonly limits: Limits
}

/** How long one attempt may be silent. Models that think before they answer get the second number. */
export interface Limits {
  readonly firstToken: Duration.Duration
  readonly firstTokenReasoning: Duration.Duration
  readonly idle: Duration.Duration
  readonly idleReasoning: Duration.Duration
  /** The whole of an answer that is not streamed. */
  readonly total: Duration.Duration
}

const classOf = (failure: ProviderFailure): DefaultClass => {
  const reason = failure.reason
  switch (reason._tag) {
    case "Auth":
      return reason.permanent ? "AuthPermanent" : "Auth"
    case "Format":
      return reason.side === "request" ? "FormatRequest" : "FormatResponse"
    case "RateLimit":
      return reason.liftable ? "RateLimit" : "RateLimitTooLarge"
    case "Timeout":
      // Patience is ours; that nobody takes the connection says something about the endpoint, whoever's limit it was.
      return reason.local && reason.phase !== "connect" ? "TimeoutLocal" : "Timeout"
    default:
      return reason._tag
  }
}

const backoff = (cap: Duration.Input) => Backoff.exponential({ initial: "1 second", factor: 2, cap })

const cooldown = (
  scope: Scope,
  initial: Duration.Input | "forever",
  cap: Duration.Input = initial === "forever" ? Duration.infinity : initial,
  factor = 2
): CooldownRule => ({
  scope,
  initial: initial === "forever" ? initial : Duration.fromInputUnsafe(initial),
  factor,
  cap: Duration.fromInputUnsafe(cap)
})

const base: Row = {
  then: "retry",
  attempts: 1,
  repeatsBeforeEquivalent: 1,
  backoff: backoff("30 seconds"),
  cooldown: undefined,
  retryAfter: "minimum",
  worthWaiting: false
}

const stop: Row = { ...base, then: "stop" }

const rows: { readonly [C in DefaultClass]: Row } = {
  RateLimit: {
    ...base,
    attempts: 5,
    repeatsBeforeEquivalent: 0,
    backoff: backoff("60 seconds"),
    cooldown: cooldown("key+model", "1 minute", "5 minutes"),
    retryAfter: "not-before",
    worthWaiting: true
  },
  // One request is larger than the limit: no wait lifts that, another account or model may.
  RateLimitTooLarge: { ...base, then: "move" },
  Overloaded: {
    ...base,
    attempts: 3,
    cooldown: cooldown("model", "2 minutes", "10 minutes"),
    worthWaiting: true
  },
  ServerError: {
    ...base,
    attempts: 3,
    cooldown: cooldown("model", "30 seconds", "5 minutes"),
    worthWaiting: true
  },
  Timeout: {
    ...base,
    attempts: 2,
    cooldown: cooldown("model", "30 seconds", "5 minutes"),
    worthWaiting: true
  },
  TimeoutLocal: { ...base, attempts: 2, worthWaiting: true },
  Network: {
    ...base,
    attempts: 5,
    cooldown: cooldown("endpoint", "30 seconds", "5 minutes"),
    worthWaiting: true
  },
  PermanentNetwork: { ...base, then: "move", cooldown: cooldown("endpoint", "10 minutes") },
  Auth: { ...base, then: "move", cooldown: cooldown("key", "10 minutes", "1 hour") },
  AuthPermanent: { ...base, then: "move", cooldown: cooldown("key", "forever") },
  Billing: { ...base, then: "move", cooldown: cooldown("key", "30 minutes", "1 hour") },
  ModelNotFound: { ...base, then: "move", cooldown: cooldown("model", "1 hour") },
  ContextOverflow: { ...base, then: "grow" },
  FormatResponse: { ...base, attempts: 2 },
  FormatRequest: stop,
  ContentPolicy: stop,
  Cancelled: stop,
  Unknown: { ...base, attempts: 2, cooldown: cooldown("model", "30 seconds", "30 seconds") }
}

/** Somebody waits for the answer: five seconds of patience, two minutes in all. The default. */
export const interactive: RecoveryPolicy = {
  classOf,
  rows,
  maxAttempts: 10,
  deadline: Duration.minutes(2),
  maxWait: Duration.seconds(60),
  patience: Duration.seconds(5),
  shortWait: Duration.seconds(2),
  retryAfterJitter: 0.1,
  maxCost: undefined,
  midStream: "continue",
  nudge:
    "Your answer was interrupted. Go on exactly where it stops, in the same language and form. Repeat nothing, explain nothing.",
  limits: {
    firstToken: Duration.seconds(60),
    firstTokenReasoning: Duration.seconds(180),
    idle: Duration.seconds(60),
    idleReasoning: Duration.seconds(180),
    total: Duration.minutes(10)
  }
}

/** Nobody waits: a minute of patience before another model, half an hour in all. */
export const background: RecoveryPolicy = {
  ...interactive,
  deadline: Duration.minutes(30),
  patience: Duration.seconds(60),
  limits: {
    firstToken: Duration.seconds(300),
    firstTokenReasoning: Duration.seconds(300),
    idle: Duration.seconds(300),
    idleReasoning: Duration.seconds(300),
    total: Duration.minutes(30)
  }
}

/** The same policy with every wait exact: for tests of what a policy does. */
export const withoutJitter = <Class extends string>(
  policy: RecoveryPolicy<Class>
): RecoveryPolicy<Class> => ({
  ...policy,
  retryAfterJitter: 0,
  // Object.entries forgets the key type; the keys are those of `rows`.
  rows: Object.fromEntries(
    Object.entries<Row>(policy.rows).map(([name, row]) => [
      name,
      { ...row, backoff: { ...row.backoff, jitter: 0 } }
    ])
  ) as { [C in Class]: Row }
})

/** The row for a failure. */
export const rowOf = <Class extends string>(policy: RecoveryPolicy<Class>, failure: ProviderFailure): Row =>
  policy.rows[policy.classOf(failure)]

/** Throws a `RangeError` for a number that no call could live with. */
export const validate = (policy: RecoveryPolicy<string>): void => {
  const check = (holds: boolean, field: string, wanted: string, got: unknown): void => {
    if (!holds) throw new RangeError(`RecoveryPolicy: ${field} must be ${wanted}, got ${String(got)}`)
  }
  const isCount = (n: number): boolean => Number.isInteger(n) && n >= 1
  check(isCount(policy.maxAttempts), "maxAttempts", "an integer of at least 1", policy.maxAttempts)
  check(
    policy.retryAfterJitter >= 0 && policy.retryAfterJitter <= 1,
    "retryAfterJitter",
    "from 0 to 1",
    policy.retryAfterJitter
  )
  check(policy.maxCost === undefined || policy.maxCost > 0, "maxCost", "above 0 US dollars", policy.maxCost)
  for (const [name, row] of Object.entries(policy.rows)) {
    check(isCount(row.attempts), `rows.${name}.attempts`, "an integer of at least 1", row.attempts)
    Backoff.validate(row.backoff, `RecoveryPolicy: rows.${name}.backoff`)
  }
}
