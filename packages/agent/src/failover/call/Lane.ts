/**
 * What one attempt of a call holds while it is in flight. A call has one lane, and a second one while it is hedged.
 */
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { CallAdmission } from "./CallAdmission.ts"
import type { CallContext } from "./CallContext.ts"
import { CallOutcome } from "./CallOutcome.ts"
import type { Waits } from "./Waits.ts"

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
