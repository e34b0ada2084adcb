/**
 * A classified error of a provider call: what went wrong, how we know, and when to come back.
 *
 * One tagged error with a `reason` union. It carries decisions, not strings to parse again, and nothing
 * secret: no key, no prompt, no header, no body. `detail` is the provider's own sentence, cut to
 * {@link maxDetail} characters and cleaned by `Redaction.scrub`.
 */
import { Duration, Schema } from "effect"
import { ErrorText } from "@outlast/resilience"
import { FailoverReason, Format, definitionOf } from "./FailoverReason.ts"
import { wrongObject } from "./Format.ts"
import type { Seen } from "./ReasonDefinition.ts"
import * as Redaction from "../../secrets/Redaction.ts"
import { TargetRef } from "../../conversation/TargetRef.ts"

export { missingKey, unloadedKey } from "./Auth.ts"
export { cutObject, notEvents, wrongObject } from "./Format.ts"
export { notCreated } from "./ModelNotFound.ts"
export { unhealthy } from "./Network.ts"
export { redirect } from "./PermanentNetwork.ts"
export { knownLimit } from "./RateLimit.ts"

/** Longest provider sentence that a failure keeps, in characters. */
export const maxDetail = 300

/** Why the classifier decided as it did. */
export const Evidence = Schema.Struct({
  /** The id of the rule that matched, for example `status/429`. */
  rule: Schema.String,
  /** The kind of signal that decided; `local` is a limit or a check of ours. */
  signal: Schema.Literals(["status", "code", "header", "body", "text", "cause", "local"]),
  /** The value that matched, for example `429` or `overloaded_error`. */
  matched: Schema.optional(Schema.String),
  /** 0 for the error itself, n for its n-th cause. */
  depth: Schema.Finite,
  /** The HTTP status, where one was seen. */
  status: Schema.optional(Schema.Finite),
  /** False where the provider's `x-should-retry` said so: the same request is not repeated there. */
  shouldRetry: Schema.optional(Schema.Boolean),
  /** The provider's request id, where it sent one. */
  requestId: Schema.optional(Schema.String)
})
export type Evidence = typeof Evidence.Type

/** The circuit that did not let an attempt through. */
export const CircuitOut = Schema.Struct({
  /** The circuit's name, for example the base URL of the endpoint. */
  circuit: Schema.String,
  /** `store`: its store cannot be asked, and it refuses calls then. */
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
  /** How long the provider asked to wait. Never negative; zero means now. */
  retryAfter: Schema.optional(Schema.Duration),
  target: Schema.optional(TargetRef),
  detail: Schema.String,
  /** Only where a circuit refused the attempt: nothing was sent then, and `reason` is that of the last failure. */
  circuit: Schema.optional(CircuitOut)
}) {
  override get message(): string {
    const where = this.target === undefined ? "" : `${this.target.id}: `
    const wait = this.retryAfter === undefined ? "" : `, retry after ${waitInWords(this.retryAfter)}`
    return `${where}${whatHappened(this)}${wait}.${providerSaid(this)} ${whatToDo(this)}`
  }

  /** The same failure as it was seen at `target`, with what is secret taken out of what the provider said. */
  at(target: TargetRef, secrets: Redaction.Secrets): ProviderFailure {
    const { matched, requestId } = this.evidence
    const clean = (text: string | undefined) =>
      text === undefined ? undefined : Redaction.scrub(text, maxDetail, { values: secrets.values ?? [] })
    const { reason } = this
    return new ProviderFailure({
      reason:
        reason._tag === "Format" && reason.problem !== undefined
          ? new Format({ side: reason.side, problem: clean(reason.problem) })
          : reason,
      evidence: { ...this.evidence, matched: clean(matched), requestId: clean(requestId) },
      retryAfter: this.retryAfter,
      detail: Redaction.scrub(this.detail, maxDetail, secrets),
      target,
      circuit: this.circuit
    })
  }

  /** The same failure as the reason why a circuit refuses an attempt at `target` now. */
  refusedBy(circuit: CircuitOut, target: TargetRef): ProviderFailure {
    return new ProviderFailure({
      reason: this.reason,
      evidence: { ...this.evidence, rule: `circuit/${circuit.reason}`, signal: "local" },
      retryAfter: this.retryAfter,
      detail: this.detail,
      target,
      circuit
    })
  }
}

ErrorText.printedOnce(ProviderFailure)

/** A failure that Outlast itself found: a limit of ours, a cut stream, a missing key. */
export const local = (
  rule: string,
  reason: FailoverReason,
  target: TargetRef | undefined,
  detail = ""
): ProviderFailure =>
  new ProviderFailure({ reason, evidence: { rule, signal: "local", depth: 0 }, target, detail })

export const isWrongObject = ({ evidence }: ProviderFailure): boolean => evidence.rule === wrongObject

/** A wait for people: whole seconds, and milliseconds only below one; never less than it is. */
export const waitInWords = (wait: Duration.Duration): string => {
  const millis = Math.round(Duration.toMillis(wait))
  const unit = millis < 1_000 ? 1 : 1_000
  return Duration.format(Duration.millis(Math.ceil(millis / unit) * unit))
}

/** The shortest form, behind the words "last failure": `HTTP 529`, `no first token within our limit`. */
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

/** One clause in plain words. */
export const whatHappened = (failure: ProviderFailure): string => {
  if (failure.circuit !== undefined) return refusal(failure.circuit, failure.target)
  return definitionOf(failure.reason).happened(seen(failure))
}

/** The provider's own words, without secrets. */
export const providerSaid = ({ detail }: ProviderFailure): string =>
  detail === "" ? "" : ` The provider said: "${detail.slice(0, maxDetail)}".`

/** One sentence of advice. */
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
