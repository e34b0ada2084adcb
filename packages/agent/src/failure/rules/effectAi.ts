/**
 * Rules on the reasons of effect/ai, for models that are not ours. They come last: the response that a reason
 * keeps says more than the reason, which knows neither an overload nor an empty account.
 */
import type { Rule } from "../Classifier.ts"
import type { FailoverReason } from "../FailoverReason.ts"
import {
  Auth,
  Billing,
  ContentPolicy,
  Format,
  Network,
  PermanentNetwork,
  RateLimit,
  ServerError
} from "../FailoverReason.ts"

const tag = (id: string, tags: ReadonlyArray<string>, reason: () => FailoverReason): Rule => {
  const known = new Set(tags)
  return {
    id: `effect-ai/${id}`,
    match: ({ tag }) =>
      tag !== undefined && known.has(tag) ? { reason: reason(), signal: "code", matched: tag } : undefined
  }
}

const networkKind = (id: string, kind: string, reason: () => FailoverReason): Rule => ({
  id: `effect-ai/${id}`,
  match: ({ tag, networkReason }) =>
    tag === "NetworkError" && networkReason === kind
      ? { reason: reason(), signal: "code", matched: kind }
      : undefined
})

export const effectAi: ReadonlyArray<Rule> = [
  tag("rate", ["RateLimitError"], () => new RateLimit()),
  tag("quota", ["QuotaExhaustedError"], () => new Billing()),
  tag("auth", ["AuthenticationError"], () => new Auth({ permanent: false })),
  tag("policy", ["ContentPolicyError"], () => new ContentPolicy()),
  networkKind("address", "InvalidUrlError", () => new PermanentNetwork()),
  networkKind("encode", "EncodeError", () => new Format({ side: "request" })),
  networkKind("transport", "TransportError", () => new Network()),
  tag("server", ["InternalProviderError"], () => new ServerError()),
  tag(
    "response",
    ["InvalidResponseError", "InvalidOutputError", "StructuredOutputError"],
    () => new Format({ side: "response" })
  ),
  tag(
    "request",
    [
      "InvalidRequestError",
      "InvalidUserInputError",
      "UnsupportedSchemaError",
      "ToolConfigurationError",
      "ToolkitRequiredError"
    ],
    () => new Format({ side: "request" })
  )
]
