/**
 * The outcome of a call for its circuit: the default classification of an exit, and the words that describe a failure.
 * Internal to `CircuitBreaker`, which exports the public names.
 */
import { Cause, Duration, Exit, Option } from "effect"
import * as Refusal from "../Refusal.ts"
import { numberOf, textOf } from "../telemetry/Fields.ts"

/** The outcome of a call for its circuit. */
export type Outcome = { readonly counts: "success" | "ignored" } | ({ readonly counts: "failure" } & Failure)

/** A failure that a circuit counts. */
export interface Failure {
  /** Minimum time before the next call, as requested by the server. */
  readonly retryAfter?: Duration.Input | undefined
  /** Short description without secrets, for refusals and status pages. Default: the result of `describe`. */
  readonly what?: string | undefined
}

/**
 * Decides the outcome of an exit. Never called for an interruption. If the function throws, the call does not count.
 */
export type Classify = (exit: Exit.Exit<unknown, unknown>) => Outcome

/** Describes an error or a defect. If the function throws, the description is left out. */
export type Describe = (error: unknown) => string | undefined

export const succeeded: Outcome = { counts: "success" }
export const ignored: Outcome = { counts: "ignored" }

const retryAfterOf = (error: unknown): Duration.Duration | undefined =>
  typeof error === "object" && error !== null && "retryAfter" in error
    ? // Anything that is not a duration becomes `None`.
      Option.getOrUndefined(Duration.fromInput(error.retryAfter as Duration.Input))
    : undefined

/**
 * The default classification of an exit: success, failure, or ignored for a {@link Refusal}. A `retryAfter` of the
 * error (a `Duration.Input`; a number is milliseconds) is passed on.
 */
export const classify: Classify = (exit) => {
  if (Exit.isSuccess(exit)) return succeeded
  const errors = exit.cause.reasons.flatMap((reason) => (Cause.isFailReason(reason) ? [reason.error] : []))
  const refused = errors.length > 0 && errors.every(Refusal.isRefusal) && !Cause.hasDies(exit.cause)
  if (refused) return ignored
  const retryAfter = errors.map(retryAfterOf).find((known) => known !== undefined)
  return { counts: "failure", retryAfter }
}

/**
 * Returns the tag or the name of an error, with its HTTP status if there is one: `HttpError (HTTP 503)`. The message is
 * never read, because it may contain secrets.
 */
export const describe: Describe = (error) => {
  const isName = (text: string | undefined): boolean =>
    text !== undefined && /^[A-Za-z][\w/@.-]{0,99}$/.test(text)
  const called = [textOf(error, "_tag"), textOf(error, "name")].find(isName)
  const status = numberOf(error, "status")
  const isStatus = Number.isInteger(status) && status !== undefined && status >= 100 && status < 600
  const http = isStatus ? `HTTP ${status}` : undefined
  return called !== undefined && http !== undefined ? `${called} (${http})` : (called ?? http)
}

/** A hint that is not a duration is ignored. The failure still counts. */
export const hintOf = (retryAfter: Duration.Input | undefined): number | undefined =>
  retryAfter === undefined
    ? undefined
    : Option.getOrUndefined(Option.map(Duration.fromInput(retryAfter), Duration.toMillis))

/** An exit with interruptions only is ignored, whatever the classifier would return. */
export const outcomeOf = (
  judge: Classify,
  describe: Describe,
  exit: Exit.Exit<unknown, unknown>
): Outcome => {
  if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)) return ignored
  try {
    const outcome = judge(exit)
    // A classifier written in JavaScript may return anything.
    if (!isOutcome(outcome)) return ignored
    if (outcome.counts !== "failure" || outcome.what !== undefined || Exit.isSuccess(exit)) return outcome
    return { ...outcome, what: wordsFor(describe, Cause.squash(exit.cause)) }
  } catch {
    return ignored
  }
}

const isOutcome = (value: unknown): value is Outcome =>
  typeof value === "object" && value !== null && "counts" in value && typeof value.counts === "string"

const wordsFor = (describe: Describe, error: unknown): string | undefined => {
  try {
    // A function written in JavaScript may return anything.
    const words: unknown = describe(error)
    return typeof words === "string" ? words : undefined
  } catch {
    return undefined
  }
}
