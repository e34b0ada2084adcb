/**
 * Failures of a call as errors of a wire: status, type and message. Pure.
 */
import type { CallFailure } from "@outlast/agent"
import { Duration } from "effect"
import type { Problem, Wire } from "../wire/Wire.ts"

/** Statuses by the kind of failure. A key that a vendor refuses is the gateway's own, and not the caller's: 502. */
const statuses: Readonly<Record<string, number>> = {
  RateLimit: 429,
  Overloaded: 529,
  Timeout: 504,
  ContextOverflow: 400,
  ContentPolicy: 400,
  ModelNotFound: 404
}

const codes: Readonly<Record<string, string>> = {
  RateLimit: "rate_limit_exceeded",
  ContextOverflow: "context_length_exceeded",
  ContentPolicy: "content_filter",
  ModelNotFound: "model_not_found"
}

/** The error of a failed call. */
export const ofFailure = (wire: Wire, failure: CallFailure.CallFailure): Problem => {
  const status = statusOf(wire, failure)
  const tag = failure._tag === "ProviderFailure" ? failure.reason._tag : undefined
  return {
    status,
    type: wire.typeOf(status),
    code: tag === undefined ? undefined : codes[tag],
    message: failure.message
  }
}

const statusOf = (wire: Wire, failure: CallFailure.CallFailure): number => {
  if (failure._tag === "AllTargetsOut") {
    const isLimited = failure.targets.every((out) => out.failure.reason._tag === "RateLimit")
    return isLimited ? 429 : 503
  }
  const { reason } = failure
  if (reason._tag === "Format" && reason.side === "request") return 400
  const status = statuses[reason._tag] ?? 502
  // Only Anthropic has a status for overload.
  return status === 529 && wire.name !== "messages" ? 503 : status
}

/** Seconds until a target is back, where that is known. */
export const retryAfter = (failure: CallFailure.CallFailure): number | undefined => {
  const wait = failure._tag === "AllTargetsOut" ? failure.soonest : failure.retryAfter
  return wait === undefined ? undefined : Math.ceil(Duration.toMillis(wait) / 1_000)
}

/** The error of a call that ended without a failure of its own. */
export const ofEnd = (wire: Wire, { isCut }: { readonly isCut: boolean }): Problem =>
  isCut
    ? own(wire, 503, "The gateway is shutting down. Ask again.", "shutting_down")
    : own(wire, 500, "The gateway failed. This should not happen: its log has the cause.")

/** An error of the gateway itself. */
export const own = (wire: Wire, status: number, message: string, code?: string): Problem => ({
  status,
  type: wire.typeOf(status),
  code,
  message
})
