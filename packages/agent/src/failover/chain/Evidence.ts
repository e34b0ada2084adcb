/**
 * Tells one call's bad luck from a model or an endpoint that is out. Pure.
 *
 * A cooldown of a model or an endpoint keeps all other calls away. So it needs proof: failures of {@link enough} calls,
 * without a success among the attempts that began since the first of them. Attempts in flight count as not failed: under
 * concurrency the circuits judge, which know shares.
 *
 * One failure is proof where silence is what failed: a limit for the connection, for the first token, or for an answer of
 * which nothing came, while no other attempt there made progress. Headers alone are no progress of a stream: some providers
 * send them before they are ready to answer. They are progress of a whole answer, of which nothing else can be seen.
 *
 * **State.** By scope (`Cooldown.idOf`), since when it fails and which calls. Bounded: a chain has finitely many scopes,
 * and of each at most {@link enough} calls are remembered. Times are monotonic milliseconds.
 */
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Scope } from "../decide/RecoveryPolicy.ts"

/** Calls whose failures prove that a scope is out. */
export const enough = 2

/** What is held against a scope. */
interface Doubt {
  /** When the first attempt began that failed. */
  readonly since: number
  /** The numbers of the calls whose attempts failed. */
  readonly calls: ReadonlyArray<number>
}

export type Doubts = ReadonlyMap<string, Doubt>

export const none: Doubts = new Map()

/** An attempt in flight. */
export interface Flying {
  readonly target: TargetRef
  readonly startedAt: number
  /** Content has come of it. */
  readonly hasProgress: boolean
  /** The headers of its response have come. */
  readonly isHeard: boolean
}

/** An attempt of the call `call`, begun at `startedAt`, failed. */
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

/** An attempt that began at `startedAt` succeeded: what failed since then says nothing any more. */
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

/** Whether enough calls failed, and no attempt that began since is still in flight. */
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

/** Whether the failure of an attempt that began at `startedAt` is a silence that no other attempt contradicts. */
export const isSilence = (
  { reason }: ProviderFailure,
  target: TargetRef,
  flying: Iterable<Flying>,
  /** Whether an attempt there made progress since the failed one began. */
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
