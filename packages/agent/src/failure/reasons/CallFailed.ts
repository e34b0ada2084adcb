/**
 * Converts our failures to errors of effect/ai, whose error channel allows only `AiError`. No other module does this.
 *
 * A `CallFailed` is an `AiError` that still carries the typed failure. The `reason` is the nearest AiError reason, so
 * that existing handlers work, and {@link failureOf} returns the failure. A `CallFailed` is never retryable: the call
 * has been retried already, and a retry by the user must not multiply the attempts.
 */
import { Option } from "effect"
import { AiError } from "effect/ai"
import { ErrorText } from "@outlast/resilience"
import { CallFailure } from "./CallFailure.ts"
import { definitionOf } from "./FailoverReason.ts"
import type { ProviderFailure } from "./ProviderFailure.ts"

export class CallFailed extends AiError.AiError.extend<CallFailed>(
  "@outlast/agent/failure/reasons/CallFailed"
)({
  failure: CallFailure
}) {
  override get isRetryable(): boolean {
    return false
  }

  override get message(): string {
    return this.failure.message
  }
}

ErrorText.printedOnce(CallFailed)

/** Returns the failure behind an error of a model call that went through Outlast. */
export const failureOf = (error: unknown): Option.Option<CallFailure> =>
  error instanceof CallFailed ? Option.some(error.failure) : Option.none()

/** Properties that only repeat the message. */
const hidden = ["_tag", "module", "method", "reason", "cause", "failure", "~effect/ai/AiError"]

/** `object` is the text of an answer that is not the requested object, if the call failed with one. */
export const fromFailure = (method: string, failure: CallFailure, object?: string): CallFailed =>
  // The reason is the cause of the error and would be printed twice.
  ErrorText.brief(
    new CallFailed({
      module: "Outlast",
      method,
      reason: ErrorText.inner(reasonOf(failure, object)),
      failure
    }),
    ...hidden
  )

const reasonOf = (failure: CallFailure, object: string | undefined): AiError.AiErrorReason => {
  if (object !== undefined) {
    return new AiError.StructuredOutputError({ description: failure.message, responseText: object })
  }
  if (failure._tag === "ProviderFailure") return nearest(failure)
  if (failure.soonest !== undefined) return new AiError.RateLimitError({ retryAfter: failure.soonest })
  const first = failure.targets[0]
  return first === undefined ? new AiError.UnknownError({}) : nearest(first.failure)
}

const nearest = (failure: ProviderFailure): AiError.AiErrorReason =>
  definitionOf(failure.reason).nearest({
    reason: failure.reason,
    description: failure.message,
    retryAfter: failure.retryAfter,
    url: failure.target?.endpoint ?? ""
  })
