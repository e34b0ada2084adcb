/**
 * What to do when a call fails, as data: one row per class of failure and a few numbers for the whole call.
 *
 * `CallState` reads it and decides; nothing here has behaviour. Two policies ship, {@link interactive} (the
 * default) and {@link background}. They differ in patience, not in judgement. `Presets` has five more, each after a
 * known system.
 */
import { Duration } from "effect"
import { Backoff } from "@outlast/resilience"
import type { CircuitBreaker, RetryBudgetState } from "@outlast/resilience"
import * as Kind from "../../options/Kind.ts"
import type { Wording } from "../../conversation/Wording.ts"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Truncation } from "../../recovery/Truncation.ts"
import * as Ladder from "../../recovery/Truncation.ts"
import type { Nudge, Nudges } from "../../recovery/Nudge.ts"
import * as Nudging from "../../recovery/Nudge.ts"
import type { Notices } from "./Notice.ts"
import * as Notice from "./Notice.ts"
import * as PolicyChecks from "./PolicyChecks.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** The classes of the default policies: the reason, cut further where one reason wants two answers. */
export type DefaultClass =
  | Exclude<ReasonTag, "Auth" | "Format" | "RateLimit" | "Timeout">
  | "Auth"
  | "AuthPermanent"
  | "FormatRequest"
  | "FormatResponse"
  | "OutputTooLong"
  | "RateLimit"
  | "RateLimitTooLarge"
  | "Timeout"
  | "TimeoutConnect"
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
  /**
   * How a wait that the server named counts:
   * - `minimum`: the cooldown is at least that long
   * - `not-before`: the cooldown is exactly that long, and set at once, for all calls, even if this one stays
   * - `ignored`: it does not
   */
  readonly retryAfter: "minimum" | "not-before" | "ignored"
  /**
   * Whose failures open it, unless the server named its length:
   * - `one-call`: those of one call
   * - `several-calls`: those of several calls, without a success among the attempts that began since the first of them;
   *   attempts in flight count as not failed. A connect or first-token limit that passed in silence is enough from one
   *   call, where no other attempt there made progress meanwhile.
   *
   * Default `one-call`.
   */
  readonly proof?: "one-call" | "several-calls" | undefined
}

/**
 * What a stream does that fails after the consumer has seen text:
 * - `continue`: the next attempt gets the partial answer and goes on with it
 * - `fail`: the call fails
 * - `restart`: the next attempt begins anew and a `Rewind` takes the text back; where the consumer cannot be told so
 *   (`LanguageModel.streamText`), it is continued instead, and so is an answer that the output limit cut and that is kept
 *
 * An object is never continued: where it cannot begin anew the call fails.
 */
export type MidStream = "continue" | "fail" | "restart"

