/**
 * Reads the result of a call, a ping or a probe: success, failure with the name of its error, or no outcome.
 *
 * Internal to `ConnectionMonitor`. An error may be any value, and may throw when its properties are read; these
 * functions never throw. Only the tag or the class of an error is read, never the message.
 */
import { Cause, Effect } from "effect"
import type { Duration } from "effect"
import * as Refusal from "../Refusal.ts"
import { ProbeError } from "./NotHealthy.ts"

export type Answer<A> =
  | { readonly _tag: "Answered"; readonly value: A }
  | { readonly _tag: "Failed"; readonly error: string }
  | { readonly _tag: "Unavailable"; readonly reason: string }

/** Runs a ping or a probe within its time limit. Never fails. */
export const answerOf = <A, E, R>(
  question: Effect.Effect<A, E, R>,
  limit: Duration.Duration
): Effect.Effect<Answer<A>, never, R> =>
  // Catches everything that may go wrong, even a value that is not an effect.
  Effect.suspend(() => question).pipe(
    Effect.map((value): Answer<A> => ({ _tag: "Answered", value })),
    Effect.timeoutOrElse({
      duration: limit,
      orElse: () => Effect.succeed<Answer<A>>({ _tag: "Failed", error: "timeout" })
    }),
    Effect.catchCause((cause): Effect.Effect<Answer<A>> => {
      const failure = cause.reasons.find(Cause.isFailReason)
      return Effect.succeed(
        failure === undefined
          ? { _tag: "Unavailable", reason: Cause.hasDies(cause) ? "defect" : "interrupted" }
          : isProbeError(failure.error)
            ? { _tag: "Unavailable", reason: failure.error.reason }
            : { _tag: "Failed", error: nameOf(failure.error) }
      )
    })
  )

const isProbeError = (error: unknown): error is ProbeError => {
  try {
    return error instanceof ProbeError
  } catch {
    return false
  }
}

/** Returns the tag or the class of an error, never the message. */
const nameOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return error === null ? "null" : typeof error
  try {
    const name = "_tag" in error && typeof error._tag === "string" ? error._tag : error.constructor.name
    return typeof name === "string" ? name : "object"
  } catch {
    return "object"
  }
}

const isRefusal = (error: unknown): boolean => {
  try {
    return Refusal.isRefusal(error)
  } catch {
    return false
  }
}

/** Returns the failure of the connection in a cause, if there is one. Refusals and interruptions are not failures. */
export const failureOf = (
  cause: Cause.Cause<unknown>,
  counts: (cause: Cause.Cause<unknown>) => boolean
): { readonly error: string } | undefined => {
  for (const reason of cause.reasons) {
    if (Cause.isDieReason(reason) || (Cause.isFailReason(reason) && !isRefusal(reason.error))) {
      const error = nameOf(Cause.isDieReason(reason) ? reason.defect : reason.error)
      return doesCount(cause, counts) ? { error } : undefined
    }
  }
  return undefined
}

const doesCount = (
  cause: Cause.Cause<unknown>,
  counts: (cause: Cause.Cause<unknown>) => boolean
): boolean => {
  try {
    return counts(cause)
  } catch {
    // A mistake in the predicate must not replace the error of the call.
    return true
  }
}
