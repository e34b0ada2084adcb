/**
 * What happens to connections: this module's part of the resilience events.
 *
 * `connection` is the name under which it is watched. Of errors only the tag or the class is told, never the
 * message: that is the user's, and may hold what must not be printed.
 */
interface OfConnection {
  /** Unix time in milliseconds. */
  readonly at: number
  readonly connection: string
}

/** Once for each change. An unknown connection counts as healthy. */
export interface HealthChanged extends OfConnection {
  readonly _tag: "HealthChanged"
  readonly from: "healthy" | "unhealthy"
  readonly to: "healthy" | "unhealthy"
  /** Outcomes in the window, and the share of failures among them, from 0 to 1. */
  readonly outcomes: number
  readonly failureRate: number
}

/** Once for each registration, at most. */
export interface SessionDied extends OfConnection {
  readonly _tag: "SessionDied"
  /** `probe`, or what the program said. */
  readonly reason: string
}

/**
 * A call failed, as far as this connection is concerned: an outcome that `guard` or `record` took in. A call over
 * several connections publishes one for each.
 */
export interface ConnectionFailure extends OfConnection {
  readonly _tag: "ConnectionFailure"
  /** The tag or the class of the error, where it is known: `record` is not told. */
  readonly error?: string | undefined
}

/** A ping ended with a failure, or not within its time: an outcome. */
export interface PingFailed extends OfConnection {
  readonly _tag: "PingFailed"
  /** The tag or the class of the error, or `timeout`. */
  readonly error: string
  /** Milliseconds. */
  readonly latency: number
}

/** A ping or a probe could not be made. It is no outcome: health stays as it was. */
export interface PingUnavailable extends OfConnection {
  readonly _tag: "PingUnavailable"
  readonly mechanism: "ping" | "probe"
  /** What the `ProbeError` says, or `defect`, `interrupted`, `timeout`. */
  readonly reason: string
}

export type ConnectionEvent = HealthChanged | SessionDied | ConnectionFailure | PingFailed | PingUnavailable
