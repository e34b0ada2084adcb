/**
 * The cooldown that a failure opens, and its length. Part of `CallState`. Pure.
 */
import { Duration } from "effect"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Failed, Snapshot, Streak } from "./CallModel.ts"
import type { Cooldown } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import * as Openings from "./Openings.ts"
import type { CooldownRule, Pacing, RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { isHedged } from "./RecoveryPolicy.ts"

/** True when the server named a wait that all calls must respect. */
export const isNotBefore = (row: Row, { retryAfter }: ProviderFailure): boolean =>
  row.cooldown?.retryAfter === "not-before" && retryAfter !== undefined

const isDown = ({ downAfter, worksFor }: Pacing, streak: Streak | undefined, now: number): boolean =>
  streak !== undefined &&
  streak.failures >= downAfter &&
  now - (streak.at ?? -Infinity) < Duration.toMillis(worksFor)

/**
 * Returns the cooldown to open when the call leaves the target. A rule with `proof: "several-calls"` needs that proof
 * even when the server named the wait: a server that sheds load names a wait to one call while it answers others. A
 * cooldown that covers every target of the chain, or the last one that is left, opens only for a wait that the server
 * named. The next call may as well try then. A target that is down (`pacing.downAfter`) does not count as left.
 */
export const cooldownFor = (
  policy: RecoveryPolicy<string>,
  { cooldown: rule, worthWaiting }: Row,
  { failure, isProven = false }: Failed,
  target: TargetRef,
  snapshot: Snapshot
): Cooldown | undefined => {
  const { pacing } = policy
  const { now, cooldowns, targets, streaks, answered } = snapshot
  if (rule === undefined || Cool.isOpen(cooldowns, rule.scope, target, now)) return undefined
  const { retryAfter } = failure
  const isNone = retryAfter === undefined || (Duration.isZero(retryAfter) && rule.retryAfter !== "not-before")
  const named = isNone || rule.retryAfter === "ignored" ? undefined : Duration.toMillis(retryAfter)
  const coversAll = targets.every(({ ref }) => Cool.covers(rule.scope, target, ref))
  const needsProof = rule.proof === "several-calls"
  if (needsProof && !isProven) return undefined
  // The last key that was refused stays out all the same: no request there helps any call.
  const isLast =
    (needsProof || worthWaiting) &&
    // From the end: calls leave the targets in their order, so the last ones are ready longest.
    targets.findLast(
      ({ ref }) =>
        !Cool.covers(rule.scope, target, ref) &&
        Cool.outOf(cooldowns, ref, now) === undefined &&
        !isDown(pacing, streaks.get(ref.id), now)
    ) === undefined
  const mayGuess = !coversAll && !isLast
  if (named === undefined && !mayGuess) return undefined
  const isTrusted =
    // Stryker disable next-line ConditionalExpression: only faster; `length` looks at the rule, too.
    rule.trusted !== undefined &&
    targets.some(
      ({ ref }) =>
        Cool.covers(rule.scope, target, ref) &&
        now - (answered.get(ref.id) ?? -Infinity) < Duration.toMillis(pacing.trustedFor)
    )
  const before = Cool.streakOf(cooldowns, rule.scope, target, now, Duration.toMillis(pacing.forgetAfter))
  const isServed =
    rule.looks !== undefined &&
    (failure.reason._tag !== "Timeout" || mayLookAtSilent(policy, target, snapshot)) &&
    targets.some(({ ref }) => serves(pacing, ref, rule, target, snapshot))
  // The wait that the server named first is kept. A served target is then looked at again after the same time each time, or
  // after a longer wait that the server names.
  const looks = isServed && mayGuess
  const guess = !mayGuess
    ? 0
    : looks && (before > 0 || named === undefined)
      ? Duration.toMillis(rule.looks)
      : Cool.length(rule, looks ? 0 : before, named, isTrusted)
  const isNamed = named !== undefined && (rule.retryAfter === "not-before" || named >= guess)
  const until = now + (isNamed ? named : guess)
  return {
    scope: rule.scope,
    target,
    until,
    failure,
    named: isNamed,
    looks,
    streak: looks ? Math.min(before, 1) + 1 : before + 1
  }
}

/**
 * True when a call may look at a silent target: it is hedged, so it does not wait, and the target has answered before.
 * Otherwise it is not known how long an answer takes, and a model that is only slow would lose to each hedge of a look.
 */
const mayLookAtSilent = (policy: RecoveryPolicy<string>, { id }: TargetRef, snapshot: Snapshot): boolean =>
  snapshot.answered.has(id) && isHedged(policy, Openings.viewOf(snapshot, id)?.info)

/** True when `other` answers in the place of a target that is out, as far as is known. */
const serves = (
  pacing: Pacing,
  other: TargetRef,
  { scope }: CooldownRule,
  target: TargetRef,
  { now, cooldowns, streaks }: Snapshot
): boolean =>
  !Cool.covers(scope, target, other) &&
  !isDown(pacing, streaks.get(other.id), now) &&
  Cool.outOf(cooldowns, other, now) === undefined
