/**
 * Pure mappings from failover reasons to the classes of five known systems.
 *
 * The presets use these classes; the classifier does not change. Each mapping covers all reasons. Where a
 * system's document and its code disagree, the document wins. The comment of a mapping says where both have a gap,
 * or where following them would do harm.
 *
 * Not included are the systems' pattern lists (the class that a system would give to a text), and what a system
 * does about a class: see `RecoveryPolicy`.
 */
import { Options } from "@outlast/resilience"
import type { FailoverReason, ReasonTag } from "../failure/reasons/FailoverReason.ts"

/** Reasons that a table leaves out have the system's class for unknown failures. */
type Table<Class> = { readonly [Tag in ReasonTag]?: Class }

/** A reason, or only its tag, as events have it. */
interface Tagged {
  readonly _tag: ReasonTag
}

/** CodeBuddy, layer 1: decides the cooldown of a provider. */
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
 * Maps to CodeBuddy's eight reasons.
 *
 * - "quota exceeded" is a rate limit in the document and billing in the code. Here the classifier decides: a limit
 *   per unit of time is `rate_limit`, a limit of money is `billing`.
 * - A broken connection is `overloaded`, as in the code. The document does not mention it.
 * - 500 is `unknown`: neither the document nor the code lists it.
 * - `format` is documented, but the code never produces it. Here it is produced, for requests too.
 */
export const codebuddy = (reason: Tagged): CodebuddyReason => codebuddyReasons[reason._tag] ?? "unknown"

/** CodeBuddy, layer 2: decides whether a stream is retried. */
export type CodebuddyRecovery = "transient" | "permanent"

const codebuddyTransient: ReadonlySet<ReasonTag> = new Set<ReasonTag>([
  "RateLimit",
  "Overloaded",
  "ServerError",
  "Timeout",
  "Network"
])

/**
 * Maps to CodeBuddy's transient and permanent. A stop by the safety guard is permanent, whatever its reason.
 *
 * - An unknown failure is permanent, as in the code. The document does not mention it.
 * - The code lists 502 and 503, but neither 504 nor 529. Here both are transient, because they are similar.
 * - The code retries a failed certificate check, because its text contains "network" or "fetch failed". Here the
 *   failure is permanent.
 * - The code calls an "aborted" connection permanent, as if the user had cancelled. Here it is transient, and only
 *   `Cancelled` is a cancel.
 */
export const codebuddyRecovery = (
  reason: FailoverReason,
  options: {
    /** True when the error came from the safety guard. Default `false`. */
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
 * Maps to DECISION_037's six classes.
 *
 * - Used-up credit is a rate limit, as in the code. The document has no class for it.
 * - 529 is not in the code's list. Here it is `NetworkTransient`, like the similar 503.
 * - A malformed request is `ProviderError` ("bad request"). A malformed answer has the default, `LogicError`.
 * - The code retries "request aborted". Here a cancel by the caller is `LogicError`, which stops.
 */
export const decision037 = (reason: Tagged & { readonly side?: "request" | "response" }): Decision037Class =>
  reason._tag === "Format" && reason.side === "response"
    ? "LogicError"
    : (decision037Classes[reason._tag] ?? "LogicError")

/** learn-claude-code s11: the failures it recovers from, and `unrecoverable` for all others. */
export type S11Class = "rate_limit" | "overloaded" | "prompt_too_long" | "unrecoverable"

const s11Classes: Table<S11Class> = {
  RateLimit: "rate_limit",
  Overloaded: "overloaded",
  ContextOverflow: "prompt_too_long"
}

/**
 * Maps to learn-claude-code's three classes, and to `unrecoverable`, which fails the call.
 *
 * - The document counts network blips as transient, but says that it handles only 429 and 529. Network failures and
 *   timeouts are `unrecoverable`.
 * - Any text with "429" is a rate limit in the code. A text that reports used-up credit is `unrecoverable` here.
 * - Overloads with status 502 or 503 count as 529 does.
 */
export const s11 = (reason: FailoverReason): S11Class => s11Classes[reason._tag] ?? "unrecoverable"

/** nexo-rs: decides whether a call to the model is retried. */
export type NexoClass = "retryable" | "not_retryable"

const nexoRetryable: ReadonlySet<ReasonTag> = new Set<ReasonTag>([
  "RateLimit",
  "Overloaded",
  "ServerError",
  "Timeout",
  "Network"
])

/**
 * Maps to nexo-rs' retryable or not: "429, 5xx, network blips", and no other 4xx.
 *
 * - The document retries network blips and its own timeouts; the code does not. The document wins.
 * - 408 is a 4xx, but also a timeout: retryable.
 * - The code does not retry after a used-up subscription window (429, status "rejected"). Here it is a rate limit
 *   with a long wait, and the policy's `maxWait` keeps a call from waiting that long.
 */
export const nexo = (reason: FailoverReason): NexoClass =>
  nexoRetryable.has(reason._tag) ? "retryable" : "not_retryable"

/** The classes of claw0. */
export type Claw0Class = "rate_limit" | "auth" | "timeout" | "billing" | "overflow" | "unknown"

const claw0Classes: Table<Claw0Class> = {
  Auth: "auth",
  Billing: "billing",
  RateLimit: "rate_limit",
  Timeout: "timeout",
  ContextOverflow: "overflow"
}

/**
 * Maps to the six classes of claw0's document.
 *
 * - "quota" is billing in the document, unless the text also has "rate" or "key" in it. Here a limit per unit of
 *   time is `rate_limit`, whatever its wording.
 */
export const claw0 = (reason: Tagged): Claw0Class => claw0Classes[reason._tag] ?? "unknown"
