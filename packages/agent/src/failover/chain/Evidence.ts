/**
 * Distinguishes one call's bad luck from a model or an endpoint that is out. Pure.
 *
 * A cooldown of a model or an endpoint keeps all other calls out, so it needs proof. Proof is failures of {@link
 * enough} calls, without a success among the attempts that began since the first of them. Attempts in flight count as
 * not failed: under concurrency the circuits decide, because they know the share of failures.
 *
 * One silent failure is enough when no other attempt there made progress. Silence means that the time limit for the
 * connection, for the first token, or for a whole answer passed and nothing came. Headers are not progress of a
 * stream, because some providers send them before they can answer. They are progress of a whole answer, which shows
 * no other sign.
 *
 * **State.** For each scope (`Cooldown.idOf`): the time since when it fails, and the calls that failed. Bounded: a
 * chain has finitely many scopes, and at most {@link enough} calls are kept for each. Times are monotonic
 * milliseconds.
 */
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Scope } from "../decide/RecoveryPolicy.ts"

/** Number of calls whose failures prove that a scope is out. */
export const enough = 2

/** The failures of one scope so far. */
interface Doubt {
  /** Start of the first attempt that failed. */
  readonly since: number
  /** Numbers of the calls whose attempts failed. */
  readonly calls: ReadonlyArray<number>
}

export type Doubts = ReadonlyMap<string, Doubt>

export const none: Doubts = new Map()

/** An attempt in flight. */
export interface Flying {
  readonly target: TargetRef
  readonly startedAt: number
  /** True when content has arrived. */
  readonly hasProgress: boolean
  /** True when the headers of the response have arrived. */
  readonly isHeard: boolean
}

/** Records that an attempt of the call `call`, begun at `startedAt`, failed. */
export const failed = (
  doubts: Doubts,
  scope: Scope,
  { target, startedAt }: Pick<Flying, "target" | "startedAt">,
  call: number
): Doubts => {
  const id = Cool.idOf(scope, target)
  const known = doubts.get(id)
  if (known === undefined) return new Map(doubts).set(id, { since: startedAt, calls: [call] })
  return known.calls.includes(call) || known.calls.length >= enough
    ? doubts
    : new Map(doubts).set(id, { ...known, calls: [...known.calls, call] })
}

/** Records a success of an attempt that began at `startedAt`. Failures up to then no longer count. */
export const succeeded = (doubts: Doubts, target: TargetRef, startedAt: number): Doubts => {
  if (doubts.size === 0) return doubts
  const ids = Cool.scopes
    .map((scope) => Cool.idOf(scope, target))
    .filter((id) => startedAt >= (doubts.get(id)?.since ?? Infinity))
  if (ids.length === 0) return doubts
  const next = new Map(doubts)
  for (const id of ids) next.delete(id)
  return next
}

/** True when enough calls failed and no attempt that began since is still in flight. */
export const isProven = (
  doubts: Doubts,
  scope: Scope,
  target: TargetRef,
  flying: Iterable<Flying>
): boolean => {
  const doubt = doubts.get(Cool.idOf(scope, target))
  if (doubt === undefined || doubt.calls.length < enough) return false
  for (const attempt of flying) {
    if (attempt.startedAt >= doubt.since && Cool.covers(scope, target, attempt.target)) return false
  }
  return true
}

/** True when an attempt that began at `startedAt` failed in silence and no other attempt contradicts it. */
export const isSilence = (
  { reason }: ProviderFailure,
  target: TargetRef,
  flying: Iterable<Flying>,
  /** True when an attempt there made progress since the failed one began. */
  hasProgressed: boolean
): boolean => {
  if (reason._tag !== "Timeout" || !reason.local || hasProgressed) return false
  const isSilent =
    reason.phase === "connect" ||
    reason.phase === "first-token" ||
    (reason.phase === "total" && reason.silent)
  if (isSilent !== true) return false
  for (const { target: at, hasProgress, isHeard } of flying) {
    if (at.id === target.id && (hasProgress || (isHeard && reason.phase === "total"))) return false
  }
  return true
}
