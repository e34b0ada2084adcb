/** What `Retry` publishes on `ResilienceEvents`: plain data. A call that succeeds at once publishes nothing. */
import { Metric } from "effect"
import type { EventDefinitions } from "../telemetry/EventDefinition.ts"
import { named } from "../telemetry/EventDefinition.ts"
import { textOf } from "../telemetry/Fields.ts"
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
    doc: "An attempt failed, or a circuit refused it; another follows after `delay`.",
    line: named(),
    // A refusal was no attempt, so what follows is no retry.
    metrics: [
      {
        metric: retries,
        names: { name },
        value: ({ because }) => (because === "refused" ? undefined : 1)
      }
    ]
  },
  RetrySucceeded: {
    doc: "A call succeeded after more than one attempt; a stream, when it has ended.",
    line: named(),
    metrics: []
  },
  RetriesExhausted: {
    doc: "A call failed for good. Not published for defects and interruptions.",
    line: named(),
    metrics: [{ metric: retriesExhausted, names: { name } }]
  }
}
