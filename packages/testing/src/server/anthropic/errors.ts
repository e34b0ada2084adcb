/** Encodes error bodies of the Anthropic API: `{type: "error", error: {type, message}, request_id}`. */
import type { Schema } from "effect"
import type { WireError } from "../../plan/FaultPlan.ts"
import { edgePage, edgeStatuses } from "../Wire.ts"

const byStatus: Readonly<Record<number, WireError | undefined>> = {
  400: { type: "invalid_request_error", message: "Invalid request" },
  401: { type: "authentication_error", message: "invalid x-api-key" },
  402: { type: "billing_error", message: "Your credit balance is too low to access the Anthropic API." },
  403: {
    type: "permission_error",
    message: "Your API key does not have permission to use the specified resource."
  },
  404: { type: "not_found_error", message: "Not found" },
  409: { type: "conflict_error", message: "Conflict" },
  413: { type: "request_too_large", message: "Request exceeds the maximum size" },
  429: {
    type: "rate_limit_error",
    message: "This request would exceed your organization's rate limit of 30,000 input tokens per minute."
  },
  504: { type: "timeout_error", message: "Request timed out" },
  529: { type: "overloaded_error", message: "Overloaded" }
}

export const bodyOf = (error: WireError, requestId: string): Schema.Json => ({
  type: "error",
  error: { type: error.type, message: error.message },
  request_id: requestId
})

export const errorOf = (status: number, error: WireError | undefined, requestId: string): Schema.Json => {
  const edge = edgeStatuses[status]
  if (error === undefined && edge !== undefined) return edgePage(status, edge)
  const standard = status < 500 ? "invalid_request_error" : "api_error"
  return bodyOf(
    error ??
      byStatus[status] ?? {
        type: standard,
        message: status < 500 ? "Invalid request" : "Internal server error"
      },
    requestId
  )
}
