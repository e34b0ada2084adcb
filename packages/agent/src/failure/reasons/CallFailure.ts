/**
 * Failures of a call after all recovery has failed: one failure that stops it, or all targets out.
 */
import { Schema } from "effect"
import { ErrorText } from "@outlast/resilience"
import type { ReasonTag } from "./FailoverReason.ts"
import { definitions, reasonTags } from "./FailoverReason.ts"
import { ProviderFailure, providerSaid, waitInWords, whatHappened, whatToDo } from "./ProviderFailure.ts"
import { TargetRef } from "../../conversation/TargetRef.ts"

/** One target that could not serve the call. */
export const TargetOut = Schema.Struct({
  target: TargetRef,
  /** The failure that keeps the target out. */
  failure: ProviderFailure,
  /** Time until it may be chosen again; absent when only a person can bring it back. */
  availableIn: Schema.optional(Schema.Duration)
})
export type TargetOut = typeof TargetOut.Type

/** Reasons that only a person can remove, for example a missing key. */
export const needsPerson: ReadonlySet<ReasonTag> = new Set(
  reasonTags.filter((tag) => definitions[tag].needsPerson)
)

/** No target of the chain can take the call within its deadline. */
export class AllTargetsOut extends Schema.TaggedError<AllTargetsOut>("@outlast/agent/failure/AllTargetsOut")(
  "AllTargetsOut",
  {
    targets: Schema.Array(TargetOut),
    /** Attempts that this call made. */
    attempts: Schema.Finite,
    /** The shortest wait after which a target is worth another call; absent when waiting cannot help. */
    soonest: Schema.optional(Schema.Duration)
  }
) {
  override get message(): string {
    const lines = this.targets.map(({ target, failure, availableIn }) => {
      const when = availableIn === undefined ? "" : `; back in ${waitInWords(availableIn)}`
      return `  ${target.id}: ${whatHappened(failure)}${when}.${providerSaid(failure)} ${whatToDo(failure)}`
    })
    const attempts = this.attempts === 1 ? "1 attempt" : `${this.attempts} attempts`
    const next =
      this.soonest !== undefined
        ? ` The soonest target is back in ${waitInWords(this.soonest)}.`
        : this.targets.every(({ failure }) => needsPerson.has(failure.reason._tag))
          ? " Waiting will not help."
          : ""
    return [`No target is left after ${attempts}.${next}`, ...lines].join("\n")
  }
}

ErrorText.printedOnce(AllTargetsOut)

/** Every failure of a call: a single failure, or all targets out. */
export const CallFailure = Schema.Union([ProviderFailure, AllTargetsOut])
export type CallFailure = typeof CallFailure.Type
