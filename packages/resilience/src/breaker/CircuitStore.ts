/**
 * Shares circuits between processes: not at all ({@link memory}, the default), or over Redis (`RedisCircuitStore`).
 *
 * A store shares **verdicts**, not counts: openings (with generation and end), probe permits, and holds by hand. Each
 * process counts its own calls, and a closed circuit costs no round trip. The state of a breaker always lives in its
 * process and changes synchronously; a store only adds the decisions of other processes.
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
  /** True for a change made by hand, which applies whatever other processes decided meanwhile. */
  readonly byHand: boolean
}

/** The part of a breaker that its store may use. Times in states are the breaker's monotonic milliseconds. */
export interface Breaker {
  readonly policy: CircuitPolicy
  /** Takes over a state from the store. */
  readonly adopt: (circuit: string, state: CircuitState) => Effect.Effect<void>
  readonly publish: (event: CircuitEvent) => Effect.Effect<void>
}

/** The store's answer to a request for a permit. The breaker has already adopted the store's state by then. */
export interface Answer {
  readonly granted: boolean
  /** The generation that the permit belongs to. */
  readonly generation: number
}

/** A request in flight. A caller that is interrupted runs `leave`; the answer is then handled in the background. */
export interface Asked<A> {
  readonly answer: Effect.Effect<A>
  readonly leave: Effect.Effect<void>
}

export interface SharedCircuits {
  /** True when the store's verdicts are known, or when calls are allowed without them. */
  readonly isCurrent: () => boolean
  /** Queues a change for the store. Never fails and never waits. */
  readonly share: (change: Change) => void
  /**
   * Requests a probe's permit under the name `holder`, for a circuit that is in `state` here. A permit that arrives
   * after the caller has left is given back. Undefined when the store cannot be reached.
   */
  readonly admit: (
    circuit: string,
    holder: string,
    state: CircuitState
  ) => Effect.Effect<Asked<Answer | undefined>>
  /** Reports the outcome of a probe. False when the store cannot be reached. */
  readonly settle: (
    circuit: string,
    grant: Grant,
    ended: Ended,
    state: CircuitState,
    draw: number
  ) => Effect.Effect<Asked<boolean>>
  /** Sends queued changes and reads the changes of other processes, now. True when the store could be reached. */
  readonly sync: Effect.Effect<boolean>
}

export interface CircuitStore {
  /**
   * Connects a breaker in the background, so that an unreachable store delays nothing. Undefined when nothing is
   * shared.
   */
  readonly attach: (breaker: Breaker) => Effect.Effect<SharedCircuits | undefined, never, Scope.Scope>
}

/** Keeps circuits in this process only. */
export const memory: CircuitStore = { attach: () => Effect.succeed(undefined) }
