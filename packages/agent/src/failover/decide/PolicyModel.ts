/**
 * The types of a recovery policy: one row per class of failure, and the limits of a whole call.
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

/** The classes of the default policies: the reasons. A reason that needs two reactions has two classes. */
export type DefaultClass =
  | Exclude<ReasonTag, "Auth" | "Format" | "RateLimit" | "Timeout">
  | "Auth"
  | "AuthPermanent"
  | "FormatRequest"
  | "FormatResponse"
  | "OutputTooLong"
  | "RateLimit"
  | "RateLimitTooLarge"
  | "RateLimitWindow"
  | "Timeout"
  | "TimeoutConnect"
  | "TimeoutLocal"

/** The part of a chain that a cooldown covers. */
export type Scope = "key" | "key+model" | "model" | "endpoint"

/** The cooldown that a failure opens, and its length. */
export interface CooldownRule {
  readonly scope: Scope
  /** Length of the first cooldown. `"forever"`: until it is reset. */
  readonly initial: Duration.Duration | "forever"
  /** Factor by which each further cooldown without a success between grows, up to `cap`. */
  readonly factor: number
  readonly cap: Duration.Duration
  /**
   * Effect of a wait that the server named:
   *
   * - `minimum`: the cooldown is at least that long
   * - `wins`: the cooldown is that long, and longer by `factor` with each further one without a success between
   * - `not-before`: the cooldown is exactly that long, and opens at once for all calls, even if this one stays
   * - `ignored`: none
   */
  readonly retryAfter: "minimum" | "wins" | "not-before" | "ignored"
  /**
   * Failures that open the cooldown. A wait that the server named always holds for the call that got it.
   *
   * - `one-call`: failures of one call
   * - `several-calls`: failures of `pacing.provenBy` calls, without a success among the attempts that began since the first of
   *   them. Attempts in flight count as not failed. One call is enough when its connect or first-token limit passed
   *   in silence and no other attempt there made progress meanwhile.
   *
   * Default `one-call`.
   */
  readonly proof?: "one-call" | "several-calls" | undefined
  /**
   * Longest cooldown for a verdict that rests on words alone. It then also needs the proof of `several-calls`. Default:
   * such a verdict counts like any other.
   */
  readonly byWords?: Duration.Duration | undefined
  /**
   * Length of the first cooldown where a target of the scope has answered within `pacing.trustedFor`. The next one has
   * the length of `initial`. Default: `initial`.
   */
  readonly trusted?: Duration.Duration | undefined
  /**
   * Length of a cooldown while another target serves, where the server named no wait. It does not grow, and behind its end
   * one call at a time looks whether the target is back: it goes there first, and to the other one after its first failure.
   * A look at a silent target needs `RecoveryPolicy.hedge`, and an earlier answer of the target. Default: each further cooldown grows, and its end lets all
   * calls go there.
   */
  readonly looks?: Duration.Duration | undefined
}

/**
 * Reaction to a stream that fails after the consumer has seen text:
 *
 * - `continue`: the next attempt gets the partial answer and continues it
 * - `fail`: the call fails
 * - `restart`: the next attempt begins again and a `Rewind` takes the text back. The answer is continued instead
 *   where the consumer does not support that (`LanguageModel.streamText`), and when the output limit cut it
 *
 * An object is never continued. Where it cannot begin again, the call fails.
 */
export type MidStream = "continue" | "fail" | "restart"

