/** Events that `Retry` publishes on `ResilienceEvents`. Plain data. A call that succeeds at once publishes nothing. */
import type { ResilienceEvent } from "../telemetry/ResilienceEvents.ts"

/** The reason for making no further attempt. */
export type Stopped =
  /** The failure is not retryable. */
  | "not-retryable"
  /** The attempt limit is reached, of the call or of the failure's class. */
  | "attempts"
  /** The next attempt would start after the deadline. */
  | "deadline"
  /** The server requested a longer wait than `maxRetryAfter`. */
  | "retry-after"
  /** The retry budget of the process is empty. */
  | "budget"
  /** A circuit refused the call. */
  | "refused"
  /** The stream had already emitted an element. */
  | "started"

/** An attempt failed or was refused. Another follows after `delay`. */
export interface Retrying extends ResilienceEvent {
  readonly _tag: "Retrying"
  readonly name?: string | undefined
  /** Number of attempts made so far. */
  readonly attempt: number
  /** Milliseconds. */
  readonly delay: number
  /** Class of the failure, as returned by `classify`. */
  readonly class?: string | undefined
  readonly because: "failed" | "refused"
}

/** A call succeeded after more than one attempt. For a stream: published at its end. */
export interface RetrySucceeded extends ResilienceEvent {
  readonly _tag: "RetrySucceeded"
  readonly name?: string | undefined
  readonly attempts: number
}

/** A call failed and is not retried any more. Not published for defects and interruptions. */
export interface RetriesExhausted extends ResilienceEvent {
  readonly _tag: "RetriesExhausted"
  readonly name?: string | undefined
  readonly attempts: number
  readonly stopped: Stopped
}

export type RetryEvent = Retrying | RetrySucceeded | RetriesExhausted
