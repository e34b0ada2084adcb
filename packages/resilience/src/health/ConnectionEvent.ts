/**
 * What happens to connections: this module's part of the resilience events.
 *
 * `connection` is the name under which it is watched. Of errors only the tag or the class is told, never the
 * message: that is the user's, and may hold what must not be printed.
 */
import { Metric } from "effect"
import type { EventDefinitions } from "../telemetry/EventDefinition.ts"
import { named } from "../telemetry/EventDefinition.ts"
import { textOf } from "../telemetry/Fields.ts"

interface OfConnection {
  /** Unix time in milliseconds. */
  readonly at: number
  readonly connection: string
}

export interface HealthChanged extends OfConnection {
  readonly _tag: "HealthChanged"
  readonly from: "healthy" | "unhealthy"
  readonly to: "healthy" | "unhealthy"
  /** Outcomes in the window, and the share of failures among them, from 0 to 1. */
  readonly outcomes: number
  readonly failureRate: number
}

export interface SessionDied extends OfConnection {
  readonly _tag: "SessionDied"
  /** `probe`, or what the program said. */
  readonly reason: string
}

export interface ConnectionFailure extends OfConnection {
  readonly _tag: "ConnectionFailure"
  /** The tag or the class of the error, where it is known: `record` is not told. */
  readonly error?: string | undefined
}

export interface PingFailed extends OfConnection {
  readonly _tag: "PingFailed"
  /** The tag or the class of the error, or `timeout`. */
  readonly error: string
  /** Milliseconds. */
  readonly latency: number
}

export interface PingUnavailable extends OfConnection {
  readonly _tag: "PingUnavailable"
  readonly mechanism: "ping" | "probe"
  /** What the `ProbeError` says, or `defect`, `interrupted`, `timeout`. */
  readonly reason: string
}

export type ConnectionEvent = HealthChanged | SessionDied | ConnectionFailure | PingFailed | PingUnavailable

// -----------------------------------------------------------------------------
// Definitions
// -----------------------------------------------------------------------------

export const connectionState = Metric.gauge("outlast_connection_state", {
  description: "0 healthy, 1 unhealthy, 2 dead"
})

/** The values of `outlast_connection_state`. */
export const connectionStates: ReadonlyMap<string, number> = new Map([
  ["healthy", 0],
  ["unhealthy", 1],
  ["dead", 2]
])

/** Reads the fields of any event with the tag: the stream of events is open. */
const stateIn = (event: ConnectionEvent, state: string) =>
  textOf(event, "connection") === undefined ? undefined : connectionStates.get(state)

const names = { connection: (event: ConnectionEvent) => textOf(event, "connection") }

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinitions<ConnectionEvent> = {
  HealthChanged: {
    doc: "The health of a connection changed: once for each change. An unknown connection counts as healthy.",
    line: named(),
    metrics: [{ metric: connectionState, names, value: (event) => stateIn(event, event.to) }]
  },
  SessionDied: {
    doc: "A session ended for good: at most once for each registration.",
    line: named(),
    metrics: [{ metric: connectionState, names, value: (event) => stateIn(event, "dead") }]
  },
  ConnectionFailure: {
    doc: "A call failed, as far as this connection is concerned: an outcome that `guard` or `record` took in. A call over several connections publishes one for each.",
    line: named(),
    metrics: []
  },
  PingFailed: {
    doc: "A ping ended with a failure, or not within its time: an outcome.",
    line: named(),
    metrics: []
  },
  PingUnavailable: {
    doc: "A ping or a probe could not be made. It is no outcome: health stays as it was.",
    line: named(),
    metrics: []
  }
}
