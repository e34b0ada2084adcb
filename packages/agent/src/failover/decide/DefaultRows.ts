/**
 * The rows of the default policies: one table with the reaction to each class of failure.
 *
 * A class without a row, or a reason without a class, does not compile.
 */
import { Duration } from "effect"
import { Backoff } from "@outlast/resilience"
import type { RateLimit } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import * as Kind from "../../options/Kind.ts"
import * as PolicyChecks from "./PolicyChecks.ts"
import type { CooldownRule, DefaultClass, Row, Scope } from "./PolicyModel.ts"

/** Returns the class of a failure in the default policies. */
export const classOf = (failure: ProviderFailure): DefaultClass => {
  const reason = failure.reason
  switch (reason._tag) {
    case "Auth":
      return reason.permanent ? "AuthPermanent" : "Auth"
    case "Format":
      if (reason.outputLimit !== undefined) return "OutputTooLong"
      return reason.side === "request" ? "FormatRequest" : "FormatResponse"
    case "RateLimit":
      if (!reason.liftable) return "RateLimitTooLarge"
      return isLong(reason.window) && failure.retryAfter === undefined ? "RateLimitWindow" : "RateLimit"
    case "Timeout":
      // A connection that is not accepted is a problem of the endpoint, no matter which side gave up first.
      if (reason.phase === "connect") return "TimeoutConnect"
      // A slow answer may just be long. Silence is a problem of the model.
      return reason.local && reason.phase === "total" && reason.silent !== true ? "TimeoutLocal" : "Timeout"
    default:
      return reason._tag
  }
}

/** A limit that is renewed after an hour or later. */
const isLong = (window: RateLimit["window"]): boolean => window !== undefined && window !== "minute"

const backoff = (cap: Duration.Input) => Backoff.exponential({ initial: "1 second", factor: 2, cap })

/** Cooldown of a target after an unknown failure. Also the maximum for a verdict that rests on words alone. */
const unknownCooldown: Duration.Duration = Duration.seconds(30)

const isWide = (scope: Scope): boolean => scope === "model" || scope === "endpoint"

const cooldown = (
  scope: Scope,
  initial: Duration.Input | "forever",
  cap: Duration.Input = initial === "forever" ? Duration.infinity : initial,
  retryAfter: CooldownRule["retryAfter"] = isWide(scope) ? "wins" : "minimum"
): CooldownRule => ({
  scope,
  // A scope wider than a key also keeps other calls out. One call's bad luck must not close it.
  proof: isWide(scope) ? "several-calls" : "one-call",
  initial: initial === "forever" ? initial : Duration.fromInputUnsafe(initial),
  factor: 2,
  cap: Duration.fromInputUnsafe(cap),
  retryAfter,
  byWords: unknownCooldown
})

/**
 * First cooldown where the server named no wait. It is a guess from a few failures, so it is short, and doubles until a
 * success. A time limit that passed is better evidence: where calls do not look at the target, its cooldown is longer.
 */
const firstCooldown: Duration.Input = "10 seconds"

/** A cooldown of a failure that passes by itself. */
const passing = (...args: Parameters<typeof cooldown>): CooldownRule => ({
  ...cooldown(...args),
  looks: Duration.fromInputUnsafe(firstCooldown)
})

/** The base for rows of your own policies: one attempt, then the next target, no cooldown. */
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

/** A cooldown of constant length for your own policies. Waits that the server names are ignored. */
export const steady = (scope: Scope, length: Duration.Input): CooldownRule => {
  PolicyChecks.scope("RecoveryPolicy.steady", "scope", scope)
  Kind.duration()("RecoveryPolicy.steady", "length", length)
  const initial = Duration.fromInputUnsafe(length)
  return { scope, initial, factor: 1, cap: initial, retryAfter: "ignored" }
}

const stop: Row = { ...base, then: "stop" }

/** A timed-out attempt has used its whole limit already. An equivalent target is asked before a repeat. */
const timeout: Row = { ...base, attempts: 5, repeatsBeforeEquivalent: 0, worthWaiting: true }

/** The reaction of the default policies to each class. `docs/lookup/failures.md` shows it as a table. */
export const rows: { readonly [C in DefaultClass]: Row } = {
  RateLimit: {
    ...base,
    attempts: 5,
    repeatsBeforeEquivalent: 0,
    backoff: backoff("60 seconds"),
    cooldown: cooldown("key+model", firstCooldown, "5 minutes", "not-before"),
    worthWaiting: true
  },
  // A single request is larger than the limit, so waiting cannot help. Another account or model may accept it.
  RateLimitTooLarge: { ...base, then: "move" },
  // A quota by hour, day, week or month of which the server does not say when it is renewed.
  RateLimitWindow: {
    ...base,
    then: "move",
    cooldown: cooldown("key+model", "1 hour", "24 hours"),
    worthWaiting: true
  },
  Overloaded: {
    ...base,
    attempts: 5,
    cooldown: passing("model", firstCooldown, "10 minutes"),
    circuit: "model",
    worthWaiting: true
  },
  ServerError: {
    ...base,
    attempts: 5,
    cooldown: passing("model", firstCooldown, "5 minutes"),
    circuit: "endpoint",
    worthWaiting: true
  },
  Timeout: { ...timeout, cooldown: passing("model", "30 seconds", "5 minutes"), circuit: "endpoint" },
  TimeoutConnect: {
    ...timeout,
    cooldown: passing("endpoint", "30 seconds", "5 minutes"),
    circuit: "endpoint"
  },
  TimeoutLocal: timeout,
  Network: {
    ...base,
    attempts: 5,
    cooldown: passing("endpoint", firstCooldown, "5 minutes"),
    circuit: "endpoint",
    worthWaiting: true
  },
  PermanentNetwork: {
    ...base,
    then: "move",
    // This failure is not transient, so one call is enough as proof.
    cooldown: { ...cooldown("endpoint", "10 minutes"), proof: "one-call", retryAfter: "minimum" },
    circuit: "endpoint"
  },
  // Identity services fail for seconds: a key that has worked is not dead at once.
  Auth: {
    ...base,
    then: "move",
    cooldown: { ...cooldown("key", "10 minutes", "1 hour"), trusted: Duration.seconds(10) }
  },
  AuthPermanent: { ...base, then: "move", cooldown: cooldown("key", "forever") },
  Billing: { ...base, then: "move", cooldown: cooldown("key", "30 minutes", "1 hour") },
  ModelNotFound: {
    ...base,
    then: "move",
    cooldown: { ...cooldown("model", "1 hour"), proof: "one-call", retryAfter: "minimum" }
  },
  ContextOverflow: { ...base, then: "grow" },
  // Two bad samples in a row are not rare, and each repeat has the reason in its nudge. A pool of its own: a failure of
  // a gateway before does not take these repeats.
  FormatResponse: { ...base, attempts: 3, pool: "own" },
  // A server with another wire format may accept a request that this one calls malformed.
  FormatRequest: { ...base, then: "move", to: "other-dialect", targets: 2 },
  // The same request is accepted with the limit that the provider named.
  OutputTooLong: { ...base, then: "grow" },
  ContentPolicy: stop,
  Cancelled: stop,
  Unknown: { ...base, attempts: 2, cooldown: cooldown("model", unknownCooldown) }
}