/** Reaction to one class of failures. */
export interface Row {
  /**
   * Next move after the failure:
   *
   * - `retry`: repeat on the same target, then move on
   * - `move`: never repeat on the same target
   * - `grow`: make room (a lower output limit, compaction), then move to a target with a larger window
   * - `stop`: end the call, because the request would fail everywhere. A verdict that rests on words alone, without a
   *   code or a status that blames the request, still goes to one other model.
   */
  readonly then: "retry" | "move" | "grow" | "stop"
  /**
   * Attempts on one target in one call, including the first. With a retry budget that successes pay for, they end no
   * call whose target answers other calls: see `docs/internals/load.md`.
   */
  readonly attempts: number
  /**
   * Failures that use up `attempts`: `shared` counts failures of all classes on the target, `own` only this class.
   */
  readonly pool: "shared" | "own"
  /** Repeats on the same target before the call prefers an equivalent target that is ready. */
  readonly repeatsBeforeEquivalent: number
  /** Consecutive failures of this class on the target before the call leaves it, if there is another target. */
  readonly switchAfter: number | undefined
  /**
   * Target that the call moves to:
   *
   * - `next`: any target
   * - `other-model`: one of another model
   * - `other-dialect`: one of another wire format (`Dialect.format`) that is ready, or of another model if the error is
   *   about this one; the call does not wait for one
   * - a list: one of these models
   */
  readonly to: "next" | "other-model" | "other-dialect" | ReadonlyArray<string>
  /** Targets that may fail with this class before the call ends. Unlimited when `undefined`. */
  readonly targets?: number | undefined
  readonly backoff: Backoff.Backoff
  /** Effect of a wait that the server named on the delay before a repeat. */
  readonly retryAfter: Backoff.HintRule["retryAfter"]
  /** Cooldown that opens when the call leaves the target; `undefined` for none. */
  readonly cooldown: CooldownRule | undefined
  /** Circuit that counts the failure: the endpoint's or the model's. */
  readonly circuit: "endpoint" | "model" | undefined
  /** True when a call may wait for a target that is out for this failure. */
  readonly worthWaiting: boolean
  /** User message added to a repeat when the consumer has seen nothing of the failed answer. */
  readonly nudge: Nudge | undefined
  /** Overrides the policy's `midStream`. */
  readonly midStream: MidStream | undefined
}

export interface RecoveryPolicy<Class extends string = DefaultClass> {
  readonly classOf: (failure: ProviderFailure) => Class
  readonly rows: { readonly [C in Class]: Row }
  /** Maximum attempts of one call over all targets. */
  readonly maxAttempts: number
  /**
   * Maximum time of one call for waits and failed attempts together. The deadline never cuts an answer that is
   * streaming.
   */
  readonly deadline: Duration.Duration
  /** Longest wait that a call sleeps when a server names it. A longer one becomes a cooldown and a switch. */
  readonly maxWait: Duration.Duration
  /** Time spent on failures before a call prefers a different model to the one that failed. */
  readonly patience: Duration.Duration
  /** Longest wait named by a server that a call sleeps although an equivalent target is ready. */
  readonly shortWait: Duration.Duration
  /** Maximum share by which a wait that the server named is lengthened, drawn for each wait. 0 makes it exact. */
  readonly retryAfterJitter: number
  /** US dollars that the attempts of one call may cost before it makes no further one; unlimited when `undefined`. */
  readonly maxCost: number | undefined
  /**
   * Scope of the counts of repeats and their delays: `call` starts them anew in each call, `target` keeps them until
   * the target succeeds.
   */
  readonly counters: "call" | "target"
  /** Maximum compactions of one call, or of one call at each target: see `compactionsPer`. */
  readonly maxCompactions: number
  /**
   * Scope of `maxCompactions`: `target` counts anew when the call moves to another target. Default `call`.
   */
  readonly compactionsPer?: "call" | "target" | undefined
  /** The circuits of endpoints and models; `false`: none. */
  readonly circuits: CircuitBreaker.Options | false
  /** Time before the end of a cooldown when one call may probe the target; `false`: never. */
  readonly probe: ProbeRule | false
  /** Share of all calls that may be retries; `false`: unlimited. */
  readonly retryBudget: RetryBudgetState.RetryBudgetOptions | false
  /**
   * Reaction when no target is left:
   *
   * - `wait` for the one that is back first, within the deadline, if waiting can help
   * - `probe`: one call asks the one that is back first at once, the others wait
   * - `fail` at once
   */
  readonly whenAllOut: "wait" | "probe" | "fail"
  /**
   * True when a call may pass an open circuit if circuits leave it no target. One attempt per second and circuit may
   * pass, and its outcome counts as a probe's. Has no effect with `whenAllOut: "fail"`.
   */
  readonly lastResort: boolean
  /**
   * True when a call that has failed at each target waits before it returns to any of them, for longer each time. False:
   * it returns at once.
   */
  readonly sharedBackoff: boolean
  readonly midStream: MidStream
  /** Reaction to an answer that the output limit cut; `false`: it is delivered as it is. */
  readonly truncation: Truncation | false
  /** User messages that ask a model to continue. */
  readonly nudges: Nudges
  /** Texts that tell the user that another model answers. */
  readonly notices: Notices
  /** Texts that replace content which cannot be sent to a model. Default: `Wording.defaults`, in English. */
  readonly wording?: Wording | undefined
  readonly limits: Limits
  /** A second attempt for a call whose first token is late; `false`: none. */
  readonly hedge: Hedge | false
  /** Tokens that stay free where a provider refuses an output limit, because its window has no room for it. */
  readonly outputRoom: OutputRoom
  readonly pacing: Pacing
  /** Time between two `CallStillWaiting` events of a call that waits. Default: none are published. */
  readonly heartbeat?: Duration.Duration | undefined
}

