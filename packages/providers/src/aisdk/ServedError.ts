/**
 * Failures as errors of the AI SDK.
 *
 * A failed call is an `APICallError` that is not retryable: the chain has already made every useful attempt, and
 * the AI SDK's own retry would multiply them. Message and status are those of the failure. The cause is the
 * effect/ai error, from which `Outlast.failureOf` reads the typed failure. The error has no key and no prompt:
 * `requestBodyValues` does not repeat the request.
 */
import { APICallError, LoadAPIKeyError } from "@ai-sdk/provider"
import { Chain, Classifier } from "@outlast/agent"
import type { CallFailure, ProviderFailure } from "@outlast/agent"
import { CallFailed } from "@outlast/agent/failure"
import { ErrorText } from "@outlast/resilience"
import { Cause, Duration, Effect, Option } from "effect"
import type { AiError, Prompt } from "effect/ai"
import * as Prompts from "./SpecPrompt.ts"

/** The error of a call with this prompt. */
export const ofCall = (error: AiError.AiError, prompt: Prompt.Prompt): Effect.Effect<APICallError> =>
  Option.match(CallFailed.failureOf(error), {
    onSome: (failure) => Effect.succeed(apiError(failure, error)),
    // An error of a foreign model or of effect/ai itself. Not attached as a cause, because it may quote the prompt.
    onNone: () =>
      Effect.map(Classifier.failure(error, { secrets: { prompt: Prompts.texts(prompt) } }), (failure) =>
        apiError(failure, undefined)
      )
  })

/** The error of a program that did not end with a failure of the call. */
export const ofCause = (cause: Cause.Cause<unknown>): unknown => {
  if (Cause.hasInterruptsOnly(cause)) return new DOMException("The model was disposed of.", "AbortError")
  const error = Cause.squash(cause)
  if (error instanceof Chain.ChainError) return new LoadAPIKeyError({ message: error.message })
  return error instanceof Error ? error : new Error("The model cannot be used.", { cause: error })
}

const apiError = (failure: CallFailure.CallFailure, cause: AiError.AiError | undefined): APICallError => {
  const told = toldBy(failure)
  const statusCode = told?.evidence.status
  const wait = failure._tag === "AllTargetsOut" ? failure.soonest : failure.retryAfter
  const error = new APICallError({
    message: failure.message,
    url: told?.target?.endpoint ?? "",
    requestBodyValues: {},
    isRetryable: false,
    ...(statusCode === undefined ? undefined : { statusCode }),
    ...(wait === undefined
      ? undefined
      : { responseHeaders: { "retry-after": String(Math.ceil(Duration.toSeconds(wait))) } }),
    // The inner cause: the outer one repeats the message.
    ...(cause === undefined ? undefined : { cause: ErrorText.inner(cause) })
  })
  // The AI SDK's empty fields and marks stay readable, but are not printed.
  return ErrorText.brief(
    error,
    ...Reflect.ownKeys(error).filter((field) => field !== "statusCode" && field !== "url")
  )
}

/** The failure to show. When all targets are out: that of the target that is back first, or else of the first one. */
const toldBy = (failure: CallFailure.CallFailure): ProviderFailure.ProviderFailure | undefined => {
  if (failure._tag === "ProviderFailure") return failure
  const { soonest, targets } = failure
  const first = targets.find(
    ({ availableIn }) =>
      soonest !== undefined && availableIn !== undefined && Duration.equals(availableIn, soonest)
  )
  return (first ?? targets[0])?.failure
}
