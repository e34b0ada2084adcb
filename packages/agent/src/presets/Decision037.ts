/**
 * DECISION_037, "subagent fallback system hardening": the network is retried on the same model, a provider's error
 * moves to the next one at once.
 *
 * Retries are counted for each target until it succeeds, over all calls: a target whose five are used up is asked
 * once by each further call, and left.
 *
 * Its connection check before each attempt is `Failover.Options.isHealthy`: an attempt waits until it answers true.
 *
 * **Where it differs** from the document, and how the document is read:
 *
 * - In its sketch only rate limits count for the circuit, in the code only network failures. The document wins: so
 *   the five retries of a network failure all take place, and of a rate limit the fifth is refused by the circuit.
 * - There the wait before that retry is slept, and then refused. Here it is refused at once.
 * - What has failed for good on one model is thrown to the fallback loop around the sketch: with its retries used up
 *   a call moves to the next model. Permanent network failures and logic errors stop, as the document has it; the
 *   code goes on with the next model.
 * - A conversation that is still too long after one compaction moves only to a target whose window is larger.
 * - Where a connection is not healthy and another target's is, that one is asked instead of waiting.
 * - Retry-After is not read, as there.
 *
 * The document has no deadline for a call; here it is half an hour, as for `RecoveryPolicy.background`.
 */
import { Duration } from "effect"
import { Backoff } from "@outlast/resilience"
import type { CircuitBreaker } from "@outlast/resilience"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { background, base } from "../failover/decide/RecoveryPolicy.ts"
import * as Backoffs from "./Backoffs.ts"
import type { Decision037Class } from "./Vocabulary.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** The six classes of the document. */
export type Class = Decision037Class

/** Per endpoint: opens at the fifth consecutive failure, whichever calls they are of, for five minutes; one success closes it. */
export const circuits = {
  trip: { consecutive: { failures: 5, distinctCalls: 1 } },
  halfOpen: { successes: 1 },
  open: Backoff.constant("5 minutes"),
  maxRetryAfter: 0
} satisfies CircuitBreaker.Options

const retries = 5

const transient: Row = {
  ...base,
  attempts: 1 + retries,
  repeatsBeforeEquivalent: retries,
  backoff: Backoffs.decision037,
  retryAfter: "ignored"
}

const deadline = Duration.minutes(30)

export const policy: RecoveryPolicy<Class> = {
  ...background,
  classOf: ({ reason }) => Vocabulary.decision037(reason),
  rows: {
    // Worth waiting for: a connection that is not healthy. An open circuit is not.
    NetworkTransient: { ...transient, worthWaiting: true },
    NetworkPermanent: { ...base, then: "stop" },
    ProviderRateLimit: { ...transient, circuit: "endpoint" },
    ProviderError: { ...base, then: "move" },
    LogicError: { ...base, then: "stop" },
    ContextLength: { ...base, then: "grow" }
  },
  // For five models.
  maxAttempts: 5 * (1 + retries),
  deadline,
  patience: deadline,
  counters: "target",
  maxCompactions: 1,
  circuits,
  breaker: "inside",
  probe: false,
  retryBudget: false,
  lastResort: false,
  truncation: false
}
