/** The circuits of a rehearsed call: those of `CircuitBreaker`, without a clock and without other calls. */
import type { RecoveryPolicy } from "@outlast/agent"
import { Permits } from "@outlast/agent/failover"
import type { TargetRef } from "@outlast/agent/conversation"
import { CircuitPolicy, CircuitState } from "@outlast/resilience"

/** A circuit that refuses an attempt, and the milliseconds until it admits one. */
export interface Refused {
  readonly circuit: string
  readonly length: number
}

/** The middle of the jitter range, which means no jitter. */
const draw = 0.5

export class Circuits {
  readonly #policy: CircuitPolicy.CircuitPolicy | undefined
  readonly #states = new Map<string, CircuitState.CircuitState>()

  constructor({ circuits }: RecoveryPolicy.RecoveryPolicy<string>) {
    this.#policy = circuits === false ? undefined : CircuitPolicy.make(circuits)
  }

  /** Returns the circuit that refuses an attempt at the target, if there is one. */
  refusal(target: TargetRef.TargetRef, now: number): Refused | undefined {
    if (this.#policy === undefined) return undefined
    for (const circuit of Object.values(Permits.circuitsOf(target))) {
      const [admission] = CircuitState.admit(this.#policy, this.#stateOf(circuit), "", now)
      if (!admission.granted) return { circuit, length: admission.refusal.retryAfter ?? Permits.askAgain }
    }
    return undefined
  }

  /** Records a failed attempt. `of` names the circuit that counts it. */
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
