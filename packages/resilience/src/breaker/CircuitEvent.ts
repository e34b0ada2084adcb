/** What circuits publish on `ResilienceEvents`: plain data. */
import type { ResilienceEvent } from "../telemetry/ResilienceEvents.ts"
import type { Reason } from "./CircuitRefused.ts"
import type { Cause, Phase } from "./CircuitState.ts"

/** A circuit changed its phase, or was opened anew. Published once, after the change, in order. */
export interface CircuitTransition extends ResilienceEvent {
  readonly _tag: "CircuitTransition"
  readonly circuit: string
  readonly from: Phase
  readonly to: Phase
  readonly generation: number
  /** What opened it. */
  readonly cause?: Cause | undefined
  /** How long it stays open, in milliseconds. */
  readonly openFor?: number | undefined
}

/** A call failed, as far as its circuit is concerned. */
export interface CircuitFailure extends ResilienceEvent {
  readonly _tag: "CircuitFailure"
  readonly circuit: string
  /** What the server asked for, in milliseconds. */
  readonly retryAfter?: number | undefined
}

/** A probe ended after it had lost its permit (`probeLimit`), so that its outcome does not count. */
export interface CircuitProbeLate extends ResilienceEvent {
  readonly _tag: "CircuitProbeLate"
  readonly circuit: string
  /** Milliseconds. */
  readonly took: number
}

/** A call was not let through. */
export interface CircuitRefusal extends ResilienceEvent {
  readonly _tag: "CircuitRefusal"
  readonly circuit: string
  readonly reason: Reason
  /** In milliseconds. */
  readonly retryAfter?: number | undefined
}

/** The store of circuits could not be reached. One event for each outage. */
export interface CircuitStoreDown extends ResilienceEvent {
  readonly _tag: "CircuitStoreDown"
  /** What the store said, without addresses and keys. */
  readonly error: string
}

/** The store of circuits is reached again, and its verdicts hold. */
export interface CircuitStoreUp extends ResilienceEvent {
  readonly _tag: "CircuitStoreUp"
}

export type CircuitEvent =
  | CircuitTransition
  | CircuitFailure
  | CircuitProbeLate
  | CircuitRefusal
  | CircuitStoreDown
  | CircuitStoreUp
