/**
 * The error of a call that a circuit did not let through. Nothing was sent, so nothing was paid.
 */
import { Data, Duration } from "effect"
import * as ErrorText from "../ErrorText.ts"
import * as Refusal from "../Refusal.ts"

/** Why: the circuit is open, is testing with other calls, is held open by hand, or its store cannot be asked. */
export type Reason = "open" | "half-open" | "isolated" | "store"

export class CircuitRefused extends Data.TaggedError("CircuitRefused")<{
  readonly circuit: string
  readonly reason: Reason
  /** The exact time until a call is let through, where the circuit knows it: when it is open. */
  readonly retryAfter: Duration.Duration | undefined
}> {
  /** A breaker around this one does not count it. */
  readonly [Refusal.mark] = true
  /** Later, it may be let through. */
  readonly isRetryable = true

  override get message(): string {
    const name = `Circuit "${this.circuit}"`
    switch (this.reason) {
      case "open":
        return `${name} is open${this.retryAfter === undefined ? "" : `: the next call is let through in ${Duration.format(this.retryAfter)}`}.`
      case "half-open":
        return `${name} is half-open: its probes are under way. Try again when they have ended.`
      case "isolated":
        return `${name} is held open by hand, until it is released.`
      case "store":
        return `${name} cannot ask its store, and is set to refuse calls then (onStoreError: "fail").`
    }
  }
}

ErrorText.printedOnce(CircuitRefused)
