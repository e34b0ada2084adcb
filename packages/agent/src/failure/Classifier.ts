/**
 * Turns anything that was thrown into a {@link ProviderFailure}.
 *
 * The error and its causes (5 deep) are normalised to `ErrorFacts`; then an ordered table of rules is walked,
 * structured signals first. The first rule that matches decides, and its id stands in the evidence.
 * What no rule knows is `Unknown`. Never throws.
 */
import type { Duration } from "effect"
import type { ErrorFacts } from "./ErrorFacts.ts"
import * as Facts from "./ErrorFacts.ts"
import { maxBody } from "./ErrorFacts.ts"
import type { FailoverReason } from "./FailoverReason.ts"
import { Unknown } from "./FailoverReason.ts"
import type { Evidence } from "./ProviderFailure.ts"
import { maxDetail, ProviderFailure } from "./ProviderFailure.ts"
import * as Redaction from "./Redaction.ts"
import { codes, vagueCodes } from "./rules/codes.ts"
import { connection } from "./rules/connection.ts"
import { effectAi } from "./rules/effectAi.ts"
import { statuses, unusable } from "./rules/statuses.ts"
import type { TargetRef } from "./TargetRef.ts"
import * as WaitHint from "./WaitHint.ts"

/** What a rule says when it matches. */
export interface Match {
  readonly reason: FailoverReason
  readonly signal: Evidence["signal"]
  /** The value that decided, short and free of content. */
  readonly matched: string
}

/** One row of the table. */
export interface Rule {
  /** `group/name`, unique; it stands in the evidence. */
  readonly id: string
  readonly match: (facts: ErrorFacts) => Match | undefined
}

/** The table that ships: what says most comes first. */
export const defaultRules: ReadonlyArray<Rule> = [
  ...codes,
  ...connection,
  ...statuses,
  ...vagueCodes,
  ...effectAi,
  ...unusable
]

export interface Classified {
  readonly reason: FailoverReason
  readonly evidence: Evidence
  readonly retryAfter: Duration.Duration | undefined
}

/** The verdict on facts. Pure. */
export const classify = (
  chain: ReadonlyArray<ErrorFacts>,
  rules: ReadonlyArray<Rule> = defaultRules
): Classified => {
  const status = chain.find((facts) => facts.status !== undefined)?.status
  const headers = chain.find((facts) => Object.keys(facts.headers).length > 0)?.headers ?? {}
  const requestId = headers["request-id"] ?? headers["x-request-id"]
  const seen = { status, requestId }
  const retryAfter =
    WaitHint.fromHeaders(headers) ?? chain.find((facts) => facts.retryAfter !== undefined)?.retryAfter
  for (const rule of rules) {
    for (const facts of chain) {
      const match = rule.match(facts)
      if (match !== undefined) {
        const evidence: Evidence = {
          rule: rule.id,
          signal: match.signal,
          matched: match.matched,
          depth: facts.depth,
          ...seen
        }
        return { reason: match.reason, evidence, retryAfter }
      }
    }
  }
  return {
    reason: new Unknown(),
    evidence: { rule: "none", signal: "text", depth: 0, ...seen },
    retryAfter
  }
}

export interface Options {
  readonly target?: TargetRef | undefined
  /** What must not appear in the failure. */
  readonly secrets?: Redaction.Secrets | undefined
}

/** Classifies an error, and keeps the provider's sentence without secrets. */
export const failureOf = (error: unknown, options: Options = {}): ProviderFailure => {
  if (error instanceof ProviderFailure) return error
  const chain = Facts.fromUnknown(error)
  const { reason, evidence, retryAfter } = classify(chain)
  return new ProviderFailure({
    reason,
    evidence,
    retryAfter,
    target: options.target,
    // Who knows more secrets than we do scrubs again (`ProviderFailure.at`), and cuts to what is shown.
    detail: Redaction.scrub(
      chain[0].message,
      options.secrets === undefined ? maxBody : maxDetail,
      options.secrets
    )
  })
}
