/**
 * Limits of a call: attempts, money, time and retry budget that are left for another attempt. Part of `CallState`.
 * Pure.
 *
 * Times are monotonic milliseconds.
 */
import { Duration, Iterable } from "effect"
import { isContinuing } from "./AnswerSoFar.ts"
import { hasTried, isSweep, triesAt } from "./CallLog.ts"
import type { Failed, Snapshot } from "./CallModel.ts"
import type { CallState } from "./State.ts"
import { flightOf } from "./State.ts"
import * as Openings from "./Openings.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"

type Policy = RecoveryPolicy<string>

/** True when the call has used all its attempts or all its money. */
export const mustEnd = (policy: Policy, { made }: CallState): boolean =>
  made.attempts - made.sweeps >= policy.maxAttempts || made.cost >= (policy.maxCost ?? Infinity)

/** True when the time limit of the surrounding program is over. */
export const isOver = ({ deadline, now }: Snapshot): boolean => deadline <= now

/** Milliseconds that waits and failed attempts may still take. */
export const timeLeft = (
  policy: Policy,
  state: CallState,
  { deadline, now }: Pick<Snapshot, "deadline" | "now">
): number => {
  const spent = state.made.spent + (flightOf(state)?.delay ?? 0)
  return Math.min(Duration.toMillis(policy.deadline) - spent, deadline - now)
}

/** True when waits and failed attempts have used up the deadline. */
export const hasNoTime = (policy: Policy, state: CallState, snapshot: Snapshot): boolean =>
  timeLeft(policy, state, snapshot) <= 0

/** True while failures have not used up the time before the call prefers another model. */
export const isPatient = ({ patience }: Policy, { made }: CallState, more = 0): boolean =>
  made.spent + more <= Duration.toMillis(patience)

/**
 * Time of an attempt that counts against patience and deadline. An attempt that streamed text was working until its last
 * part: only the silence behind it counts. Of two attempts at the same time, the longer one counts.
 */
export const timeCounted = ({ commit, elapsed, overlap = 0, silent = 0 }: Failed): number =>
  commit === "text" ? silent : elapsed - overlap

/**
 * One silent attempt may take longer than the whole deadline. When that attempt used up the deadline, the call still
 * asks one target that it has not tried.
 */
export const mayAskAnother = (policy: Policy, state: CallState, event: Failed, snapshot: Snapshot): boolean =>
  // Stryker disable next-line ConditionalExpression: the first is for the types; other reasons have no `local`.
  event.failure.reason._tag === "Timeout" &&
  event.failure.reason.local &&
  snapshot.deadline > snapshot.now &&
  state.made.spent - timeCounted(event) < Duration.toMillis(policy.deadline) &&
  Openings.ready(policy, state, snapshot)(({ ref }) => !hasTried(state, ref)) !== undefined

/**
 * True when the retry budget allows an attempt at `target` after `delay` milliseconds. Free attempts are always allowed,
 * and so is one switch to a target that was not asked.
 */
export const isAffordable = (
  state: CallState,
  { mayRetry, now }: Snapshot,
  target: TargetRef,
  delay = 0
): boolean =>
  mayRetry ||
  isFree(state, target, now + delay) ||
  (!hasTried(state, target) && state.made.switches === state.made.sweeps)

/** True when the retry budget allows a repeat at once where the call is. */
export const mayRepeat = ({ answer }: CallState, { mayRetry }: Snapshot): boolean =>
  mayRetry || isContinuing(answer)

/**
 * True when an attempt at time `at` takes no retry budget: a first attempt, a continuation, an attempt at a further
 * target after a refusal, or an attempt after the wait that the server named.
 */
export const isFree = (state: CallState, target: TargetRef, at: number): boolean =>
  state.made.left === undefined ||
  isContinuing(state.answer) ||
  isSweep(state, target) ||
  at >= (triesAt(state, target).notBefore ?? Infinity)

/** True when a target has answered a call lately. */
export const hasAnswered = (
  { pacing }: Policy,
  { now, answered }: Pick<Snapshot, "now" | "answered">
): boolean => Iterable.some(answered.values(), (at) => now - at < Duration.toMillis(pacing.worksFor))

/**
 * True when the chain works although this call failed: a target has answered lately, or an attempt is in flight for
 * longer than this call's failure took. A call without retry budget then waits for it.
 */
export const isWorking = (
  policy: Policy,
  { made: { failedAfter } }: CallState,
  { now, answered, flying }: Pick<Snapshot, "now" | "answered" | "flying">
): boolean =>
  hasAnswered(policy, { now, answered }) ||
  Iterable.some(flying.values(), ({ startedAt }) => now - startedAt >= failedAfter)