/** What to do about one class of failures. */
export interface Row {
  /**
   * - `retry`: repeat on the same target, then move on
   * - `move`: never repeat on the same target
   * - `grow`: make room (a lower output limit, compaction), then move to a target with a larger window
   * - `stop`: it would fail everywhere. A verdict that rests on words alone, without a code or a status that blames the
   *   request, is taken to another model all the same.
   */
  readonly then: "retry" | "move" | "grow" | "stop"
  /** Attempts on one target in one call, the first included. */
  readonly attempts: number
  /** Whether failures of other classes on the target use up these attempts, too. */
  readonly pool: "shared" | "own"
  /** Repeats on the same target before an equivalent one that is ready is preferred. */
  readonly repeatsBeforeEquivalent: number
  /** After so many failures of this class in a row on the target it is left, if there is one to go to. */
  readonly switchAfter: number | undefined
  /**
   * Where to go when the target is left:
   * - `next`: any target
   * - `other-model`: one of another model
   * - `other-dialect`: one of another wire format (`Dialect.format`) that is ready; the call does not wait for one
   * - a list: one of these models
   */
  readonly to: "next" | "other-model" | "other-dialect" | ReadonlyArray<string>
  /** After a failure of this class at so many targets the call ends. Unlimited when `undefined`. */
  readonly targets?: number | undefined
  readonly backoff: Backoff.Backoff
  /** How a wait that the server named counts for the delay before a repeat. */
  readonly retryAfter: Backoff.HintRule["retryAfter"]
  /** What is set when the target is left. */
  readonly cooldown: CooldownRule | undefined
  /** The circuit that it counts as a failure of. */
  readonly circuit: "endpoint" | "model" | undefined
  /** A target that is out for this is worth waiting for. */
  readonly worthWaiting: boolean
  /** A user message that goes with a repeat of which nothing was seen. */
  readonly nudge: Nudge | undefined
  /** Instead of the policy's. */
  readonly midStream: MidStream | undefined
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
  /** US dollars that attempts of one call may cost before it makes no further one; unlimited when absent. */
  readonly maxCost: number | undefined
  /** Whether repeats and their delays are counted in each call anew, or for a target until it succeeds. */
  readonly counters: "call" | "target"
  /** Compactions of one call at most. */
  readonly maxCompactions: number
  /** The circuits of endpoints and models; `false`: none. */
  readonly circuits: CircuitBreaker.Options | false
  /** Whether a circuit sees each attempt, or only how a target's series of attempts ended. */
  readonly breaker: "inside" | "outside"
  /** How long before its end a cooldown lets one call through, to see whether it is over; `false`: never. */
  readonly probe: ProbeRule | false
  /** The share of all calls that may be retries; `false`: unlimited. */
  readonly retryBudget: RetryBudgetState.RetryBudgetOptions | false
  /**
   * When no target is left:
   * - `wait` for the one that is back soonest, within the deadline, if waiting can help
   * - `probe`: one call asks the one that is back soonest at once, the others wait
   * - `fail` at once
   */
  readonly whenAllOut: "wait" | "probe" | "fail"
  /**
   * Whether a call that circuits leave without any target may pass one of them: one attempt per second and circuit, whose
   * outcome is a probe's. Not with `whenAllOut: "fail"`.
   */
  readonly lastResort: boolean
  readonly midStream: MidStream
  /** What to do about an answer that the output limit cut; `false`: it is delivered as it is. */
  readonly truncation: Truncation | false
  /** The user messages that ask a model to go on. */
  readonly nudges: Nudges
  /** What the user is told when another model answers. */
  readonly notices: Notices
  /** What a model reads in place of what cannot be sent to it. Default: `Wording.defaults`, in English. */
  readonly wording?: Wording | undefined
  readonly limits: Limits
}

/** The last part of a cooldown: `share` of its length, at most `atMost`. */
export interface ProbeRule {
  readonly share: number
  readonly atMost: Duration.Duration
}

/** How long one attempt may be silent. Models that think before they answer get the second number. */
export interface Limits {
  /** Until the connection stands. Node's `fetch` waits for 10 seconds itself: more needs a `fetch` that waits longer. */
  readonly connect: Duration.Duration
  readonly firstToken: Duration.Duration
  readonly firstTokenReasoning: Duration.Duration
  readonly idle: Duration.Duration
  readonly idleReasoning: Duration.Duration
  /** A whole answer, however it is asked for. What the program reads as a stream has no such limit. */
  readonly total: Duration.Duration
  /** A stream that is slower is given up; `undefined`: however slow. */
  readonly slow: SlowStream | undefined
}

/** Fewer characters a second than this, over so long a time of waiting for the provider. */
export interface SlowStream {
  readonly charactersPerSecond: number
  readonly over: Duration.Duration
}

// -----------------------------------------------------------------------------
// The default policies
// -----------------------------------------------------------------------------

const classOf = (failure: ProviderFailure): DefaultClass => {
  const reason = failure.reason
  switch (reason._tag) {
    case "Auth":
      return reason.permanent ? "AuthPermanent" : "Auth"
    case "Format":
      if (reason.outputLimit !== undefined) return "OutputTooLong"
      return reason.side === "request" ? "FormatRequest" : "FormatResponse"
    case "RateLimit":
      return reason.liftable ? "RateLimit" : "RateLimitTooLarge"
    case "Timeout":
      // A connection that is not accepted says something about the endpoint, whoever's limit it was.
      if (reason.phase === "connect") return "TimeoutConnect"
      // A slow answer may be a long one. Silence says something about the model.
      return reason.local && reason.phase === "total" && reason.silent !== true ? "TimeoutLocal" : "Timeout"
    default:
      return reason._tag
  }
}

