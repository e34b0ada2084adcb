/**
 * Failures as errors of the AI SDK.
 *
 * A failed call is an `APICallError` that is not retryable: the chain has made all the attempts that make sense, and
 * the AI SDK's own retry would multiply them. Its message and status are those of the failure, its cause is the
 * effect/ai error, from which `Outlast.failureOf` has the typed failure. There is no key and no prompt in it: what
 * was sent is not repeated in `requestBodyValues`.
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
    // Of a model that is not ours, or of effect/ai itself. It may quote the prompt: it is no cause.
    onNone: () =>
      Effect.map(Classifier.failure(error, { secrets: { prompt: Prompts.texts(prompt) } }), (failure) =>
        apiError(failure, undefined)
      )
  })

/** The error behind a program that ended otherwise than with a failure of the call. */
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
    // It has the same message.
    ...(cause === undefined ? undefined : { cause: ErrorText.inner(cause) })
  })
  // Empty fields and the marks of the AI SDK are read as before, and not printed.
  return ErrorText.brief(
    error,
    ...Reflect.ownKeys(error).filter((field) => field !== "statusCode" && field !== "url")
  )
}

/** Of all targets that are out, the one that is back first speaks, or else the first of the chain. */
const toldBy = (failure: CallFailure.CallFailure): ProviderFailure.ProviderFailure | undefined => {
  if (failure._tag === "ProviderFailure") return failure
  const { soonest, targets } = failure
  const first = targets.find(
    ({ availableIn }) =>
      soonest !== undefined && availableIn !== undefined && Duration.equals(availableIn, soonest)
  )
  return (first ?? targets[0])?.failure
}
