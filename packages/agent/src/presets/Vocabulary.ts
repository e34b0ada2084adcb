/**
 * The classes that five known systems sort provider failures into, as pure mappings from our reasons.
 *
 * A preset speaks the words of its system with these; the classifier stays ours. Each mapping is total over the
 * reasons. Where a system's document and its code disagree, the document wins; where both are silent,
 * or where following them would do harm, it is written at the mapping.
 *
 * It does not hold the systems' pattern lists (what they would have said about a given text), nor what they do
 * about a class: that is a `RecoveryPolicy`.
 */
import { Options } from "@outlast/resilience"
import type { FailoverReason, ReasonTag } from "../failure/reasons/FailoverReason.ts"

/** Reasons that a table leaves out are what the system makes of what it does not know. */
type Table<Class> = { readonly [Tag in ReasonTag]?: Class }

/** CodeBuddy, layer 1: which cooldown a provider gets. */
export type CodebuddyReason =
  | "auth"
  | "rate_limit"
  | "billing"
  | "timeout"
  | "overloaded"
  | "model_not_found"
  | "format"
  | "unknown"

const codebuddyReasons: Table<CodebuddyReason> = {
  Auth: "auth",
  Billing: "billing",
  RateLimit: "rate_limit",
  Overloaded: "overloaded",
  Timeout: "timeout",
  Network: "overloaded",
  ModelNotFound: "model_not_found",
  Format: "format"
}

/**
 * CodeBuddy's eight reasons.
 *
 * - "quota exceeded" is a rate limit in the document and billing in the code. Here it follows what the classifier
 *   found it to be: a limit per unit of time is `rate_limit`, one of money `billing`.
 * - A broken connection is `overloaded`, as in the code; the document does not mention it.
 * - 500 is `unknown`, as in both: neither lists it.
 * - `format` is documented and produced by nothing in the code; here it is produced, for requests too.
 */
export const codebuddy = (reason: FailoverReason): CodebuddyReason =>
  codebuddyReasons[reason._tag] ?? "unknown"

/** CodeBuddy, layer 2: whether the same stream is tried again. */
export type CodebuddyRecovery = "transient" | "permanent"

const codebuddyTransient: ReadonlySet<ReasonTag> = new Set<ReasonTag>([
  "RateLimit",
  "Overloaded",
  "ServerError",
  "Timeout",
  "Network"
])

/**
 * CodeBuddy's transient and permanent. What the safety guard stopped is permanent, whatever its reason.
 *
 * - What nobody knows is permanent, as in the code; the document does not say.
 * - The code lists 502 and 503, but neither 504 nor 529: both are transient here, as their like.
 * - The code repeats a failed certificate check, because its text has "network" or "fetch failed" in it; here it
 *   is permanent. It calls a connection that was "aborted" permanent, as if the user had cancelled; here that is
 *   transient, and only `Cancelled` is a cancel.
 */
export const codebuddyRecovery = (
  reason: FailoverReason,
  options: {
    /** The error came from the safety guard. Default `false`. */
    readonly fromSafetyGuard?: boolean | undefined
  } = {}
): CodebuddyRecovery => {
  Options.fields<typeof options>("Vocabulary.codebuddyRecovery", options, {
    fromSafetyGuard: Options.is.flag
  })
  return options.fromSafetyGuard !== true && codebuddyTransient.has(reason._tag) ? "transient" : "permanent"
}

/** DECISION_037. */
export type Decision037Class =
  | "NetworkTransient"
  | "NetworkPermanent"
  | "ProviderRateLimit"
  | "ProviderError"
  | "LogicError"
  | "ContextLength"

const decision037Classes: Table<Decision037Class> = {
  Auth: "ProviderError",
  Billing: "ProviderRateLimit",
  RateLimit: "ProviderRateLimit",
  Overloaded: "NetworkTransient",
  ServerError: "ProviderError",
  Timeout: "NetworkTransient",
  Network: "NetworkTransient",
  PermanentNetwork: "NetworkPermanent",
  ContextOverflow: "ContextLength",
  ModelNotFound: "ProviderError",
  Format: "ProviderError"
}

/**
 * DECISION_037's six classes.
 *
 * - Used up credit is a rate limit, as in the code; the document has no class for it.
 * - 529 is not in the code's list; here it is `NetworkTransient`, like the 503 that it stands for.
 * - A malformed request is `ProviderError` ("bad request"), a malformed answer the default, `LogicError`.
 * - The code repeats "request aborted"; what the caller cancelled is `LogicError` here, and stops.
 */
export const decision037 = (reason: FailoverReason): Decision037Class =>
  reason._tag === "Format" && reason.side === "response"
    ? "LogicError"
    : (decision037Classes[reason._tag] ?? "LogicError")

/** learn-claude-code s11: what it recovers from, and all the rest. */
export type S11Class = "rate_limit" | "overloaded" | "prompt_too_long" | "unrecoverable"

const s11Classes: Table<S11Class> = {
  RateLimit: "rate_limit",
  Overloaded: "overloaded",
  ContextOverflow: "prompt_too_long"
}

/**
 * learn-claude-code's three classes; `unrecoverable` is none of them: the error is raised.
 *
 * - The document counts network blips among what is transient, and says that it handles only 429 and 529: network
 *   failures and time limits are raised.
 * - Any text with "429" in it is a rate limit in the code; one that says that the money is gone is raised here.
 * - Overloads that come as 502 or 503 count as 529 does.
 */
export const s11 = (reason: FailoverReason): S11Class => s11Classes[reason._tag] ?? "unrecoverable"

/** nexo-rs: whether a call to the model is repeated. */
export type NexoClass = "retryable" | "not_retryable"

const nexoRetryable: ReadonlySet<ReasonTag> = new Set<ReasonTag>([
  "RateLimit",
  "Overloaded",
  "ServerError",
  "Timeout",
  "Network"
])

/**
 * nexo-rs' retryable or not: "429, 5xx, network blips", and no other 4xx.
 *
 * - The code does not repeat network blips and its own time limits; the document does, and wins.
 * - 408 is a 4xx, but a time limit before it is that: retryable.
 * - A subscription's window that is used up (429, status "rejected") is not repeated by the code. Here it is a
 *   rate limit with a long wait, and it is the policy's `maxWait` that keeps a call from sleeping it out.
 */
export const nexo = (reason: FailoverReason): NexoClass =>
  nexoRetryable.has(reason._tag) ? "retryable" : "not_retryable"

/** claw0. */
export type Claw0Class = "rate_limit" | "auth" | "timeout" | "billing" | "overflow" | "unknown"

const claw0Classes: Table<Claw0Class> = {
  Auth: "auth",
  Billing: "billing",
  RateLimit: "rate_limit",
  Timeout: "timeout",
  ContextOverflow: "overflow"
}

/**
 * claw0's six classes, as its document has them.
 *
 * - "quota" is billing in the document unless the text also has "rate" or "key" in it; here a limit per unit of
 *   time is `rate_limit`, whatever its words.
 */
export const claw0 = (reason: FailoverReason): Claw0Class => claw0Classes[reason._tag] ?? "unknown"
