/** The error of a call that a circuit refused. Nothing was sent, so nothing was charged. */
import { Data, Duration } from "effect"
import * as ErrorText from "../ErrorText.ts"
import * as Refusal from "../Refusal.ts"

/**
 * The reason for a refusal:
 *
 * - `open`: the circuit is open
 * - `half-open`: all its probes are in flight
 * - `isolated`: the circuit is held open by hand
 * - `recovering`: the circuit has just closed, and lets calls that waited through gradually
 * - `store`: the store of circuits cannot be reached
 */
export type Reason = "open" | "half-open" | "isolated" | "recovering" | "store"

export class CircuitRefused extends Data.TaggedError("CircuitRefused")<{
  readonly circuit: string
  readonly reason: Reason
  /** Exact time until a call is let through. Known only while the circuit is open. */
  readonly retryAfter: Duration.Duration | undefined
  /**
   * Short description of the last failure that the circuit counted in this process: the result of the breaker's
   * `describe`, by default the error's tag or name. Absent when another process opened the circuit.
   */
  readonly lastFailure?: string | undefined
}> {
  /** Marks the error as a refusal, so that an outer breaker does not count it. */
  readonly [Refusal.mark] = true
  /** A later call may be let through. */
  readonly isRetryable = true

  override get message(): string {
    const name = `Circuit \`${this.circuit}\``
    const after = this.lastFailure === undefined ? "" : ` (last failure: ${this.lastFailure})`
    switch (this.reason) {
      case "open": {
        const left = this.retryAfter === undefined ? "" : ` for another ${inWords(this.retryAfter)}`
        return `${name} is open${left}${after}. Wait, or call something else.`
      }
      case "half-open":
        return `${name} is half-open: its probes are in flight${after}. Retry when they have ended.`
      case "isolated":
        return `${name} is held open by hand${after}. Release it, or call something else.`
      case "recovering":
        return `${name} has just closed: calls that waited are let through gradually. Retry in a second.`
      case "store":
        return `${name} refused the call because its store cannot be reached (onStoreError: "fail"). Restore the store, or use "allow".`
    }
  }
}

ErrorText.printedOnce(CircuitRefused)

/** Formats a wait, rounded up: `540 ms`, `3.8 s`, `31 s`, `2m 5s`. */
export const inWords = (wait: Duration.Duration): string => {
  const millis = Math.ceil(Duration.toMillis(wait))
  if (millis < 1_000) return `${millis} ms`
  if (millis < 10_000) return `${Math.ceil(millis / 100) / 10} s`
  if (millis < 120_000) return `${Math.ceil(millis / 1_000)} s`
  return Duration.format(Duration.seconds(Math.ceil(millis / 1_000)))
}
