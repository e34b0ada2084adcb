/** The error of a call that is not retried any more. Internal to `Retry`, which exports it. */
import { Data } from "effect"
import type { CircuitRefused } from "../breaker/CircuitRefused.ts"
import * as ErrorText from "../ErrorText.ts"
import * as Refusal from "../Refusal.ts"
import type { Stopped } from "./RetryEvent.ts"

/** The call failed and is not retried any more. The message has the reason for stopping; the failure is the `cause`. */
export class RetryFailed<E> extends Data.TaggedError("RetryFailed")<{
  /** Failure of the last attempt. Without an attempt, the circuit's refusal. */
  readonly failure: unknown
  /** The refusal that ended the call, if one did. */
  readonly refused?: CircuitRefused | undefined
  /** Number of attempts made. Refusals by a circuit do not count. */
  readonly attempts: number
  readonly stopped: Stopped
}> {
  declare readonly failure: E
  /** Not retryable, because the call has already been made as often as allowed. */
  readonly isRetryable = false
  /** Same as `failure`, for loggers that print causes. */
  override readonly cause: E
  /** Set without an attempt: nothing was called, so an outer breaker does not count the failure. */
  declare readonly [Refusal.mark]?: true

  constructor(fields: {
    readonly failure: E
    readonly refused?: CircuitRefused | undefined
    readonly attempts: number
    readonly stopped: Stopped
  }) {
    super(fields)
    this.cause = fields.failure
    if (fields.attempts === 0) this[Refusal.mark] = true
  }

  override get message(): string {
    const attempts = this.attempts === 1 ? "1 attempt" : `${this.attempts} attempts`
    return `Gave up after ${attempts}: ${reasonOf(this)}.`
  }
}

ErrorText.printedOnce(RetryFailed, { withCause: true })

const reasonOf = ({ refused, stopped }: RetryFailed<unknown>): string => {
  if (refused === undefined) return why[stopped]
  const until = stopped === "deadline" ? " until the deadline" : ""
  return `circuit \`${refused.circuit}\` refused the call${until}`
}

const why: Readonly<Record<Stopped, string>> = {
  "not-retryable": "the failure is not retryable",
  attempts: "the attempt limit is reached",
  deadline: "no time is left for another attempt before the deadline",
  "retry-after": "the server requested a longer wait than allowed",
  budget: "the retry budget is empty",
  refused: "a circuit refused the call",
  started: "the stream had already started and cannot be repeated"
}
