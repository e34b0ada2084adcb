/** Events that `Retry` publishes on `ResilienceEvents`. Plain data. A call that succeeds at once publishes nothing. */
import { Metric } from "effect"
import type { EventDefinitions } from "../telemetry/EventDefinition.ts"
import { named } from "../telemetry/EventDefinition.ts"
import { textOf } from "../telemetry/Fields.ts"
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

export interface Retrying extends ResilienceEvent {
  readonly _tag: "Retrying"
  readonly name?: string | undefined
  /** Number of attempts made so far. */
  readonly attempt: number
  /** Milliseconds. */
  readonly delay: number
  /** Class of the failure, as returned by `classify`. */
  readonly class?: string | undefined
  /** The wait that the server requested, in milliseconds. */
  readonly retryAfter?: number | undefined
  readonly because: "failed" | "refused"
}

export interface RetrySucceeded extends ResilienceEvent {
  readonly _tag: "RetrySucceeded"
  readonly name?: string | undefined
  readonly attempts: number
}

export interface RetriesExhausted extends ResilienceEvent {
  readonly _tag: "RetriesExhausted"
  readonly name?: string | undefined
  readonly attempts: number
  readonly stopped: Stopped
}

export type RetryEvent = Retrying | RetrySucceeded | RetriesExhausted

export const retries = Metric.counter("outlast_retries_total", {
  description: "Attempts after the first",
  incremental: true
})

export const retriesExhausted = Metric.counter("outlast_retries_exhausted_total", {
  description: "Calls that failed after their last attempt",
  incremental: true
})

// Labels read the fields of any event with the tag: the stream of events is open.
const name = (event: RetryEvent): string | undefined => textOf(event, "name")

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinitions<RetryEvent> = {
  Retrying: {
    doc: "An attempt failed or was refused. Another follows after `delay`.",
    line: (event) => ({
      ...named("Warn")(event),
      detail:
        event.because === "refused"
          ? ": a circuit refused the call"
          : `: attempt ${event.attempt} failed${event.class === undefined ? "" : ` (${event.class})`}`
    }),
    // A refusal by a circuit is not an attempt, so the wait after it is not a retry.
    metrics: [
      {
        metric: retries,
        names: { name },
        value: ({ because }) => (because === "refused" ? undefined : 1)
      }
    ]
  },
  RetrySucceeded: {
    doc: "A call succeeded after more than one attempt. For a stream: published at its end.",
    line: named(),
    metrics: []
  },
  RetriesExhausted: {
    doc: "A call failed and is not retried any more. Not published for defects and interruptions.",
    line: (event) => ({
      ...named("Warn")(event),
      detail: `: ${event.stopped}, after ${event.attempts === 1 ? "1 attempt" : `${event.attempts} attempts`}`
    }),
    metrics: [{ metric: retriesExhausted, names: { name } }]
  }
}
