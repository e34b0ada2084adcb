/**
 * Rules on the codes and types in error bodies of OpenAI, Anthropic, Google, Azure, OpenRouter and compatible
 * servers. The code alone decides: a 429 with `insufficient_quota` means that credit is used up.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  badCall,
  badJson,
  badRequest,
  badRequestOrLimit,
  badResponse,
  billing,
  contentPolicy,
  contextOverflow,
  modelNotFound,
  overloaded,
  rateLimit,
  revoked
} from "./reasons.ts"

/** Reasons that Google publishes for a blocked prompt or a blocked answer. */
const blocks = [
  "PROHIBITED_CONTENT",
  "IMAGE_PROHIBITED_CONTENT",
  "IMAGE_RECITATION",
  "IMAGE_SAFETY",
  "MODEL_ARMOR",
  "BLOCKLIST",
  "JAILBREAK",
  "RECITATION",
  "SAFETY",
  "SPII"
]

/** The more specific meaning comes first, because a body may have both a code and a type. */
export const codes: ReadonlyArray<Rule.Rule> = [
  Rule.code({
    id: "code/billing",
    why: "The account has used up its credit or its paid quota.",
    codes: [
      "insufficient_quota",
      "billing_error",
      "billing_not_active",
      "billing_hard_limit_reached",
      "insufficient_credits",
      "insufficient_balance",
      "insufficient_user_quota",
      "insufficient_funds",
      "payment_required",
      "pre_consume_token_quota_failed",
      "enforced_spend_limit_reached",
      "contract_spend_limit_reached",
      "ramp_limit_exceeded",
      "budget_exceeded",
      "exceeded_budget",
      "exceeded_current_quota_error"
    ],
    // DashScope uses OpenAI's code for a limit per minute.
    when: ({ codes, text }, provider) =>
      !codes.includes("resource_exhausted") &&
      !provider.includes("qwen") &&
      !text.includes("allocated quota"),
    inText: true,
    reason: billing
  }),
  Rule.code({
    id: "code/context",
    why: "The prompt does not fit into the model's window.",
    codes: [
      "context_length_exceeded",
      "context_window_exceeded",
      "model_context_window_exceeded",
      "ContextWindowExceededError",
      "exceed_context_size_error",
      "string_above_max_context",
      "request_too_large",
      "tokens_limit_reached",
      "max_context_length_exceeded",
      "prompt_too_long",
      "input_too_long",
      "context_too_long"
    ],
    inText: true,
    when: ({ text }) => !text.includes("per minute"),
    reason: contextOverflow
  }),
  Rule.code({
    id: "code/model",
    why: "The model or its deployment does not exist, or this account has no access to it.",
    codes: [
      "model_not_found",
      "model_not_available",
      "dedicated_endpoint_not_running",
      "model_not_supported",
      "unsupported_model",
      "unavailable_model",
      "invalid_model",
      "model_deprecated",
      "DeploymentNotFound",
      "ModelNotFound",
      "unknown_model",
      "NOT_FOUND_MODEL",
      "model_terms_required",
      "model_decommissioned",
      "model_permission_blocked_org",
      "model_permission_blocked_project",
      "AI_NoSuchModelError",
      "AI_NoSuchProviderError"
    ],
    inText: true,
    reason: modelNotFound
  }),
  Rule.code({
    id: "code/revoked",
    why: "The account or key was shut down: a person has to act.",
    codes: [
      "account_deactivated",
      "organization_on_hold",
      "organization_deactivated",
      "organization_disabled",
      "organization_restricted",
      "oauth_org_not_allowed",
      "API_KEY_REVOKED",
      "key_revoked",
      "token_revoked",
      "SERVICE_DISABLED",
      "CONSUMER_SUSPENDED",
      "USER_PROJECT_DENIED"
    ],
    inText: true,
    reason: revoked
  }),
  // Google answers 400 for an invalid key, and names the key only in the details.
  Rule.code({
    id: "code/key",
    why: "The key or token is wrong, missing or expired.",
    codes: [
      "invalid_api_key",
      "incorrect_api_key",
      "API_KEY_INVALID",
      "API_KEY_SERVICE_BLOCKED",
      "API_KEY_HTTP_REFERRER_BLOCKED",
      "API_KEY_IP_ADDRESS_BLOCKED",
      "ACCESS_TOKEN_EXPIRED",
      "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
      "CREDENTIALS_MISSING",
      "IAM_PERMISSION_DENIED",
      "InvalidApiKey",
      "InvalidAPIKeyError",
      "authentication_error",
      "invalid_authentication_error",
      "token_expired",
      "invalid_grant",
      "expired_token",
      "PermissionDeniedError",
      "permission_denied_error",
      "missing_scope",
      "unsupported_country_region_territory",
      "invalid_organization",
      "ip_not_authorized",
      "AuthFailure",
      "AuthFailure.SignatureFailure",
      "AuthFailure.SecretIdNotFound",
      "AuthFailure.SignatureExpire",
      "AuthFailure.TokenFailure",
      "AppIdNoAuthError",
      "AI_LoadAPIKeyError"
    ],
    inText: true,
    // Vertex and Bedrock gateways wrap Anthropic's messages about models and billing.
    when: ({ text }) => !text.includes("model") || !text.includes("access"),
    reason: auth
  }),
  Rule.code({
    id: "code/policy",
    why: "A filter rejected the content.",
    codes: [
      "content_filter",
      "content_filter_error",
      "content_policy_violation",
      "ContentPolicyViolationError",
      "ResponsibleAIPolicyViolation",
      "invalid_prompt",
      "moderation_blocked",
      "safety_error",
      "image_content_policy_violation",
      "cyber_policy",
      "sensitive_words_detected",
      ...blocks
    ],
    reason: contentPolicy
  }),
  Rule.code({
    id: "code/ended",
    why: "A filter or the model itself ended the answer.",
    codes: [
      "end/refusal",
      "end/content_filter",
      "end/content_filtered",
      "end/guardrail_intervened",
      ...blocks.map((code) => `end/${code}`)
    ],
    signal: "body",
    reason: contentPolicy
  }),
  Rule.code({
    id: "code/overloaded",
    why: "The provider is out of capacity.",
    codes: ["overloaded", "capacity_exceeded", "slow_down"],
    reason: overloaded
  }),
  Rule.code({
    id: "code/overloaded-word",
    why: "The provider is out of capacity: codes that occur in no other sentence.",
    codes: [
      "overloaded_error",
      "engine_overloaded_error",
      "engine_overloaded",
      "server_overloaded",
      "server_is_overloaded",
      "model_overloaded"
    ],
    inText: true,
    reason: overloaded
  }),
  Rule.code({
    id: "code/parameter",
    why: "The error names an invalid field of the request.",
    codes: [
      "unsupported_parameter",
      "unsupported_value",
      "unknown_parameter",
      "missing_required_parameter",
      "invalid_type",
      "invalid_value",
      "invalid_function_parameters",
      "string_above_max_length",
      "array_above_max_length",
      "previous_response_not_found",
      "integer_below_min_value",
      "decimal_above_max_value",
      "invalid_encrypted_content",
      "invalid_json_schema",
      "invalid_image_format",
      "BADREQUEST_PARAMETER",
      "unknown_url"
    ],
    // A client's validator uses the same words about an answer.
    when: ({ text }) =>
      !text.includes("context") &&
      !text.includes("must be verified") &&
      !text.includes("type validation failed"),
    // OpenAI rejects an output limit with `invalid_value`, and states its maximum in the text.
    reason: badRequestOrLimit
  }),
  Rule.code({
    id: "code/generated-call",
    why: "The provider found that the model wrote an invalid tool call.",
    codes: ["tool_use_failed", "output_parse_failed"],
    reason: badCall
  }),
  Rule.text({
    id: "text/generated-call",
    why: "The server could not parse the tool call that the model wrote (Ollama, llama.cpp, Bedrock).",
    phrases: [
      "(error|failed) (parsing|to parse) (tool|function) (call|calls)",
      "invalid sequence as part of tooluse"
    ],
    reason: badCall
  }),
  Rule.text({
    id: "text/generated-message",
    why: "The server could not parse what the model wrote (gpt-oss behind vLLM, Bedrock and others).",
    phrases: [
      "tokens remaining in message header",
      "while expecting start token",
      "channel marker present but no channel",
      "waiting for message header",
      "unknown role: assistant*",
      "harmonyerror"
    ],
    reason: badResponse
  }),
  Rule.code({
    id: "code/generated-object",
    why: "The provider found that the model wrote invalid JSON.",
    codes: ["json_validate_failed"],
    reason: badJson
  })
]

