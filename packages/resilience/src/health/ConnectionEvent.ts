/**
 * Events that `ConnectionMonitor` publishes on `ResilienceEvents`.
 *
 * `connection` is the name of the connection. Events contain the tag or the class of an error, never the message, which
 * may hold secrets.
 */
interface OfConnection {
  /** Unix time in milliseconds. */
  readonly at: number
  readonly connection: string
}

/** Health changed. An unknown connection counts as healthy. */
export interface HealthChanged extends OfConnection {
  readonly _tag: "HealthChanged"
  readonly from: "healthy" | "unhealthy"
  readonly to: "healthy" | "unhealthy"
  /** Number of outcomes in the window. */
  readonly outcomes: number
  readonly failureRate: number
}

/** A session died. Published at most once for each registration. */
export interface SessionDied extends OfConnection {
  readonly _tag: "SessionDied"
  /** Either `probe`, or the reason given to `died`. */
  readonly reason: string
}

/** A call failed. Published for each failure that `guard` or `record` counts, once for each connection of the call. */
export interface ConnectionFailure extends OfConnection {
  readonly _tag: "ConnectionFailure"
  /** The tag or the class of the error. Absent for `record`, which gets no error. */
  readonly error?: string | undefined
}

/** A ping failed, or exceeded its time limit. Counts as an outcome. */
export interface PingFailed extends OfConnection {
  readonly _tag: "PingFailed"
  /** The tag or the class of the error, or `timeout`. */
  readonly error: string
  /** Duration of the ping in milliseconds. */
  readonly latency: number
}

/** A ping or a probe could not run. Does not count as an outcome, so health stays unchanged. */
export interface PingUnavailable extends OfConnection {
  readonly _tag: "PingUnavailable"
  readonly mechanism: "ping" | "probe"
  /** The reason of the `ProbeError`, or `defect`, `interrupted` or `timeout`. */
  readonly reason: string
}

export type ConnectionEvent = HealthChanged | SessionDied | ConnectionFailure | PingFailed | PingUnavailable
