/**
 * DECISION_037, "subagent fallback system hardening". A network failure is retried on the same model; an error of
 * the provider moves to the next model at once.
 *
 * Retries are counted for each target over all calls, until it succeeds. A target whose five retries are used up is
 * asked once by each further call, and then skipped.
 *
 * Its connection check before each attempt is `Failover.Options.isHealthy`: an attempt waits until the check is
 * true.
 *
 * **Differences** from the document, and how it is interpreted:
 *
 * - In its sketch only rate limits count for the circuit; in the code only network failures do. The document wins:
 *   all five retries of a network failure take place, and the circuit rejects the fifth retry of a rate limit.
 * - The document waits before that fifth retry, and then rejects it. Here it is rejected at once.
 * - In the sketch a failure that is final for one model is thrown to the surrounding fallback loop: a call whose
 *   retries are used up moves to the next model. Permanent network failures and logic errors stop, as in the
 *   document; the code continues with the next model.
 * - A conversation that is still too long after one compaction moves only to a target with a larger window.
 * - If one connection is unhealthy and another target's is healthy, that target is asked instead of waiting.
 * - Retry-After is ignored, as in the document.
 *
 * The document has no deadline for a call. Here the deadline is half an hour, as in `RecoveryPolicy.background`.
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

/**
 * A circuit for each endpoint. Opens after five consecutive failures, which may all belong to one call, for five
 * minutes. One success closes it.
 */
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
    // A call waits for an unhealthy connection, but not for an open circuit.
    NetworkTransient: { ...transient, worthWaiting: true },
    NetworkPermanent: { ...base, then: "stop" },
    ProviderRateLimit: { ...transient, circuit: "endpoint" },
    ProviderError: { ...base, then: "move" },
    LogicError: { ...base, then: "stop" },
    ContextLength: { ...base, then: "grow" }
  },
  // Enough for five models.
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
