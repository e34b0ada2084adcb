/**
 * What follows a failed attempt or a refusal of the circuit, as a pure machine: wait and try again, or stop and why.
 * `Retry` is the shell around it, which knows the time, the chance, the retry budget and the events.
 */
import { Duration, Option } from "effect"
import type { CircuitRefused } from "../breaker/CircuitRefused.ts"
import * as AttemptLimits from "./AttemptLimits.ts"
import * as Backoff from "./Backoff.ts"
import type { Stopped } from "./RetryEvent.ts"

/** What to do about a failure. */
export type Verdict<Class extends string = string> =
  | { readonly retry: false }
  | {
      readonly retry: true
      /** For limits by class. Default: "failure". */
      readonly class?: Class | undefined
      /** When the server wants to be asked again. 0 is now; what is no duration counts as nothing said. */
      readonly retryAfter?: Duration.Input | undefined
    }

/** The options that a decision goes by. */
export interface Rules {
  readonly limits: AttemptLimits.AttemptLimits
  readonly backoff: Backoff.Backoff
  readonly hint: Backoff.HintRule
  readonly whenRefused: "fail" | "wait"
}

/** What one call has spent so far. */
export interface Ledger {
  /** Attempts that failed, by class. */
  readonly failed: AttemptLimits.State
  /** What the last attempt failed with, if there was one. */
  readonly failure: unknown
  /** Refusals of the circuit in a row. */
  readonly refusals: number
  /** The last wait of the formula, for decorrelated jitter. */
  readonly previous: number | undefined
}

export const start: Ledger = {
  failed: AttemptLimits.initial,
  failure: undefined,
  refusals: 0,
  previous: undefined
}

/** What a decision needs from outside. */
export interface Surroundings {
  /** Milliseconds to the deadline. */
  readonly left: number
  /** Of chance, in [0, 1). */
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
    }

/** What follows a failed attempt; `started`: of a stream that had begun. */
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
  const wait = Backoff.withHint(hint, delay, millisOf(verdict.retryAfter), draw)
  if (wait._tag === "TooLong") return { stopped: "retry-after", ledger }
  if (wait.millis >= left) return { stopped: "deadline", ledger }
  return {
    stopped: undefined,
    ledger: { ...ledger, previous: delay },
    wait: wait.millis,
    class: verdict.class
  }
}

/** What follows a refusal of the circuit, which is no attempt. */
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
      : // Timers cut fractions off, and would wake it just before it is let through.
        Math.ceil(Duration.toMillis(retryAfter))
  return wait >= left ? { stopped: "deadline", ledger } : { stopped: undefined, ledger, wait }
}

/** A server's wait in milliseconds. Nonsense from a server must not become a defect of ours. */
const millisOf = (retryAfter: Duration.Input | undefined): number | undefined => {
  if (retryAfter === undefined || Number.isNaN(retryAfter)) return undefined
  return Option.getOrUndefined(
    Option.map(Duration.fromInput(retryAfter), (said) => Math.max(0, Duration.toMillis(said)))
  )
}