/** The last part of a cooldown, in which a probe is allowed: `share` of its length, at most `atMost`. */
export interface ProbeRule {
  readonly share: number
  readonly atMost: Duration.Duration
}

/**
 * A second attempt for a call whose first token is late. It goes to the next ready target of another model or endpoint.
 * The first of the two that sends content answers the call, and the other one is aborted. There is never a third.
 *
 * Calls with tools that the provider runs are not hedged: such a tool could run twice.
 */
export interface Hedge {
  /**
   * Time without content after which the second attempt starts. A target that usually needs longer for a prompt of that
   * size gets longer. 10 seconds in `interactive`.
   */
  readonly after: Duration.Duration
  /** The same time for a call that looks whether a target is back: see `CooldownRule.looks`. 2 seconds. */
  readonly afterLook: Duration.Duration
  /** Largest share of all calls that may be hedged; looks do not count. 0.05. */
  readonly atMost: number
  /** Hedges that are allowed before calls have paid for them, and the most that are saved up. 3. */
  readonly reserve: number
  /** True to hedge calls to models that think, too. Their first token is late by nature. Default false. */
  readonly thinking?: boolean | undefined
}

/** Time limits of one attempt. Models that think before they answer get the limits named `…Reasoning`. */
export interface Limits {
  /**
   * Time until the connection is open. Node's `fetch` has its own limit of 10 seconds; a longer one needs another
   * `fetch`.
   */
  readonly connect: Duration.Duration
  readonly firstToken: Duration.Duration
  readonly firstTokenReasoning: Duration.Duration
  readonly idle: Duration.Duration
  readonly idleReasoning: Duration.Duration
  /** Time for a whole answer. A stream that the program reads has no such limit. */
  readonly total: Duration.Duration
  /** Speed below which a stream is abandoned; `undefined`: no minimum. */
  readonly slow: SlowStream | undefined
}

/** The output limit of a repeat is what the window leaves beside the input. Both as in Claude Code. */
export interface OutputRoom {
  /** Tokens between the input and the answer that stay free. 1,000 in the shipped policies. */
  readonly margin: number
  /** Tokens below which a repeat is not worth it. 3,000 in the shipped policies. */
  readonly least: number
}

/** Minimum speed of a stream: characters per second, averaged over `over` of waiting for the provider. */
export interface SlowStream {
  readonly charactersPerSecond: number
  readonly over: Duration.Duration
}

/**
 * How the calls of a chain share targets that fail. The values of the shipped policies are measured: `docs/internals/load.md` has
 * the situation that each is for.
 */
export interface Pacing {
  /**
   * Time for which an answer shows that its target works. Calls without retry budget wait that long for the next one.
   * 20 seconds in the shipped policies.
   */
  readonly worksFor: Duration.Duration
  /** Time that a call takes at least before it fails for an empty retry budget while no target answers. 15 seconds. */
  readonly hopesFor: Duration.Duration
  /** Time between two calls that go on without a token of the retry budget while a target answers. 2 seconds. */
  readonly releaseEvery: Duration.Duration
  /** Successes that are kept for waiting calls whose targets are out. 10. */
  readonly savedSuccesses: number
  /** Shortest wait for a cooldown once a call has waited `maxAttempts` times, so that it ends. 1 second. */
  readonly leastWait: Duration.Duration
  /** Mean time after which a waiting call looks again whether it may go on. 1 second. */
  readonly lookEvery: Duration.Duration
  /** Calls that must fail before a cooldown with the proof `several-calls` opens. 2. */
  readonly provenBy: number
  /**
   * Consecutive failures after which a target is no alternative to another one, as long as the last is younger than
   * `worksFor`. A provider with as many failures since its last answer is shown as down. 3.
   */
  readonly downAfter: number
  /** Time for which an answer shows that a key is valid: see `CooldownRule.trusted`. 1 hour. */
  readonly trustedFor: Duration.Duration
  /** Time after the end of a cooldown until the next one has its first length again. 24 hours, as in OpenClaw. */
  readonly forgetAfter: Duration.Duration
}
