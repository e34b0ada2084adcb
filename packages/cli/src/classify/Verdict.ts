/** The classifier's verdict on a case, as `outlast classify` prints it. */
import { Duration } from "effect"
import { Classifier } from "@outlast/agent"
import type { ProviderFailure } from "@outlast/agent"
import type { Case } from "./cases/ErrorCase.ts"
import { errorOf } from "./cases/ErrorCase.ts"
import type { Label } from "./cases/Label.ts"
import { labelOf } from "./cases/Label.ts"

export interface Verdict {
  readonly id: string | null
  readonly reason: Label
  /** Whole milliseconds. */
  readonly retryAfterMs: number | null
  readonly evidence: {
    readonly rule: string
    readonly signal: ProviderFailure.Evidence["signal"]
    readonly matched: string | null
    readonly depth: number
  }
}

export const failureOf = (given: Case): ProviderFailure.ProviderFailure =>
  Classifier.failureOf(errorOf(given), { provider: given.provider })

export const make = (given: Case): Verdict => fromFailure(given.id, failureOf(given))

export const fromFailure = (
  id: string | undefined,
  { reason, retryAfter, evidence }: ProviderFailure.ProviderFailure
): Verdict => ({
  id: id ?? null,
  reason: labelOf(reason),
  retryAfterMs: retryAfter === undefined ? null : Math.round(Duration.toMillis(retryAfter)),
  evidence: {
    rule: evidence.rule,
    signal: evidence.signal,
    matched: evidence.matched ?? null,
    depth: evidence.depth
  }
})
