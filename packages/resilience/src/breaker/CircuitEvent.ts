/** Events that circuits publish on `ResilienceEvents`. Plain data. */
import type { ResilienceEvent } from "../telemetry/ResilienceEvents.ts"
import type { Reason } from "./CircuitRefused.ts"
import type { Cause, Phase } from "./CircuitState.ts"

/** A circuit changed its phase, or opened again. Published once, in order, after the change. */
export interface CircuitTransition extends ResilienceEvent {
  readonly _tag: "CircuitTransition"
  readonly circuit: string
  readonly from: Phase
  readonly to: Phase
  readonly generation: number
  /** The reason for opening. Set when `to` is "open". */
  readonly cause?: Cause | undefined
  /** How long it stays open, in milliseconds. */
  readonly openFor?: number | undefined
}

/** A circuit counted a failed call. */
export interface CircuitFailure extends ResilienceEvent {
  readonly _tag: "CircuitFailure"
  readonly circuit: string
  /** The wait that the server requested, in milliseconds. */
  readonly retryAfter?: number | undefined
}

/** A probe ended after its permit had expired (`probeLimit`), so its outcome does not count. */
export interface CircuitProbeLate extends ResilienceEvent {
  readonly _tag: "CircuitProbeLate"
  readonly circuit: string
  /** Duration of the probe, in milliseconds. */
  readonly took: number
}

/** A circuit refused a call. */
export interface CircuitRefusal extends ResilienceEvent {
  readonly _tag: "CircuitRefusal"
  readonly circuit: string
  readonly reason: Reason
  /** Milliseconds until a call may be let through, when known. */
  readonly retryAfter?: number | undefined
}

/** The store of circuits cannot be reached. Published once for each outage. */
export interface CircuitStoreDown extends ResilienceEvent {
  readonly _tag: "CircuitStoreDown"
  /** The error of the store, without addresses and keys. */
  readonly error: string
}

/** The store of circuits can be reached again, and its verdicts apply. */
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
