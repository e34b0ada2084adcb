/**
 * Where circuits live: in the process ({@link memory}, the default), or shared with others (`RedisCircuitStore`).
 *
 * Shared are **verdicts**, not counts: that a circuit opened (with its generation and end), who probes, who
 * holds it open. Each process counts for itself, and a closed circuit costs no round trip. What a breaker knows
 * always lives in the process, changed in one synchronous piece; a store only adds what others decided.
 */
import type { Scope } from "effect"
import { Effect } from "effect"
import type { CircuitEvent } from "./CircuitEvent.ts"
import type { CircuitPolicy } from "./CircuitPolicy.ts"
import type { CircuitState, Ended, Grant } from "./CircuitState.ts"

/** A change that one process decided. */
export interface Change {
  readonly circuit: string
  readonly before: CircuitState
  readonly after: CircuitState
  /** By hand: it holds whatever others decided meanwhile. */
  readonly byHand: boolean
}

/** What a breaker lets its store do. Times in states are the breaker's monotonic milliseconds. */
export interface Breaker {
  readonly policy: CircuitPolicy
  /** Takes over what the store says. */
  readonly adopt: (circuit: string, state: CircuitState) => Effect.Effect<void>
  readonly publish: (event: CircuitEvent) => Effect.Effect<void>
}

/** Of a store that was asked for a permit; it has told the breaker what it knows before. */
export interface Answer {
  readonly granted: boolean
  /** The generation that the permit belongs to. */
  readonly generation: number
}

/** A question under way. Who is interrupted while waiting leaves; the answer is seen to all the same. */
export interface Asked<A> {
  readonly answer: Effect.Effect<A>
  readonly leave: Effect.Effect<void>
}

export interface SharedCircuits {
  /** Whether the store's verdicts are known, or calls are let through without. */
  readonly isCurrent: () => boolean
  /** Shares a change, as soon as the store can be reached. Never fails, never waits. */
  readonly share: (change: Change) => void
  /**
   * Asks for a probe's permit under the name `holder`, for a circuit that is in `state` here. A permit that comes after
   * one has left is given back. Undefined: the store cannot be asked.
   */
  readonly admit: (
    circuit: string,
    holder: string,
    state: CircuitState
  ) => Effect.Effect<Asked<Answer | undefined>>
  /** Says how a probe ended. False: the store cannot be told. */
  readonly settle: (
    circuit: string,
    grant: Grant,
    ended: Ended,
    state: CircuitState,
    draw: number
  ) => Effect.Effect<Asked<boolean>>
  /** Shares what is waiting and reads what others changed, now: whether the store could be reached. */
  readonly sync: Effect.Effect<boolean>
}

export interface CircuitStore {
  /** Connects a breaker, in the background: a store that is down delays nothing. Undefined: nothing is shared. */
  readonly attach: (breaker: Breaker) => Effect.Effect<SharedCircuits | undefined, never, Scope.Scope>
}

/** Circuits of this process alone. */
export const memory: CircuitStore = { attach: () => Effect.succeed(undefined) }
