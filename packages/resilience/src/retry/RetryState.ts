/**
 * Decides what follows a failed attempt or a refusal by a circuit: wait and retry, or stop with a reason. Pure.
 *
 * `Retry` is the shell around this machine. It provides the time, the random draw, the retry budget and the events.
 */
import { Duration, Option } from "effect"
import type { CircuitRefused } from "../breaker/CircuitRefused.ts"
import * as AttemptLimits from "./AttemptLimits.ts"
import * as Backoff from "../Backoff.ts"
import type { Stopped } from "./RetryEvent.ts"

/** The classification of a failure. */
export type Verdict<Class extends string = string> =
  | { readonly retry: false }
  | {
      readonly retry: true
      /** Class of the failure, for limits by class. Default: "failure". */
      readonly class?: Class | undefined
      /** The wait that the server requested. 0 means now. A value that is not a duration is ignored. */
      readonly retryAfter?: Duration.Input | undefined
    }

/** The options that decide. */
export interface Rules {
  readonly limits: AttemptLimits.AttemptLimits
  readonly backoff: Backoff.Backoff
  readonly hint: Backoff.HintRule
  readonly whenRefused: "fail" | "wait"
}

/** Spending of one call so far. */
export interface Ledger {
  /** Failed attempts, by class. */
  readonly failed: AttemptLimits.State
  /** Failure of the last attempt, if there was one. */
  readonly failure: unknown
  /** Number of consecutive refusals by the circuit. */
  readonly refusals: number
  /** Last delay of the formula in milliseconds, for decorrelated jitter. */
  readonly previous: number | undefined
}

export const start: Ledger = {
  failed: AttemptLimits.initial,
  failure: undefined,
  refusals: 0,
  previous: undefined
}

/** External inputs of a decision. */
export interface Surroundings {
  /** Milliseconds until the deadline. */
  readonly left: number
  /** A random number in [0, 1). */
  readonly draw: number
}

export type Decision =
  | { readonly stopped: Stopped; readonly ledger: Ledger }
  | {
      readonly stopped: undefined
      readonly ledger: Ledger
      /** Milliseconds. */
      readonly wait: number
      readonly class?: string | undefined
      /** The wait that the server requested, in milliseconds. */
      readonly retryAfter?: number | undefined
    }

/** Decides after a failed attempt. `started`: the attempt was a stream that had emitted an element. */
export const afterFailure = (
  { limits, backoff, hint }: Rules,
  before: Ledger,
  failure: unknown,
  verdict: Verdict,
  started: boolean,
  { left, draw }: Surroundings
): Decision => {
  const name = (verdict.retry ? verdict.class : undefined) ?? "failure"
  const [limit, failed] = AttemptLimits.next(limits, before.failed, name)
  const ledger: Ledger = { ...before, failed, failure, refusals: 0 }
  if (!verdict.retry) return { stopped: "not-retryable", ledger }
  if (started) return { stopped: "started", ledger }
  if (limit._tag === "Denied") return { stopped: "attempts", ledger }
  const delay = Backoff.delay(backoff, failed.total, before.previous, draw)
  const retryAfter = millisOf(verdict.retryAfter)
  const wait = Backoff.withHint(hint, delay, retryAfter, draw)
  if (wait._tag === "TooLong") return { stopped: "retry-after", ledger }
  if (wait.millis >= left) return { stopped: "deadline", ledger }
  return {
    stopped: undefined,
    ledger: { ...ledger, previous: delay },
    wait: wait.millis,
    class: verdict.class,
    retryAfter
  }
}

/** Decides after a refusal by the circuit, which does not count as an attempt. */
export const afterRefusal = (
  { backoff, whenRefused }: Rules,
  before: Ledger,
  { retryAfter }: CircuitRefused,
  { left, draw }: Surroundings
): Decision => {
  const refusals = before.refusals + 1
  const ledger: Ledger = { ...before, refusals }
  if (whenRefused !== "wait") return { stopped: "refused", ledger }
  const wait =
    retryAfter === undefined
      ? Backoff.delay(backoff, refusals, undefined, draw)
      : // Rounds up: timers cut fractions off, and would wake the call just before it is let through.
        Math.ceil(Duration.toMillis(retryAfter))
  return wait >= left ? { stopped: "deadline", ledger } : { stopped: undefined, ledger, wait }
}

/** Returns a server's wait in milliseconds. An invalid value from a server must not become a defect. */
const millisOf = (retryAfter: Duration.Input | undefined): number | undefined => {
  if (retryAfter === undefined || Number.isNaN(retryAfter)) return undefined
  return Option.getOrUndefined(
    Option.map(Duration.fromInput(retryAfter), (said) => Math.max(0, Duration.toMillis(said)))
  )
}
