/**
 * The error of a call that a circuit did not let through. Nothing was sent, so nothing was paid.
 */
import { Data, Duration } from "effect"
import * as ErrorText from "../ErrorText.ts"
import * as Refusal from "../Refusal.ts"

/**
 * Why: the circuit is open, is testing with other calls, is held open by hand, has just closed and lets calls that
 * waited through gradually, or its store cannot be asked.
 */
export type Reason = "open" | "half-open" | "isolated" | "recovering" | "store"

export class CircuitRefused extends Data.TaggedError("CircuitRefused")<{
  readonly circuit: string
  readonly reason: Reason
  /** The exact time until a call is let through, where the circuit knows it: when it is open. */
  readonly retryAfter: Duration.Duration | undefined
  /**
   * The last failure that the circuit counted in this process, in a few words and without secrets: what `describe` of
   * the breaker said, by default the error's tag or name. Absent where another process opened the circuit.
   */
  readonly lastFailure?: string | undefined
}> {
  /** A breaker around this one does not count it. */
  readonly [Refusal.mark] = true
  /** Later, it may be let through. */
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
        return `${name} is half-open: its probes are under way${after}. Try again when they have ended.`
      case "isolated":
        return `${name} is held open by hand${after}. Release it, or call something else.`
      case "recovering":
        return `${name} has just closed: calls that waited are let through gradually. Try again in a second.`
      case "store":
        return `${name} cannot ask its store, and is set to refuse calls then (onStoreError: "fail").`
    }
  }
}

ErrorText.printedOnce(CircuitRefused)

/** A wait for people, never less than it is: `540 ms`, `3.8 s`, `31 s`, `2m 5s`. */
export const inWords = (wait: Duration.Duration): string => {
  const millis = Math.ceil(Duration.toMillis(wait))
  if (millis < 1_000) return `${millis} ms`
  if (millis < 10_000) return `${Math.ceil(millis / 100) / 10} s`
  if (millis < 120_000) return `${Math.ceil(millis / 1_000)} s`
  return Duration.format(Duration.seconds(Math.ceil(millis / 1_000)))
}