const backoff = (cap: Duration.Input) => Backoff.exponential({ initial: "1 second", factor: 2, cap })

const cooldown = (
  scope: Scope,
  initial: Duration.Input | "forever",
  cap: Duration.Input = initial === "forever" ? Duration.infinity : initial,
  retryAfter: CooldownRule["retryAfter"] = "minimum"
): CooldownRule => ({
  scope,
  // What is wider than a key keeps other calls out, too: one call's bad luck must not close it.
  proof: scope === "model" || scope === "endpoint" ? "several-calls" : "one-call",
  initial: initial === "forever" ? initial : Duration.fromInputUnsafe(initial),
  factor: 2,
  cap: Duration.fromInputUnsafe(cap),
  retryAfter
})

/** What rows have in common: one attempt, the next target, nothing remembered. For policies of your own. */
export const base: Row = {
  then: "retry",
  attempts: 1,
  pool: "shared",
  repeatsBeforeEquivalent: 1,
  switchAfter: undefined,
  to: "next",
  backoff: backoff("30 seconds"),
  retryAfter: "minimum",
  cooldown: undefined,
  circuit: undefined,
  worthWaiting: false,
  nudge: undefined,
  midStream: undefined
}

/** A cooldown that never grows, whatever the server says about waiting. For policies of your own. */
export const steady = (scope: Scope, length: Duration.Input): CooldownRule => {
  PolicyChecks.scope("RecoveryPolicy.steady", "scope", scope)
  Kind.duration()("RecoveryPolicy.steady", "length", length)
  const initial = Duration.fromInputUnsafe(length)
  return { scope, initial, factor: 1, cap: initial, retryAfter: "ignored" }
}

const stop: Row = { ...base, then: "stop" }

/** The attempt has cost its whole limit already: an equivalent target is asked before it is repeated. */
const timeout: Row = { ...base, attempts: 2, repeatsBeforeEquivalent: 0, worthWaiting: true }

const rows: { readonly [C in DefaultClass]: Row } = {
  RateLimit: {
    ...base,
    attempts: 5,
    repeatsBeforeEquivalent: 0,
    backoff: backoff("60 seconds"),
    cooldown: cooldown("key+model", "1 minute", "5 minutes", "not-before"),
    worthWaiting: true
  },
  // One request is larger than the limit: no wait lifts that, another account or model may.
  RateLimitTooLarge: { ...base, then: "move" },
  Overloaded: {
    ...base,
    attempts: 3,
    cooldown: cooldown("model", "2 minutes", "10 minutes"),
    circuit: "model",
    worthWaiting: true
  },
  ServerError: {
    ...base,
    attempts: 3,
    cooldown: cooldown("model", "30 seconds", "5 minutes"),
    circuit: "endpoint",
    worthWaiting: true
  },
  Timeout: { ...timeout, cooldown: cooldown("model", "30 seconds", "5 minutes"), circuit: "endpoint" },
  TimeoutConnect: {
    ...timeout,
    cooldown: cooldown("endpoint", "30 seconds", "5 minutes"),
    circuit: "endpoint"
  },
  TimeoutLocal: timeout,
  Network: {
    ...base,
    attempts: 5,
    cooldown: cooldown("endpoint", "30 seconds", "5 minutes"),
    circuit: "endpoint",
    worthWaiting: true
  },
  PermanentNetwork: {
    ...base,
    then: "move",
    // It does not pass by itself: one call is enough.
    cooldown: { ...cooldown("endpoint", "10 minutes"), proof: "one-call" },
    circuit: "endpoint"
  },
  Auth: { ...base, then: "move", cooldown: cooldown("key", "10 minutes", "1 hour") },
  AuthPermanent: { ...base, then: "move", cooldown: cooldown("key", "forever") },
  Billing: { ...base, then: "move", cooldown: cooldown("key", "30 minutes", "1 hour") },
  ModelNotFound: { ...base, then: "move", cooldown: { ...cooldown("model", "1 hour"), proof: "one-call" } },
  ContextOverflow: { ...base, then: "grow" },
  FormatResponse: { ...base, attempts: 2 },
  // What one server calls malformed, one with another wire format may take.
  FormatRequest: { ...base, then: "move", to: "other-dialect", targets: 2 },
  // The same request is taken with the limit that the provider named.
  OutputTooLong: { ...base, then: "grow" },
  ContentPolicy: stop,
  Cancelled: stop,
  Unknown: { ...base, attempts: 2, cooldown: cooldown("model", "30 seconds", "30 seconds") }
}

