/**
 * Rules on the reasons of effect/ai and of its HTTP client, for models that are not Outlast's. They come late,
 * because the response inside a reason is more specific: effect/ai has no reason for an overload or for used-up
 * credit.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  badResponse,
  billing,
  contentPolicy,
  network,
  permanentNetwork,
  rateLimit,
  serverError
} from "./reasons.ts"

const tag = (
  id: string,
  why: string,
  tags: ReadonlyArray<string>,
  reason: Rule.Common["reason"]
): Rule.Rule =>
  Rule.rule(
    { id: `effect-ai/${id}`, why, reason },
    "code",
    ({ tag, networkReason }) =>
      [tag === "NetworkError" ? undefined : tag, tag === "NetworkError" ? networkReason : undefined].find(
        (found) => found !== undefined && tags.includes(found)
      ),
    tags.map((found) => found.toLowerCase())
  )

export const effectAi: ReadonlyArray<Rule.Rule> = [
  tag("rate", "The provider's 429.", ["RateLimitError"], rateLimit),
  tag("quota", "A quota that money buys.", ["QuotaExhaustedError"], billing),
  tag("auth", "The provider's 401 or 403.", ["AuthenticationError"], auth),
  tag("policy", "A filter rejected the content.", ["ContentPolicyError"], contentPolicy),
  tag("address", "The URL cannot be used.", ["InvalidUrlError"], permanentNetwork),
  tag("encode", "The request could not be written.", ["EncodeError"], badRequest),
  tag("transport", "Nobody answered.", ["TransportError"], network),
  tag("server", "The provider broke.", ["InternalProviderError"], serverError),
  tag(
    "response",
    "The answer could not be parsed, or has a tool call that cannot be run.",
    [
      "InvalidResponseError",
      "InvalidOutputError",
      "StructuredOutputError",
      "DecodeError",
      "EmptyBodyError",
      "ToolNotFoundError",
      "ToolParameterValidationError"
    ],
    badResponse
  ),
  tag(
    "request",
    "The client or the provider rejected the request, or a tool's result cannot be sent.",
    [
      "InvalidRequestError",
      "InvalidUserInputError",
      "UnsupportedSchemaError",
      "ToolConfigurationError",
      "InvalidToolResultError",
      "ToolResultEncodingError",
      "ToolkitRequiredError"
    ],
    badRequest
  )
]
