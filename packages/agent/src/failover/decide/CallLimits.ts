/**
 * Limits of a call: attempts, money, time and retry budget that are left for another attempt. Pure.
 *
 * Times are monotonic milliseconds. `CallState` asks before it decides.
 */
import { Duration } from "effect"
import * as Choice from "./Choice.ts"
import type { CallState, Failed, Snapshot } from "./CallModel.ts"
import { isContinuing, isSweep } from "./CallModel.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"

type Policy = RecoveryPolicy<string>

/** The call has made all the attempts, or spent all the money, that it may. */
export const mustEnd = (policy: Policy, { ledger }: CallState): boolean =>
  ledger.attempts - ledger.sweeps >= policy.maxAttempts || ledger.cost >= (policy.maxCost ?? Infinity)

/** The time of the program around the call is up. */
export const isOver = ({ deadline, now }: Snapshot): boolean => deadline <= now

/** Milliseconds that waits and failed attempts may still take. */
export const timeLeft = (policy: Policy, { ledger }: CallState, { deadline, now }: Snapshot): number =>
  Math.min(Duration.toMillis(policy.deadline) - ledger.spent, deadline - now)

export const isLate = (policy: Policy, state: CallState, snapshot: Snapshot): boolean =>
  timeLeft(policy, state, snapshot) <= 0

/** An attempt that had streamed text was at work, not lost: its time does not count against the deadline. */
export const timeCounted = ({ commit, elapsed }: Failed): number => (commit === "text" ? 0 : elapsed)

/**
 * One silent attempt may take longer than the whole deadline. If it was that attempt that used it up, a target
 * that was not tried yet is still asked, once.
 */
export const mayAskAnother = (policy: Policy, state: CallState, event: Failed, snapshot: Snapshot): boolean =>
  // Stryker disable next-line ConditionalExpression: the first is for the types; other reasons have no `local`.
  event.failure.reason._tag === "Timeout" &&
  event.failure.reason.local &&
  snapshot.deadline > snapshot.now &&
  state.ledger.spent - timeCounted(event) < Duration.toMillis(policy.deadline) &&
  Choice.ready(policy, state, snapshot, snapshot.cooldowns).some(({ ref }) => !state.tries.has(ref.id))

/**
 * True when the retry budget allows an attempt at `target` after `delay` milliseconds (`undefined`: one more where it was).
 * What is free always is, and so is one switch to a target that was not asked.
 */
export const isAffordable = (
  state: CallState,
  { mayRetry, now }: Snapshot,
  target: TargetRef | undefined,
  delay = 0
): boolean =>
  mayRetry ||
  isFree(state, target, now + delay) ||
  (target !== undefined && !state.tries.has(target.id) && state.ledger.switches === state.ledger.sweeps)

/**
 * True when an attempt at time `at` costs no retry budget: a first attempt, a continuation, one at a further target after
 * a refusal, and one that waited as long as the server asked.
 */
export const isFree = (state: CallState, target: TargetRef | undefined, at: number): boolean => {
  if (state.left === undefined || isContinuing(state)) return true
  if (target === undefined) return false
  return isSweep(state, target) || at >= (state.tries.get(target.id)?.notBefore ?? Infinity)
}
