/**
 * Decides whether a task that has lost its model begins again later. Pure.
 *
 * A retry is now, inside a call. A restart is later: the call and its whole chain have given up, and the task waits for
 * minutes before it asks again, with the same conversation. Only failures that may pass by themselves restart a task
 * (network, timeout, overload, rate limit, server error). A failure of logic never does.
 *
 * **Example** (The waits before the three restarts)
 *
 * ```ts
 * const waits = [1, 2, 3].map((restart) => Backoff.delay(Restart.defaults.backoff, restart, undefined, 0))
 * waits // => [60000, 120000, 240000]
 * ```
 */
import { Duration } from "effect"
import type { AgentFailed } from "@outlast/agent"
import { FailoverReason } from "@outlast/agent"
import { Backoff } from "@outlast/resilience"

export interface Policy {
  /** Restarts of a task, at most. */
  readonly max: number
  /** The wait before each restart. */
  readonly backoff: Backoff.Backoff
}

/** Three restarts, after 1, 2 and 4 minutes, each up to a fifth longer, so that many tasks do not come back at once. */
export const defaults: Policy = {
  max: 3,
  backoff: Backoff.sequence(["1 minute", "2 minutes", "4 minutes"], { jitter: { below: 0, above: 0.2 } })
}

/** A task that never restarts. */
export const never: Policy = { ...defaults, max: 0 }

export type Decision =
  | { readonly _tag: "Fail" }
  | {
      readonly _tag: "Restart"
      /** Number of this restart, from 1. */
      readonly restart: number
      /** Milliseconds. */
      readonly wait: number
    }

const fail: Decision = { _tag: "Fail" }

/** A task whose call has failed, after `restarts` restarts. `draw` is a number from 0 to 1. */
export const decide = (
  { max, backoff }: Policy,
  restarts: number,
  reason: AgentFailed.Reason,
  draw: number
): Decision => {
  if (restarts >= max || !mayPass(reason)) return fail
  const restart = restarts + 1
  const delay = Backoff.delay(backoff, restart, undefined, draw)
  const hint = hintOf(reason)
  // Not before a target is back: the restart would only use itself up. All tasks hear the same time, so they spread
  // behind it.
  return { _tag: "Restart", restart, wait: Math.max(delay, hint * (1 + spread * draw)) }
}

/** True for a failure that may pass by itself. */
export const mayPass = (reason: AgentFailed.Reason): boolean => {
  switch (reason._tag) {
    case "ProviderFailure":
      return isTransient(reason.reason)
    case "AllTargetsOut":
      return reason.targets.some(({ failure }) => isTransient(failure.reason))
    default:
      return false
  }
}

const isTransient = (reason: FailoverReason.FailoverReason): boolean =>
  FailoverReason.definitionOf(reason).isTransient(reason)

/** Milliseconds that the provider, or the first target to come back, asks to wait; at most {@link maxHint}. */
const hintOf = (reason: AgentFailed.Reason): number => Math.min(maxHint, Duration.toMillis(waitOf(reason)))

const waitOf = (reason: AgentFailed.Reason): Duration.Duration => {
  if (reason._tag === "AllTargetsOut") return reason.soonest ?? Duration.zero
  return reason._tag === "ProviderFailure" ? (reason.retryAfter ?? Duration.zero) : Duration.zero
}

/** Part of a hint by which a restart may come later than the hint. */
const spread = 0.2

/** A target that is out for longer does not hold a task back for longer. */
const maxHint = 15 * 60_000

/** The kind of a failure, for a status: `Network`, `AllTargetsOut`. */
export const kindOf = (reason: AgentFailed.Reason): string =>
  reason._tag === "ProviderFailure" ? reason.reason._tag : reason._tag
