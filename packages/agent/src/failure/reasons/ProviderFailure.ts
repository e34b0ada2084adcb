/**
 * A classified error of a provider call: the reason, the evidence for it, and when to retry.
 *
 * One tagged error with a `reason` union. The fields carry decisions, not strings to parse again. They contain no
 * secret: no key, no prompt, no header, no body. `detail` is the provider's own sentence, cut to {@link maxDetail}
 * characters and cleaned by `Redaction.scrub`.
 */
import { Duration, Schema } from "effect"
import { ErrorText } from "@outlast/resilience"
import { FailoverReason, Format, definitionOf } from "./FailoverReason.ts"
import { wrongObject } from "./Format.ts"
import type { Seen } from "./ReasonDefinition.ts"
import * as Redaction from "../../secrets/Redaction.ts"
import { TargetRef } from "../../conversation/TargetRef.ts"

export { missingKey, unloadedKey } from "./Auth.ts"
export {
  badCall,
  badCalls,
  badObjects,
  cutObject,
  noCall,
  notEvents,
  untranslatable,
  wrongObject
} from "./Format.ts"
export { notCreated } from "./ModelNotFound.ts"
export { unhealthy } from "./Network.ts"
export { redirect } from "./PermanentNetwork.ts"
export { knownLimit } from "./RateLimit.ts"

/** Maximum length of the provider's sentence that a failure keeps, in characters. */
export const maxDetail = 300

/** Explains why the classifier decided as it did. */
export const Evidence = Schema.Struct({
  /** The id of the rule that matched, for example `status/429`. */
  rule: Schema.String,
  /** Kind of signal that decided. `local` is a limit or a check on our side. */
  signal: Schema.Literals(["status", "code", "header", "body", "text", "cause", "local"]),
  /** The value that matched, for example `429` or `overloaded_error`. */
  matched: Schema.optional(Schema.String),
  /** Depth of the error that matched: 0 for the error itself, n for its n-th cause. */
  depth: Schema.Finite,
  /** HTTP status, when there was one. */
  status: Schema.optional(Schema.Finite),
  /** False when the provider sent `x-should-retry: false`. The same request is then not repeated there. */
  shouldRetry: Schema.optional(Schema.Boolean),
  /** The provider's request id, when it sent one. */
  requestId: Schema.optional(Schema.String)
})
export type Evidence = typeof Evidence.Type

/** The circuit that refused an attempt. */
export const CircuitOut = Schema.Struct({
  /** Name of the circuit, for example the base URL of the endpoint. */
  circuit: Schema.String,
  /** State that made the circuit refuse. `store`: its store cannot be reached. */
  reason: Schema.Literals(["open", "half-open", "isolated", "recovering", "store"]),
  /** The last failure that the circuit counted, in a few words, for example `HTTP 529`. */
  lastFailure: Schema.optional(Schema.String)
})
export type CircuitOut = typeof CircuitOut.Type

export class ProviderFailure extends Schema.TaggedError<ProviderFailure>(
  "@outlast/agent/failure/reasons/ProviderFailure"
)("ProviderFailure", {
  reason: FailoverReason,
  evidence: Evidence,
  /** Wait that the provider asked for. Never negative; zero means now. */
  retryAfter: Schema.optional(Schema.Duration),
  target: Schema.optional(TargetRef),
  detail: Schema.String,
  /** Present only when a circuit refused the attempt. Nothing was sent, and `reason` is that of the last failure. */
  circuit: Schema.optional(CircuitOut)
}) {
  override get message(): string {
    const where = this.target === undefined ? "" : `${this.target.id}: `
    const wait = this.retryAfter === undefined ? "" : `, retry after ${waitInWords(this.retryAfter)}`
    return `${where}${whatHappened(this)}${wait}.${providerSaid(this)} ${whatToDo(this)}`
  }

  /**
   * Returns the same failure as seen at `target`, with secrets removed from the provider's message. It has no stack: the
   * error that a call fails with has its own.
   */
  at(target: TargetRef, secrets: Redaction.Secrets): ProviderFailure {
    const { matched, requestId } = this.evidence
    const clean = (text: string | undefined) =>
      text === undefined ? undefined : Redaction.scrub(text, maxDetail, { values: secrets.values ?? [] })
    const { reason } = this
    const seen = {
      reason:
        reason._tag === "Format" && reason.problem !== undefined
          ? new Format({ side: reason.side, problem: clean(reason.problem) })
          : reason,
      evidence: { ...this.evidence, matched: clean(matched), requestId: clean(requestId) },
      retryAfter: this.retryAfter,
      detail: Redaction.scrub(this.detail, maxDetail, secrets),
      target,
      circuit: this.circuit
    }
    return ErrorText.withoutStack(() => new ProviderFailure(seen))
  }

  /**
   * Returns the same failure as the reason why a circuit refuses an attempt at `target` now. It has no stack: calls that
   * wait for a circuit make one each time they ask.
   */
  refusedBy(circuit: CircuitOut, target: TargetRef): ProviderFailure {
    const refused = {
      reason: this.reason,
      evidence: { ...this.evidence, rule: `circuit/${circuit.reason}`, signal: "local" as const },
      retryAfter: this.retryAfter,
      detail: this.detail,
      target,
      circuit
    }
    return ErrorText.withoutStack(() => new ProviderFailure(refused))
  }
}

