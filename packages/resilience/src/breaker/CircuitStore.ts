/**
 * Where circuits are shared: what a breaker asks of a store that other processes use too.
 *
 * Shared are **verdicts**, not counts: that a circuit opened (with its generation and end), who probes, who
 * holds it open. Each process counts for itself, and a closed circuit costs no round trip. Without a store,
 * circuits live in the process, which is the default. `RedisCircuitStore` is the shared one.
 */
import type { Effect, Scope } from "effect"
import { Context } from "effect"
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

export interface SharedCircuits {
  /** Whether the store's verdicts are known, or calls are let through without. */
  readonly isCurrent: () => boolean
  /** Shares a change, as soon as the store can be reached. Never fails, never waits. */
  readonly share: (change: Change) => void
  /**
   * Asks for a probe's permit under the name `holder`. Undefined: the store cannot be asked. Without a state the
   * store does not know the circuit (any more): it is closed.
   */
  readonly admit: (
    circuit: string,
    holder: string
  ) => Effect.Effect<{ readonly granted: boolean; readonly state: CircuitState | undefined } | undefined>
  /** Says how a probe ended. Undefined: the store cannot be told. */
  readonly settle: (
    circuit: string,
    grant: Grant,
    ended: Ended,
    state: CircuitState,
    draw: number
  ) => Effect.Effect<CircuitState | undefined>
  /** Shares what is waiting and reads what others changed, now: whether the store could be reached. */
  readonly sync: Effect.Effect<boolean>
}

export interface Service {
  /** What becomes of calls while the store cannot be asked: this process decides alone, or they are refused. */
  readonly onStoreError: "allow" | "fail"
  /** Connects a breaker, in the background: a store that is down delays nothing. */
  readonly attach: (breaker: Breaker) => Effect.Effect<SharedCircuits, never, Scope.Scope>
}

/** The store of the circuits; by default none. */
export const CircuitStore: Context.Reference<Service | undefined> = Context.Reference<Service | undefined>(
  "@outlast/resilience/breaker/CircuitStore",
  { defaultValue: () => undefined }
)
