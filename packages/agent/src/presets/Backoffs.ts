/**
 * How long five known systems wait, between attempts and with an open circuit, as specifications of `Backoff`.
 *
 * Each follows its system's document; where the code differs, or the document is silent, it is said. How often they
 * repeat, and what a server's Retry-After does, is a matter of the policy and not of these.
 */
import { Backoff } from "@outlast/resilience"

/**
 * CodeBuddy: 1.5 s → 3 s → 6 s, exact.
 *
 * The document names no cap, because it repeats twice; here it is 5 minutes, which the ninth retry would reach.
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
 * The code adds jitter after the cap, so up to 36 s; the document says "capped at 30s", and that holds here. Its five
 * retries do not come near. The code's second formula for rate limits (2 s, cap 60 s, ±25 %) is not in the document.
 */
export const decision037: Backoff.Backoff = Backoff.exponential({
  initial: "1 second",
  factor: 2,
  cap: "30 seconds",
  jitter: 0.2
})

/** DECISION_037: a task is started again after 1, 2 and 4 minutes, exact. */
export const decision037Restart: Backoff.Backoff = Backoff.sequence(["1 minute", "2 minutes", "4 minutes"])

/**
 * learn-claude-code s11: `min(500 · 2^n, 32000)` ms and 0 to 25 % of it more, n from 0.
 *
 * The addition comes after the cap, in document and code: 500 to 625 ms at first, 32 to 40 s from the seventh retry on.
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
 * The code's jitter is decorrelated, with factor 2, and that is taken over. Its first wait is exactly 1 s; the document
 * wants every wait jittered, and so is the first one here.
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

/** nexo-rs: a circuit is open for 10 s, twice as long each time, at most 120 s, exact. */
export const nexoCircuit: Backoff.Backoff = Backoff.exponential({
  initial: "10 seconds",
  factor: 2,
  cap: "120 seconds",
  jitter: 0
})

/** claw0: the next key at once, without a wait. */
export const claw0: Backoff.Backoff = Backoff.constant(0)
