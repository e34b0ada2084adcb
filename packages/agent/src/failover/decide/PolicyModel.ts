/**
 * What a recovery policy is, as types: one row per class of failure and a few numbers for the whole call.
 *
 * `RecoveryPolicy` has the policies that ship and exports these types too.
 */
import type { Duration } from "effect"
import type { Backoff, CircuitBreaker, RetryBudgetState } from "@outlast/resilience"
import type { Wording } from "../../conversation/Wording.ts"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Nudge, Nudges } from "../../recovery/Nudge.ts"
import type { Truncation } from "../../recovery/Truncation.ts"
import type { Notices } from "./Notice.ts"

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
   * - `wins`: the cooldown is that long, and longer by `factor` with each further one without a success between
   * - `not-before`: the cooldown is exactly that long, and set at once, for all calls, even if this one stays
   * - `ignored`: it does not
   */
  readonly retryAfter: "minimum" | "wins" | "not-before" | "ignored"
  /**
   * Whose failures open it. A wait that the server named always holds for the call that got it.
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
