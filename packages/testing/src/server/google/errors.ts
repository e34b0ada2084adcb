/** Encodes error bodies of the Gemini API: `{error: {code, message, status, details?}}`. */
import type { Schema } from "effect"
import type { WireError } from "../../plan/FaultPlan.ts"
import { edgePage, edgeStatuses } from "../Wire.ts"

export interface GoogleError {
  readonly code: number
  readonly message: string
  readonly details?: ReadonlyArray<Schema.Json>
}

const statuses: Readonly<Record<number, string | undefined>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  429: "RESOURCE_EXHAUSTED",
  499: "CANCELLED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED"
}

const messages: Readonly<Record<number, string | undefined>> = {
  401: "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",
  403: "The caller does not have permission",
  404: "models/unknown is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.",
  409: "The operation was aborted.",
  429: "You exceeded your current quota, please check your plan and billing details. Please retry shortly.",
  499: "The operation was cancelled.",
  503: "The model is overloaded. Please try again later.",
  504: "The request timed out. Please try again."
}

/** The details of an exhausted quota. Google states the wait here, not in a header. */
const exhausted = (quotaId: string, retryDelay = "1.4s"): ReadonlyArray<Schema.Json> => [
  {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    violations: [
      {
        quotaMetric: "generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count",
        quotaId
      }
    ]
  },
  { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay }
]

const perMinute = "GenerateContentPaidTierInputTokensPerModelPerMinute"
const perDay = "GenerateRequestsPerDayPerProjectPerModel"

// HTTP statuses of this API for errors that a plan names in Anthropic's words.
const codes: Readonly<Record<string, number | undefined>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  rate_limit_error: 429,
  insufficient_quota: 429,
  timeout_error: 504,
  overloaded_error: 503
}

export const unknownModel = (model: string, method: string): string =>
  `models/${model} is not found for API version v1beta, or is not supported for ${method}. Call ListModels to ` +
  "see the list of available models and their supported methods."

export const bodyOf = ({ code, message, details }: GoogleError): Schema.Json => ({
  error: {
    code,
    message,
    status: statuses[code] ?? (code < 500 ? "FAILED_PRECONDITION" : "INTERNAL"),
    ...(details === undefined ? {} : { details })
  }
})

/** Encodes the error of a plan in this API's format. A type may also be one of Google's own statuses. */
export const bodyOfWireError = ({ type, message }: WireError): Schema.Json => {
  const named = Object.keys(statuses).find((code) => statuses[Number(code)] === type)
  const code = codes[type] ?? Number(named ?? 500)
  const quota = type === "insufficient_quota" ? perDay : perMinute
  return bodyOf({ code, message, ...(code === 429 ? { details: exhausted(quota) } : {}) })
}

export const errorOf = (
  status: number,
  error: WireError | undefined,
  _requestId: string,
  headers: Readonly<Record<string, string>>
): Schema.Json => {
  if (error !== undefined) return bodyOfWireError(error)
  const edge = edgeStatuses[status]
  if (edge !== undefined) return edgePage(status, edge)
  return bodyOf({
    code: status,
    message:
      messages[status] ??
      (status < 500
        ? "Request contains an invalid argument."
        : "An internal error has occurred. Please retry."),
    ...(status === 429 ? { details: exhausted(perMinute, delayOf(headers["retry-after"])) } : {})
  })
}

/** Converts the seconds of a plan's `retry-after` header to Google's format. */
const delayOf = (retryAfter: string | undefined): string | undefined =>
  retryAfter !== undefined && /^\d+$/.test(retryAfter) ? `${retryAfter}s` : undefined
