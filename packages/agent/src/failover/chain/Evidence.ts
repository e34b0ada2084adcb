/**
 * Distinguishes one call's bad luck from a model or an endpoint that is out. Pure.
 *
 * A cooldown of a model or an endpoint keeps all other calls out, so it needs proof. Proof is failures of
 * `pacing.provenBy` calls, without a success among the attempts that began since the first of them. Attempts in flight count as
 * not failed: under concurrency the circuits decide, because they know the share of failures.
 *
 * One silent failure is enough when no other attempt there made progress. Silence means that the time limit for the
 * connection, for the first token, or for a whole answer passed and nothing came, or that a late attempt was aborted.
 * Headers are not progress of a stream, because some providers send them before they can answer. They are progress of a whole answer, which shows
 * no other sign.
 *
 * The functions read the logs of the targets in the scope.
 */
import { Iterable } from "effect"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Scope } from "../decide/RecoveryPolicy.ts"
import type { Doubt, Flight, TargetLog } from "./TargetLog.ts"

/** The time for all targets of a scope up to which attempts that began prove nothing. */
const disprovedUntil = (logs: ReadonlyArray<TargetLog>): number =>
  Math.max(...logs.map((log) => log.disprovedUntil))

/**
 * The doubts of a target with one more: for each scope the first failures of `provenBy` calls that count. `logs` are
 * those of the scope.
 */
export const doubted = (
  logs: ReadonlyArray<TargetLog>,
  { doubts }: TargetLog,
  doubt: Doubt,
  provenBy: number
): ReadonlyArray<Doubt> => {
  const { scope, call } = doubt
  const disproved = disprovedUntil(logs)
  const kept = doubts.filter((one) => one.scope !== scope || one.startedAt > disproved)
  const calls = kept.filter((one) => one.scope === scope).map((one) => one.call)
  return calls.length >= provenBy || calls.includes(call) ? kept : [...kept, doubt]
}

/**
 * True when enough calls failed in the scope of `at` and no attempt that began since the first of them is still in
 * flight. `logs` are those of the scope.
 */
export const isProven = (
  logs: ReadonlyArray<TargetLog>,
  scope: Scope,
  at: TargetRef,
  flying: ReadonlySet<Flight>,
  provenBy: number
): boolean => {
  const disproved = disprovedUntil(logs)
  const doubts = logs.flatMap((log) =>
    log.doubts.filter((doubt) => doubt.scope === scope && doubt.startedAt > disproved)
  )
  const since = Math.min(...doubts.map(({ startedAt }) => startedAt))
  return (
    new Set(doubts.map(({ call }) => call)).size >= provenBy &&
    !Iterable.some(flying, ({ target, startedAt }) => startedAt >= since && Cool.covers(scope, at, target))
  )
}

/**
 * True when an attempt at the log's target that began at `startedAt` failed in silence and no other attempt there
 * contradicts it.
 */
export const isSilence = (
  { reason }: ProviderFailure,
  { progressedAt, target }: TargetLog,
  startedAt: number,
  flying: ReadonlySet<Flight>
): boolean => {
  if (reason._tag !== "Timeout" || !reason.local || progressedAt >= startedAt) return false
  const { phase, silent } = reason
  const isSilent = phase === "connect" || phase === "first-token" || (phase === "total" && silent === true)
  return (
    isSilent &&
    !Iterable.some(
      flying,
      ({ target: at, firstTokenAt, isHeard }) =>
        at.id === target.id && (firstTokenAt !== undefined || (isHeard && phase === "total"))
    )
  )
}
