/** What `Retry` publishes on `ResilienceEvents`: plain data. A call that succeeds at once publishes nothing. */
import type { ResilienceEvent } from "../telemetry/ResilienceEvents.ts"

/** Why a call makes no further attempt. */
export type Stopped =
  /** The failure is not one that passes. */
  | "not-retryable"
  /** The attempts are used up, of the call or of the failure's class. */
  | "attempts"
  /** The next attempt would not begin before the deadline. */
  | "deadline"
  /** The server wants to be left alone for longer than a call may wait. */
  | "retry-after"
  /** The process has made its share of retries. */
  | "budget"
  /** A circuit did not let the call through. */
  | "refused"
  /** A stream had already given something to its consumer. */
  | "started"

/** An attempt failed, or was refused; another follows after `delay`. */
export interface Retrying extends ResilienceEvent {
  readonly _tag: "Retrying"
  readonly name?: string | undefined
  /** Attempts made so far. */
  readonly attempt: number
  /** Milliseconds. */
  readonly delay: number
  /** Of the failure, as `classify` said. */
  readonly class?: string | undefined
  readonly because: "failed" | "refused"
}

/** A call succeeded after more than one attempt; a stream, when it has ended. */
export interface RetrySucceeded extends ResilienceEvent {
  readonly _tag: "RetrySucceeded"
  readonly name?: string | undefined
  readonly attempts: number
}

/** A call failed for good. Not published for defects and interruptions. */
export interface RetriesExhausted extends ResilienceEvent {
  readonly _tag: "RetriesExhausted"
  readonly name?: string | undefined
  readonly attempts: number
  readonly stopped: Stopped
}

export type RetryEvent = Retrying | RetrySucceeded | RetriesExhausted
