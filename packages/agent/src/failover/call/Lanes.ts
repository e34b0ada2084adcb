/**
 * What the attempts of a call hold while they are in flight. A call has one lane, and a second one while it is hedged.
 */
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { HedgeShare } from "../chain/HedgeShare.ts"
import type { Failed } from "../decide/CallState.ts"
import type { Attempt } from "./Attempt.ts"
import { CallAdmission } from "./CallAdmission.ts"
import type { CallContext } from "./CallContext.ts"
import { CallOutcome } from "./CallOutcome.ts"
import type { Waits } from "./Waits.ts"

/** One attempt in flight, or the next one. */
export class Lane {
  readonly admission: CallAdmission
  readonly outcome: CallOutcome
  target: TargetRef | undefined
  /** Monotonic milliseconds. */
  startedAt = 0
  /** True when the attempt has taken one of the share of hedges. */
  isCounted = false

  constructor(context: CallContext, waits: Waits) {
    this.admission = new CallAdmission(context, waits)
    this.outcome = new CallOutcome(context, this.admission)
  }
}

export class Lanes {
  readonly #context: CallContext
  readonly #waits: Waits
  #current: Lane
  #late: Lane | undefined

  constructor(context: CallContext, waits: Waits) {
    this.#context = context
    this.#waits = waits
    this.#current = new Lane(context, waits)
  }

  /** The attempt in flight, the hedge where there are two, or the next one. */
  get current(): Lane {
    return this.#current
  }

  /** True while the current attempt hedges a late one. */
  get isHedged(): boolean {
    return this.#late !== undefined
  }

  of({ target: { ref } }: Pick<Attempt, "target">): Lane {
    return this.#late?.target === ref ? this.#late : this.#current
  }

  /** Begins a lane for the attempt that hedges the current one. `isCounted`: it takes one of the share of hedges. */
  hedge(isCounted: boolean): void {
    this.#late = this.#current
    this.#current = new Lane(this.#context, this.#waits)
    this.#current.isCounted = isCounted
    if (isCounted) this.#share?.take()
  }

  /** Takes the lane of an attempt that has ended. Of two attempts, the other one goes on alone. */
  landed(attempt: Attempt): Pick<Failed, "isLate" | "overlap"> & { readonly lane: Lane } {
    const lane = this.of(attempt)
    const late = this.#late
    if (late === undefined) return { lane, isLate: false, overlap: 0 }
    const isLate = lane === late
    const other = isLate ? this.#current : late
    this.#current = other
    this.#late = undefined
    const overlap = this.#context.now() - Math.max(attempt.startedAt, other.startedAt)
    return { lane, isLate, overlap }
  }

  /** The next attempt was not sent. */
  notSent(): void {
    const late = this.#late
    // Another call may look.
    if (late === undefined) return this.#current.outcome.endProbe()
    this.#current.outcome.abandoned()
    if (this.#current.isCounted) this.#share?.giveBack()
    this.#current = late
    this.#late = undefined
  }

  /** Gives back what all attempts hold. */
  abandoned(): void {
    this.#late?.outcome.abandoned()
    this.#current.outcome.abandoned()
  }

  get #share(): HedgeShare | undefined {
    return this.#context.chain.hedges
  }
}
