/**
 * Events that `ConnectionMonitor` publishes on `ResilienceEvents`.
 *
 * `connection` is the name of the connection. Events contain the tag or the class of an error, never the message, which
 * may hold secrets.
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
  /** Number of outcomes in the window. */
  readonly outcomes: number
  readonly failureRate: number
}

export interface SessionDied extends OfConnection {
  readonly _tag: "SessionDied"
  /** Either `probe`, or the reason given to `died`. */
  readonly reason: string
}

export interface ConnectionFailure extends OfConnection {
  readonly _tag: "ConnectionFailure"
  /** The tag or the class of the error. Absent for `record`, which gets no error. */
  readonly error?: string | undefined
}

export interface PingFailed extends OfConnection {
  readonly _tag: "PingFailed"
  /** The tag or the class of the error, or `timeout`. */
  readonly error: string
  /** Duration of the ping in milliseconds. */
  readonly latency: number
}

export interface PingUnavailable extends OfConnection {
  readonly _tag: "PingUnavailable"
  readonly mechanism: "ping" | "probe"
  /** The reason of the `ProbeError`, or `defect`, `interrupted` or `timeout`. */
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
    doc: "The health of a connection changed. An unknown connection counts as healthy.",
    line: named(),
    metrics: [{ metric: connectionState, names, value: (event) => stateIn(event, event.to) }]
  },
  SessionDied: {
    doc: "A session died. Published at most once for each registration.",
    line: named(),
    metrics: [{ metric: connectionState, names, value: (event) => stateIn(event, "dead") }]
  },
  ConnectionFailure: {
    doc: "A call failed. Published for each failure that `guard` or `record` counts, once for each connection of the call.",
    line: named(),
    metrics: []
  },
  PingFailed: {
    doc: "A ping failed, or exceeded its time limit. Counts as an outcome.",
    line: named(),
    metrics: []
  },
  PingUnavailable: {
    doc: "A ping or a probe could not run. Does not count as an outcome, so health stays unchanged.",
    line: named(),
    metrics: []
  }
}
