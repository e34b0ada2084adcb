/**
 * A classified error of a provider call: what went wrong, how we know, and when to come back.
 *
 * One tagged error with a `reason` union. It carries decisions, not strings to parse again, and nothing
 * secret: no key, no prompt, no header, no body. `detail` is the provider's own sentence, cut to
 * {@link maxDetail} characters and cleaned by `Redaction.scrub`.
 */
import { Duration, Schema } from "effect"
import { ErrorText } from "@outlast/resilience"
import { FailoverReason, Format } from "./FailoverReason.ts"
import * as Redaction from "../../secrets/Redaction.ts"
import { TargetRef } from "../../conversation/TargetRef.ts"

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

/** The rule of failures whose client could not be made; what matched is the error. */
export const notCreated = "client/create"

/** The rule of a key that is not configured. */
export const missingKey = "key/missing"

/** The rule of a key whose function gave none. */
export const unloadedKey = "key/not-loaded"

/** The rule of a target that the caller's own health check has refused. */
export const unhealthy = "preflight/unhealthy"

/** The rule of a call that limits which are known would make wait too long. */
export const knownLimit = "limit/known"

/** The rule of an object that the output limit cut: half of one is worth nothing. */
export const cutObject = "answer/cut"

/** The rule of a body that is no stream of events; what matched is its content type. */
export const notEvents = "stream/not-events"

/** The rule of an answer that is not the object that was asked for. */
export const wrongObject = "answer/object"

export const isWrongObject = ({ evidence }: ProviderFailure): boolean => evidence.rule === wrongObject

/**
 * The rules of a redirect that was not followed. `matched` is the origin that it leads to, or what is
 * wrong with it.
 */
export const redirect = {
  /** To another scheme, host or port. */
  origin: "redirect/origin",
  /** It would repeat the request as a GET, has no end, or cannot be read. */
  refused: "redirect/refused"
} as const

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
  const status = failure.evidence.status === undefined ? "" : ` (HTTP ${failure.evidence.status})`
  const reason = failure.reason
  switch (reason._tag) {
    case "Auth":
      return failure.evidence.rule === missingKey
        ? "the key is not set"
        : failure.evidence.rule === unloadedKey
          ? `the key could not be loaded${matched(failure)}`
          : `the key was refused${status}`
    case "Billing":
      return `the account has no money or quota left${status}`
    case "RateLimit":
      return failure.evidence.rule === knownLimit
        ? "the known limits of the key allow no call yet"
        : `rate limited${status}`
    case "Overloaded":
      return `the provider is overloaded${status}`
    case "ServerError":
      return `the provider failed${status}`
    case "Timeout":
      return reason.local
        ? `no ${waitedFor[reason.phase]} within our limit`
        : `the provider timed out${status}`
    case "Network":
      return failure.evidence.rule === unhealthy
        ? "the health check says that it is not healthy"
        : `the connection failed or broke${matched(failure)}`
    case "PermanentNetwork":
      if (failure.evidence.rule === redirect.origin)
        return `the endpoint redirects to another origin${matched(failure)}, where nothing was sent`
      if (failure.evidence.rule === redirect.refused)
        return `the endpoint answered with a redirect that cannot be followed${matched(failure)}`
      return `the connection cannot work as configured${matched(failure)}`
    case "ContextOverflow":
      return reason.limit === undefined || reason.requested === undefined
        ? `the conversation is larger than the model's window${status}`
        : `the conversation (${reason.requested} tokens) is larger than the window (${reason.limit} tokens)`
    case "ModelNotFound":
      if (failure.evidence.rule === notCreated) return `its client could not be made${matched(failure)}`
      return `the model is not available here${status}`
    case "Format":
      if (failure.evidence.rule === cutObject) return "the output limit cut the object"
      if (reason.outputLimit !== undefined)
        return `the output limit is above that of the model (${reason.outputLimit} tokens)`
      if (reason.problem !== undefined)
        return `the answer is not the object that was asked for (${reason.problem})`
      return reason.side === "request"
        ? `the provider rejected the request as malformed${status}`
        : `the provider sent an answer that cannot be understood${status}`
    case "ContentPolicy":
      return `the provider refused the content${status}`
    case "Cancelled":
      return `the call was cancelled${status}`
    case "Unknown":
      return `the call failed for a reason that no rule knows${status}`
  }
}

/** The provider's own words, without secrets. */
export const providerSaid = ({ detail }: ProviderFailure): string =>
  detail === "" ? "" : ` The provider said: "${detail.slice(0, maxDetail)}".`

/** One sentence of advice. */
export const whatToDo = (failure: ProviderFailure): string => {
  const key = failure.target === undefined || failure.target.key === "" ? "the key" : failure.target.key
  const model = failure.target === undefined ? "the name of the model" : `the name ${failure.target.model}`
  const endpoint =
    failure.target === undefined || failure.target.endpoint === "" ? "the endpoint" : failure.target.endpoint
  if (failure.circuit !== undefined) {
    return failure.circuit.reason === "isolated"
      ? `Release it, or add a target at another endpoint.`
      : `Add another target, or wait.`
  }
  switch (failure.reason._tag) {
    case "Auth":
      if (failure.evidence.rule === unloadedKey)
        return `Check the function that loads ${key}, or sign in again.`
      return `Set ${key} to a valid ${key === "the key" ? "one" : "key"}, or add another key.`
    case "Billing":
      return `Top up the account of ${key}, or add a key of another account.`
    case "RateLimit":
      return `Wait, or add another key or target to the chain.`
    case "Overloaded":
    case "ServerError":
      return `Try again later, or add a target of another model or provider to the chain.`
    case "Timeout":
      return `Try again, raise the time limit, or add another target to the chain.`
    case "Network":
      if (failure.evidence.rule === unhealthy)
        return `Wait until \`isHealthy\` succeeds with true for it, or add another target to the chain.`
      return `Check that ${endpoint} can be reached, or add a target at another endpoint.`
    case "PermanentNetwork":
      if (failure.evidence.rule === redirect.origin)
        return `If you trust that origin with the key and the prompt, make it the base URL.`
      if (failure.evidence.rule === redirect.refused)
        return `Check the base URL: scheme, host, path and trailing slash.`
      return `Check the address, scheme and certificates of ${endpoint}.`
    case "ContextOverflow":
      return `Shorten the conversation, or add a target with a larger window.`
    case "ModelNotFound":
      if (failure.evidence.rule === notCreated) return `Check the function create of the target.`
      return `Check ${model} and whether the account of ${key} may use it.`
    case "Format":
      if (failure.evidence.rule === cutObject) return `Raise the output limit, or ask for less.`
      if (failure.reason.outputLimit !== undefined)
        return `Set \`OutputLimit\` to ${failure.reason.outputLimit} or less.`
      if (failure.evidence.rule === wrongObject)
        return `Make the schema simpler, or add a target that keeps to schemas.`
      return failure.reason.side === "request"
        ? `Repeating cannot help: correct the request.`
        : `Try again, or add another target to the chain.`
    case "ContentPolicy":
      return `Repeating cannot help: change the content.`
    case "Cancelled":
      return `Start the call again if it is still wanted.`
    case "Unknown":
      return `Look at the evidence (rule ${failure.evidence.rule}) and add a rule for it.`
  }
}

const waitedFor = {
  connect: "connection",
  "first-token": "first token",
  idle: "further token",
  total: "complete answer"
} as const

const matched = (failure: ProviderFailure): string =>
  failure.evidence.matched === undefined ? "" : ` (${failure.evidence.matched})`
