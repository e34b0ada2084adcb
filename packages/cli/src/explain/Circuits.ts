/**
 * The circuits that a rehearsed call meets: those of `CircuitBreaker`, without a clock and without other calls.
 */
import type { RecoveryPolicy } from "@outlast/agent"
import { Permits } from "@outlast/agent/failover"
import type { TargetRef } from "@outlast/agent/conversation"
import { CircuitPolicy, CircuitState } from "@outlast/resilience"

/** A circuit that does not let an attempt through, and the milliseconds until it does. */
export interface Refused {
  readonly circuit: string
  readonly length: number
}

/** In the middle of the jitter: none. */
const draw = 0.5

export class Circuits {
  readonly #policy: CircuitPolicy.CircuitPolicy | undefined
  readonly #states = new Map<string, CircuitState.CircuitState>()

  constructor({ circuits }: RecoveryPolicy.RecoveryPolicy<string>) {
    this.#policy = circuits === false ? undefined : CircuitPolicy.make(circuits)
  }

  /** What keeps an attempt from the target. */
  refusal(target: TargetRef.TargetRef, now: number): Refused | undefined {
    if (this.#policy === undefined) return undefined
    for (const circuit of Object.values(Permits.circuitsOf(target))) {
      const [admission] = CircuitState.admit(this.#policy, this.#stateOf(circuit), "", now)
      if (!admission.granted) return { circuit, length: admission.refusal.retryAfter ?? Permits.askAgain }
    }
    return undefined
  }

  /** An attempt was let through and has failed; `of`: the circuit whose failure it is. */
  failed(target: TargetRef.TargetRef, of: RecoveryPolicy.Row["circuit"], now: number): void {
    if (this.#policy === undefined || of === undefined) return
    const circuit = Permits.circuitsOf(target)[of]
    const [admission, state] = CircuitState.admit(this.#policy, this.#stateOf(circuit), "", now)
    if (!admission.granted) return
    const ended = { outcome: "failure" } as const
    this.#states.set(circuit, CircuitState.settle(this.#policy, state, admission.grant, ended, now, draw))
  }

  #stateOf(circuit: string): CircuitState.CircuitState {
    return this.#states.get(circuit) ?? CircuitState.initial
  }
}