/**
 * Circuits that never turn a partly healthy target into an outage: they judge the share of failures among many attempts,
 * and several probes at once. `docs/load.md` has the numbers that decided.
 */
export const circuits = {
  trip: { consecutive: false, rate: { window: "1 minute", minimumCalls: 20, failures: 0.8 } },
  halfOpen: { permits: 3, successes: 2 }
} as const satisfies CircuitBreaker.Options

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
  counters: "call",
  maxCompactions: 2,
  circuits,
  breaker: "inside",
  probe: { share: 0.25, atMost: Duration.seconds(30) },
  retryBudget: { paidBy: "successes" },
  whenAllOut: "wait",
  lastResort: true,
  midStream: "continue",
  truncation: Ladder.defaults,
  nudges: Nudging.defaults,
  notices: Notice.defaults,
  limits: {
    connect: Duration.seconds(10),
    firstToken: Duration.seconds(60),
    firstTokenReasoning: Duration.seconds(180),
    idle: Duration.seconds(60),
    idleReasoning: Duration.seconds(180),
    total: Duration.minutes(10),
    slow: undefined
  }
}

/** Nobody waits: a minute of patience before another model, half an hour in all. */
export const background: RecoveryPolicy = {
  ...interactive,
  deadline: Duration.minutes(30),
  patience: Duration.seconds(60),
  limits: {
    ...interactive.limits,
    firstToken: Duration.seconds(300),
    firstTokenReasoning: Duration.seconds(300),
    idle: Duration.seconds(300),
    idleReasoning: Duration.seconds(300),
    total: Duration.minutes(30)
  }
}

/** The same policy with every wait exact: for tests of what a policy does. */
export const withoutJitter = <Class extends string>(policy: RecoveryPolicy<Class>): RecoveryPolicy<Class> => {
  Kind.plain("a policy, for example Policy.interactive")("RecoveryPolicy.withoutJitter", "policy", policy)
  return {
    ...policy,
    retryAfterJitter: 0,
    // Object.entries forgets the key type; the keys are those of `rows`.
    rows: Object.fromEntries(
      Object.entries<Row>(policy.rows).map(([name, row]) => [
        name,
        { ...row, backoff: { ...row.backoff, jitter: 0 } }
      ])
    ) as { [C in Class]: Row }
  }
}

/**
 * The row for a failure. A row that ends the call, or asks another wire format only, says `move` instead where only
 * words speak for it: one other model is asked then, if there is one. Throws an `InvalidOption` for a class without a
 * row, which {@link validate} could not foresee.
 */
export const rowOf = <Class extends string>(policy: RecoveryPolicy<Class>, failure: ProviderFailure): Row => {
  const of = policy.classOf(failure)
  if (!PolicyChecks.isClass(policy, of)) throw PolicyChecks.missingRow(of, failure)
  const row = policy.rows[of]
  const ends = row.then === "stop" || row.to === "other-dialect"
  return ends && isHearsay(failure)
    ? { ...row, then: "move", to: "other-model", targets: row.targets ?? 2 }
    : row
}

/** Whether a verdict rests on words alone: no code, and no status that blames the request. */
export const isHearsay = ({ evidence: { signal, status } }: ProviderFailure): boolean =>
  signal === "text" && (status === undefined || status < 400 || status > 499)

/**
 * Throws an `InvalidOption` (a `RangeError`) that names the field: a value that is not allowed, a field that is missing or
 * unknown, a class of `classOf` without a row. With the `classOf` of the default policies, also a row of a class that
 * it does not give.
 */
export const validate = (policy: RecoveryPolicy<string>): void =>
  PolicyChecks.validate(policy, policy.classOf === classOf)
