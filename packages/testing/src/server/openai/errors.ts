/** Encodes error bodies of the OpenAI API: `{error: {message, type, param, code}}`. */
import type { Schema } from "effect"
import type { WireError } from "../../plan/FaultPlan.ts"
import { edgePage, edgeStatuses } from "../Wire.ts"

export interface OpenAiError extends WireError {
  readonly param?: string
  readonly code?: string
}

const byStatus: Readonly<Record<number, OpenAiError | undefined>> = {
  400: { type: "invalid_request_error", message: "Invalid request." },
  401: { type: "invalid_request_error", message: "Incorrect API key provided.", code: "invalid_api_key" },
  403: {
    type: "invalid_request_error",
    message: "Project does not have access to this model.",
    code: "model_not_found"
  },
  404: {
    type: "invalid_request_error",
    message: "The model does not exist or you do not have access to it.",
    code: "model_not_found"
  },
  429: {
    type: "tokens",
    message:
      "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29500, Requested 1200. " +
      "Please try again in 1.4s.",
    code: "rate_limit_exceeded"
  },
  503: { type: "service_unavailable_error", message: "The server is overloaded. Slow down." }
}

// Errors of this API for those that a plan names in Anthropic's words.
const translated: Readonly<Record<string, OpenAiError | undefined>> = {
  insufficient_quota: { type: "insufficient_quota", message: "", code: "insufficient_quota" },
  rate_limit_error: { type: "tokens", message: "", code: "rate_limit_exceeded" },
  api_error: { type: "server_error", message: "" }
}

/** Encodes an error in this API's format. */
export const worded = (error: WireError): OpenAiError => ({
  ...translated[error.type],
  ...error,
  type: translated[error.type]?.type ?? error.type
})

export const bodyOf = (error: OpenAiError): Schema.Json => ({
  error: { message: error.message, type: error.type, param: error.param ?? null, code: error.code ?? null }
})

export const bodyOfWireError = (error: WireError): Schema.Json => bodyOf(worded(error))

export const errorOf = (status: number, error: WireError | undefined): Schema.Json => {
  const edge = edgeStatuses[status]
  if (error !== undefined) return bodyOfWireError(error)
  if (edge !== undefined) return edgePage(status, edge)
  return bodyOf(
    byStatus[status] ??
      (status < 500
        ? { type: "invalid_request_error", message: "Invalid request." }
        : { type: "server_error", message: "The server had an error while processing your request." })
  )
}
