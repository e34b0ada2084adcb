/**
 * Waits of five known systems, between attempts and while a circuit is open, as specifications of `Backoff`.
 *
 * Each follows its system's document. Comments note where the code differs or the document has a gap. The number of
 * retries and the effect of Retry-After belong to the policy.
 */
import { Backoff } from "@outlast/resilience"

/**
 * CodeBuddy: 1.5 s → 3 s → 6 s, without jitter.
 *
 * The document has no cap, because it retries twice. Here the cap is 5 minutes, which the ninth retry would reach.
 */
export const codebuddy: Backoff.Backoff = Backoff.exponential({
  initial: "1500 millis",
  factor: 2,
  cap: "5 minutes",
  jitter: 0
})

/**
 * DECISION_037: 1, 2, 4, 8, 16 s, at most 30 s, ±20 %.
 *
 * The code adds jitter after the cap, which gives up to 36 s. The document says "capped at 30s", and that applies
 * here. Its five retries stay below the cap. The code's second formula for rate limits (2 s, cap 60 s, ±25 %) is
 * not in the document.
 */
export const decision037: Backoff.Backoff = Backoff.exponential({
  initial: "1 second",
  factor: 2,
  cap: "30 seconds",
  jitter: 0.2
})

/** DECISION_037: a task is restarted after 1, 2 and 4 minutes, without jitter. */
export const decision037Restart: Backoff.Backoff = Backoff.sequence(["1 minute", "2 minutes", "4 minutes"])

/**
 * learn-claude-code s11: `min(500 · 2^n, 32000)` ms plus 0 to 25 % of it, with n from 0.
 *
 * The jitter is added after the cap, in the document and in the code: 500 to 625 ms at first, 32 to 40 s from the
 * seventh retry on.
 */
export const s11: Backoff.Backoff = Backoff.exponential({
  initial: "500 millis",
  factor: 2,
  cap: "32 seconds",
  jitter: { below: 0, above: 0.25, beyondCap: true }
})

/**
 * nexo-rs: "1 s → 60 s, jittered exponential" for rate limits.
 *
 * The jitter is decorrelated with factor 2, as in the code. The code's first wait is exactly 1 s. The document
 * wants every wait jittered, so the first one is jittered here.
 */
export const nexoRateLimit: Backoff.Backoff = Backoff.exponential({
  initial: "1 second",
  factor: 2,
  cap: "60 seconds",
  jitter: "decorrelated"
})

/** nexo-rs: "1 s → 30 s, jittered exponential" for server errors. The code uses the cap of rate limits, 60 s. */
export const nexoServerError: Backoff.Backoff = Backoff.exponential({
  initial: "1 second",
  factor: 2,
  cap: "30 seconds",
  jitter: "decorrelated"
})

/** nexo-rs: an extension that died is started again after 1 s, twice as long each time, at most 16 s, without jitter. */
export const nexoProcess: Backoff.Backoff = Backoff.exponential({
  initial: "1 second",
  factor: 2,
  cap: "16 seconds",
  jitter: 0
})

/** nexo-rs: a circuit is open for 10 s, twice as long each time, at most 120 s, without jitter. */
export const nexoCircuit: Backoff.Backoff = Backoff.exponential({
  initial: "10 seconds",
  factor: 2,
  cap: "120 seconds",
  jitter: 0
})

/** claw0: the next key is used at once, without a wait. */
export const claw0: Backoff.Backoff = Backoff.constant(0)
