/**
 * Selects the lines that a chain writes to Effect's log without any layer: at most one per change.
 *
 * Changes are: a refused key, a switch to another model, the return to the first model, and a failed call. A later
 * call that finds the same state writes no line. Pure apart from its own memory, which is bounded by the number of
 * targets.
 */
import type { Warnings } from "@outlast/resilience"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import { needsPerson } from "../../failure/reasons/CallFailure.ts"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { Leavable } from "../../failure/reasons/Leavable.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { waitInWords, whatHappened, whatToDo } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"

export class ChainLog {
  /** Target id → the last reported reason that only a person can remove. */
  readonly #refused = new Map<string, ReasonTag>()
  /** Kind of the last failed call; `undefined` once a target has answered. */
  #kind: string | undefined
  /** Number of failed calls since the last line about one. */
  #unsaid = 0

  /** Line for an attempt that failed for a reason that needs a person. `next` is the target that the call goes to. */
  refused(failure: ProviderFailure, next: TargetRef | undefined): Warnings.Line | undefined {
    const { target, reason } = failure
    if (target === undefined || !needsPerson.has(reason._tag)) return undefined
    if (this.#refused.get(target.id) === reason._tag) return undefined
    this.#refused.set(target.id, reason._tag)
    const where = next === undefined ? "" : ` The call goes on at ${next.id}.`
    return { level: "Error", text: `${about(failure)}${where}` }
  }

  /** Line for a switch to another model. `failure` is the reason, where one is known. */
  switched(from: TargetRef, target: TargetRef, failure: ProviderFailure | undefined): Warnings.Line {
    const level = failure !== undefined && needsPerson.has(failure.reason._tag) ? "Error" : "Warn"
    const why = failure === undefined ? "" : ` ${about(failure)}`
    return { level, text: `Switched from ${from.id} to ${target.id}.${why}` }
  }

  /** Line for the return to the first model of the chain. */
  returned(from: TargetRef, target: TargetRef): Warnings.Line {
    return { level: "Warn", text: `Switched from ${from.id} back to ${target.id}, which answers again.` }
  }

  /** Line for parts that requests to a model omit from now on. */
  leftOut(target: TargetRef, part: Leavable, dropped: number): Warnings.Line {
    const files = dropped === 1 ? "an image or file" : `${dropped} images or files`
    const text =
      part === "media"
        ? `${target.id} refuses ${files}. The model gets a note instead.`
        : `${target.id} refuses thinking or signatures of earlier answers. The request is sent again without them.`
    return { level: "Warn", text }
  }

  /** Line for a failed call. Returns no line when the previous call failed in the same way. */
  gaveUp(failure: CallFailure): Warnings.Line | undefined {
    const kind = kindOf(failure)
    if (kind === this.#kind) {
      this.#unsaid++
      return undefined
    }
    this.#kind = kind
    const others = this.#unsaid
    this.#unsaid = 0
    const more =
      others === 0
        ? ""
        : ` Since the last such line ${others} more ${others === 1 ? "call" : "calls"} failed.`
    return { level: "Warn", text: `A call failed. ${described(failure)}${more}` }
  }

  answered(id: string): void {
    this.#kind = undefined
    this.#refused.delete(id)
  }
}

/** Line for a target that could not be built. */
export const dead = (failure: ProviderFailure): Warnings.Line => ({
  level: "Warn",
  text: `${about(failure)} The chain works without this target.`
})

/** Line for a model whose calls a cost limit does not count. */
export const unpriced = (model: string): Warnings.Line => ({
  level: "Warn",
  text: `The price of ${model} is not known: its attempts count as 0 for maxCost. Set it with the option info.`
})

/** Identifies failures that are reported only once in a row. */
const kindOf = (failure: CallFailure): string =>
  failure._tag === "ProviderFailure"
    ? failure.reason._tag
    : [...new Set(failure.targets.map(({ failure }) => failure.reason._tag))].toSorted().join()

const described = (failure: CallFailure): string => {
  if (failure._tag === "ProviderFailure") return about(failure)
  const { attempts, soonest, targets } = failure
  const made = attempts === 1 ? "1 attempt" : `${attempts} attempts`
  const next = soonest === undefined ? "" : ` The soonest is back in ${waitInWords(soonest)}.`
  return [`No target is left after ${made}.${next}`, ...targets.map(({ failure }) => about(failure))].join(
    " "
  )
}

/** One line with target, reason and advice. Omits the provider's own sentence, which may quote the request. */
const about = (failure: ProviderFailure): string => {
  const { target, evidence, circuit, detail } = failure
  const where = target === undefined ? "" : `${target.id}: `
  // A refusal by a circuit is local too, but its detail comes from the last failure that the circuit counted.
  const isOurs = evidence.signal === "local" && circuit === undefined && detail !== ""
  const ours = isOurs ? ` ${detail}` : ""
  return `${where}${whatHappened(failure)}.${ours} ${whatToDo(failure)}`.replaceAll(/\s+/g, " ")
}
