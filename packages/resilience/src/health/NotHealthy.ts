/**
 * The errors of `ConnectionMonitor`, which exports them.
 *
 * {@link Unhealthy} and {@link SessionDead} are refusals: nothing was sent, and no circuit, monitor or alert counts
 * them. {@link ProbeError} means that a check could not run.
 */
import { Schema } from "effect"
import { inWords } from "../breaker/CircuitRefused.ts"
import * as Refusal from "../Refusal.ts"

/** Too many recent calls and pings have failed. Nothing was sent. */
export class Unhealthy extends Schema.TaggedError<Unhealthy>("@outlast/resilience/health/Unhealthy")(
  "Unhealthy",
  {
    connection: Schema.String,
    /** From 0 to 1. */
    failureRate: Schema.Finite,
    /** Time after which a call may be let through. */
    retryAfter: Schema.Duration
  }
) {
  readonly [Refusal.mark] = true

  override get message(): string {
    const share = `${Math.round(this.failureRate * 100)} % of the last calls failed`
    return `${this.connection} is unhealthy: ${share}. Retry after ${inWords(this.retryAfter)}.`
  }
  get isRetryable(): boolean {
    return true
  }
}

/** The session is dead. Nothing was sent, and nothing will be sent until it is registered again. */
export class SessionDead extends Schema.TaggedError<SessionDead>("@outlast/resilience/health/SessionDead")(
  "SessionDead",
  {
    connection: Schema.String,
    /** Either `probe`, or the reason given to `died`. */
    reason: Schema.String
  }
) {
  readonly [Refusal.mark] = true

  override get message(): string {
    return `${this.connection} is dead (${this.reason}). Start a new one and register it.`
  }
  get isRetryable(): boolean {
    return false
  }
}

/**
 * A ping or a probe could not run, so the state of the connection is unknown. `reason` is published: it must not
 * contain secrets.
 */
export class ProbeError extends Schema.TaggedError<ProbeError>("@outlast/resilience/health/ProbeError")(
  "ProbeError",
  {
    reason: Schema.String
  }
) {
  override get message(): string {
    return `The probe could not run: ${this.reason}`
  }
}

/** The error of a refused call. */
export type NotHealthy = Unhealthy | SessionDead
