/**
 * nexo-rs' "fault tolerance", the part about calls: rate limits five attempts, server errors three, any other 4xx
 * fails fast; a circuit for each provider below the retries.
 *
 * **Where it differs** from the document, and how the document is read:
 *
 * - Retries live above the circuit, so each attempt passes it (`breaker: "inside"`). In the code it is the other way
 *   round.
 * - A circuit counts server errors and the network. The document calls rate limits and its like "failures that don't
 *   warrant flipping the breaker": of these a rate limit never does, the others only in a row. The code counts all.
 * - "Network blips" are retried, as the document has it and the code has not. It names no numbers for them; here they
 *   are those of server errors.
 * - A rate limit is waited out for as long as the server says, or for the backoff where that is longer, but never
 *   more than 60 s: that fails, and tells when.
 * - A half-open circuit lets one call through at a time, where the code lets through all.
 * - nexo-rs knows one target. In a chain of several a call moves to the next one when its attempts are used up, or
 *   when the circuit is open.
 *
 * The document has no deadline for a call; here it is half an hour. `circuits` and `circuitsOf` are also there for a
 * breaker of your own, which has `trip` and `reset`.
 *
 * **Example** (An operator's hand on the circuits)
 *
 * ```ts
 * const { policy, circuits, circuitsOf } = Presets.nexo
 * const breaker = yield* CircuitBreaker.make(circuits)
 * const Model = Failover.layer(chain, { policy, circuitsOf, breaker })
 * yield* breaker.reset("anthropic")
 * ```
 */
import { Duration } from "effect"
import type { CircuitBreaker } from "@outlast/resilience"
import type { Circuits } from "../failover/chain/Permits.ts"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { base, interactive } from "../failover/decide/RecoveryPolicy.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../conversation/TargetRef.ts"
import * as Backoffs from "./Backoffs.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** What the document's table of retries tells apart. */
export type Class = "rate_limit" | "server_error" | "network" | "not_retryable"

const classOf = ({ reason }: ProviderFailure): Class => {
  if (Vocabulary.nexo(reason) === "not_retryable") return "not_retryable"
  switch (reason._tag) {
    case "RateLimit":
      return "rate_limit"
    case "Network":
    case "Timeout":
      return "network"
    default:
      return "server_error"
  }
}

/** Opens at the fifth consecutive failure, whichever calls they are of, for 10 s, each time twice as long, at most 120 s; two successes close it. */
export const circuits = {
  trip: { consecutive: { failures: 5, distinctCalls: 1 } },
  halfOpen: { successes: 2 },
  open: Backoffs.nexoCircuit,
  maxRetryAfter: 0
} satisfies CircuitBreaker.Options

/** One circuit for each provider, under the provider's name, whatever its endpoints. */
export const circuitsOf = ({ provider, model }: TargetRef): Circuits => ({
  endpoint: provider,
  model: `${model}@${provider}`
})

const failing: Row = {
  ...base,
  attempts: 3,
  repeatsBeforeEquivalent: 2,
  backoff: Backoffs.nexoServerError,
  // The document speaks of it for rate limits only.
  retryAfter: "ignored",
  circuit: "endpoint"
}

const deadline = Duration.minutes(30)

export const policy: RecoveryPolicy<Class> = {
  ...interactive,
  classOf,
  rows: {
    rate_limit: { ...base, attempts: 5, repeatsBeforeEquivalent: 4, backoff: Backoffs.nexoRateLimit },
    server_error: failing,
    network: failing,
    not_retryable: { ...base, then: "stop" }
  },
  deadline,
  patience: deadline,
  retryAfterJitter: 0,
  circuits,
  breaker: "inside",
  probe: false,
  retryBudget: false,
  lastResort: false,
  truncation: false
}