ErrorText.printedOnce(ProviderFailure)

/** A failure that Outlast found itself: a limit on our side, a cut stream, a missing key. */
export const local = (
  rule: string,
  reason: FailoverReason,
  target: TargetRef | undefined,
  detail = ""
): ProviderFailure =>
  new ProviderFailure({ reason, evidence: { rule, signal: "local", depth: 0 }, target, detail })

export const isWrongObject = ({ evidence }: ProviderFailure): boolean => evidence.rule === wrongObject

/** Formats a wait for people: whole seconds, or milliseconds below one second. Rounds up. */
export const waitInWords = (wait: Duration.Duration): string => {
  const millis = Math.round(Duration.toMillis(wait))
  const unit = millis < 1_000 ? 1 : 1_000
  return Duration.format(Duration.millis(Math.ceil(millis / unit) * unit))
}

/** Formats a limit for people: whole seconds from ten seconds on, otherwise milliseconds. */
export const limitInWords = (limit: Duration.Duration): string => {
  const millis = Duration.toMillis(limit)
  const unit = millis < 10_000 ? 1 : 1_000
  return Number.isFinite(millis)
    ? Duration.format(Duration.millis(Math.round(millis / unit) * unit))
    : Duration.format(limit)
}

/**
 * Describes a failure in its shortest form, for use after the words "last failure".
 *
 * Examples: `HTTP 529`, `no first token within our limit`.
 */
export const briefly = (failure: ProviderFailure): string =>
  failure.evidence.status === undefined ? whatHappened(failure) : `HTTP ${failure.evidence.status}`

const circuitIs = {
  open: "is open",
  "half-open": "is half-open, and its probes are under way",
  recovering: "has just closed, and lets calls that waited through gradually",
  isolated: "is held open by hand",
  store: "cannot ask its store"
} as const

const refusal = ({ circuit, reason, lastFailure }: CircuitOut, target: TargetRef | undefined): string => {
  const endpoint = target?.endpoint ?? ""
  const at = endpoint === "" || circuit.includes(endpoint) ? "" : ` of ${endpoint}`
  const after = lastFailure === undefined ? "" : ` (last failure: ${lastFailure})`
  return `circuit \`${circuit}\`${at} ${circuitIs[reason]}${after}`
}

/** Describes a failure in one clause of plain words. */
export const whatHappened = (failure: ProviderFailure): string => {
  if (failure.circuit !== undefined) return refusal(failure.circuit, failure.target)
  return definitionOf(failure.reason).happened(seen(failure))
}

/** Says in a few words why the model of the failure does not answer, after its name: `is overloaded`. */
export const whyNot = (failure: ProviderFailure): string => definitionOf(failure.reason).notice(seen(failure))

/** Returns the provider's own words, without secrets. */
export const providerSaid = ({ detail }: ProviderFailure): string =>
  detail === "" ? "" : ` The provider said: "${detail.slice(0, maxDetail)}".`

/** Returns one sentence of advice. */
export const whatToDo = (failure: ProviderFailure): string => {
  if (failure.circuit !== undefined) {
    return failure.circuit.reason === "isolated"
      ? `Release it, or add a target at another endpoint.`
      : `Add another target, or wait.`
  }
  return definitionOf(failure.reason).advice(seen(failure))
}

const seen = ({ reason, evidence, target }: ProviderFailure): Seen<FailoverReason> => ({
  reason,
  rule: evidence.rule,
  status: evidence.status === undefined ? "" : ` (HTTP ${evidence.status})`,
  matched: evidence.matched === undefined ? "" : ` (${evidence.matched})`,
  key: target === undefined || target.key === "" ? "the key" : target.key,
  model: target === undefined ? "the name of the model" : `the name ${target.model}`,
  endpoint: target === undefined || target.endpoint === "" ? "the endpoint" : target.endpoint
})
