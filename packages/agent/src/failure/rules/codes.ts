/**
 * Rules on the codes and types that providers put into their error bodies, and that error parts of a 200
 * stream carry. They decide before the status: a 429 with `insufficient_quota` is a matter of money.
 */
import type { Rule } from "../Classifier.ts"
import type { FailoverReason } from "../FailoverReason.ts"
import {
  Auth,
  Billing,
  ContentPolicy,
  ContextOverflow,
  ModelNotFound,
  Overloaded,
  RateLimit,
  ServerError,
  Timeout
} from "../FailoverReason.ts"

const code = (id: string, words: ReadonlyArray<string>, reason: () => FailoverReason): Rule => {
  const known = new Set(words)
  return {
    id: `code/${id}`,
    match: ({ code, type }) => {
      const matched = [code, type].find((word) => word !== undefined && known.has(word))
      return matched === undefined ? undefined : { reason: reason(), signal: "code", matched }
    }
  }
}

/** Ordered: the more specific meaning first, because a body has a code and a type. */
export const codes: ReadonlyArray<Rule> = [
  code("billing", ["insufficient_quota", "billing_error", "billing_not_active"], () => new Billing()),
  code("context", ["context_length_exceeded"], () => new ContextOverflow({})),
  code("model", ["model_not_found"], () => new ModelNotFound()),
  // Google answers 400 for a bad key, and says so only in the details.
  code(
    "key",
    ["invalid_api_key", "API_KEY_INVALID", "authentication_error"],
    () => new Auth({ permanent: false })
  ),
  code("revoked", ["account_deactivated", "organization_on_hold"], () => new Auth({ permanent: true })),
  code("policy", ["content_filter", "content_policy_violation"], () => new ContentPolicy()),
  code("overloaded", ["overloaded_error", "UNAVAILABLE"], () => new Overloaded()),
  code("rate", ["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"], () => new RateLimit()),
  code("timeout", ["timeout_error", "DEADLINE_EXCEEDED"], () => new Timeout({ phase: "total", local: false }))
]

/** Codes that say no more than "our side failed": a status, where there is one, says more. */
export const vagueCodes: ReadonlyArray<Rule> = [
  code("server", ["api_error", "server_error", "INTERNAL"], () => new ServerError())
]
