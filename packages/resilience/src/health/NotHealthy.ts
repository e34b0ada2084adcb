/**
 * The errors of connections: why a call was refused, and that a question could not be asked.
 *
 * Of the first two nothing was sent, so they are refusals: no circuit, monitor or alert counts them. They are
 * what `ConnectionMonitor` fails with, and are exported from there.
 */
import { Duration, Schema } from "effect"
import * as Refusal from "../Refusal.ts"

/** Too many calls and pings have failed lately. Nothing was sent. */
export class Unhealthy extends Schema.TaggedError<Unhealthy>("@outlast/resilience/health/Unhealthy")(
  "Unhealthy",
  {
    connection: Schema.String,
    /** From 0 to 1. */
    failureRate: Schema.Finite,
    /** After this a call may be let through. */
    retryAfter: Schema.Duration
  }
) {
  readonly [Refusal.mark] = true

  override get message(): string {
    const share = `${Math.round(this.failureRate * 100)} % of the last calls failed`
    return `${this.connection} is unhealthy: ${share}. Come back in ${Duration.format(this.retryAfter)}.`
  }
  get isRetryable(): boolean {
    return true
  }
}

/** The session is gone. Nothing was sent, and nothing will be until it is registered again. */
export class SessionDead extends Schema.TaggedError<SessionDead>("@outlast/resilience/health/SessionDead")(
  "SessionDead",
  {
    connection: Schema.String,
    /** `probe`, or what the program said. */
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

/** A ping or a probe could not be made; it says nothing about the connection. `reason` is published: no secrets. */
export class ProbeError extends Schema.TaggedError<ProbeError>("@outlast/resilience/health/ProbeError")(
  "ProbeError",
  {
    reason: Schema.String
  }
) {
  override get message(): string {
    return `The probe could not be made: ${this.reason}`
  }
}

/** Why a call was refused. */
export type NotHealthy = Unhealthy | SessionDead