/** AI SDK errors of a request, or of the model's tool call, before anything was sent. */
export const clientCodes: ReadonlyArray<Rule.Rule> = [
  Rule.code({
    id: "code/unsendable",
    why: "The client rejects the request before sending it, or its model does not support it.",
    codes: [
      "AI_UnsupportedFunctionalityError",
      "AI_InvalidArgumentError",
      "AI_InvalidPromptError",
      "AI_InvalidDataContentError",
      "AI_InvalidMessageRoleError",
      "AI_MessageConversionError",
      "AI_MissingToolResultsError",
      "AI_TooManyEmbeddingValuesForCallError"
    ],
    signal: "cause",
    reason: badRequest
  }),
  Rule.code({
    id: "code/tool-call",
    why: "The model calls a tool that does not exist, or with arguments that do not match its schema.",
    codes: [
      "AI_NoSuchToolError",
      "AI_InvalidToolInputError",
      "AI_InvalidToolArgumentsError",
      "AI_ToolCallRepairError"
    ],
    signal: "cause",
    reason: badResponse
  })
]

/** Codes whose meaning depends on the text. */
export const vagueCodes: ReadonlyArray<Rule.Rule> = [
  Rule.code({
    id: "code/rate",
    why: "A limit per unit of time, if no text mentions money or capacity.",
    codes: [
      "rate_limit_error",
      "rate_limit_exceeded",
      "rate_limit_reached_error",
      "RateLimitError",
      "RateLimitReached",
      "TooManyRequests",
      "too_many_requests",
      "tokens_per_minute",
      "usage_limit_reached",
      "quota_exceeded",
      "QuotaExceeded",
      "insufficient_quota",
      "limit_requests",
      "concurrency_limit_exceeded",
      "throttled",
      "upstream_rate_limited",
      "AppIdQpsOverFlowError"
    ],
    inText: true,
    reason: rateLimit
  })
]
