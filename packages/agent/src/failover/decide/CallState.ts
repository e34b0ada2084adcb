/**
 * Decides every retry of a call, as a pure state machine: `(policy, state, event, snapshot, draw)` returns an action
 * and the next state. No Effect, no clock, no randomness.
 *
 * **States.** `idle` until `Started`; `attempting` while a request is in flight; `mending` during a remedy before the
 * next attempt (a compaction, a new key); `waiting` while all targets are out; `queued` while the retry budget is
 * empty; `done` after `GiveUp` or `Deliver`. A complete answer ends the call outside this machine.
 *
 * **Guarantees**, for every policy and every sequence of events:
 *
 * - The call ends.
 * - Attempts never exceed `maxAttempts`. First attempts at further targets after a refusal do not count.
 * - No wait reaches beyond the deadline. No attempt begins once waits and failed attempts have used up the deadline.
 *   One exception: if a single silent attempt used it up, the call still asks one target that it has not tried.
 * - No attempt begins once attempts have cost `maxCost`, or after the time limit of the surrounding program.
 * - No attempt follows a failure whose row says `stop` (a cancel, a malformed request), or a committed tool call.
 * - Without retry budget no target is asked twice, and only one switch is made. Then the call waits for the budget.
 *   Continuations, first attempts after a refusal and waits that the server named are free.
 * - Text that the consumer has seen is continued, or taken back where the consumer supports it.
 * - A cut answer with text is delivered if no attempt gives a better one. An object is never continued.
 *
 * **Limits.** The machine opens no cooldown. The action carries the cooldown, and the shell opens it before the next
 * step. Times are monotonic milliseconds. `Choice` selects targets, `CallLimits` decides whether another attempt is
 * allowed, `MidStream` handles text that was seen, and `CutAnswer` handles cut answers. The rest stands in one file of
 * over 600 lines, because each event reads and writes the same state.
 */
import { Duration } from "effect"
import { Backoff } from "@outlast/resilience"
import { Format, Timeout } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { leavable } from "../../failure/reasons/Leavable.ts"
import { badCalls, badObjects, local } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as Nudge from "../../recovery/Nudge.ts"
import {
  isAffordable,
  isFree,
  isLate,
  isOver,
  mayAskAnother,
  mustEnd,
  timeCounted,
  timeLeft
} from "./CallLimits.ts"
import * as Choice from "./Choice.ts"
import type {
  Action,
  CallState,
  Event,
  Failed,
  Reset,
  Sent,
  Snapshot,
  Step,
  TargetView
} from "./CallModel.ts"
import { isContinuing, outputLimitAt, wasCut } from "./CallModel.ts"
import type { Cooldown } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import { giveUp, onCut, withoutRaise } from "./CutAnswer.ts"
import { isRefusedText, midStreamAfter } from "./MidStream.ts"
import * as OutputLimit from "./OutputLimit.ts"
import type { RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"
import type { Sending } from "./Sending.ts"
import { atOnce, begun, sent, unsent } from "./Sending.ts"

export * from "./CallModel.ts"
export { midStreamAtMost } from "./MidStream.ts"

// -----------------------------------------------------------------------------
// The machine
// -----------------------------------------------------------------------------

type Policy = RecoveryPolicy<string>

/** Returns the next action and state. `draw` is in [0, 1). */
export const step = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  event: Event,
  snapshot: Snapshot,
  draw: number
): Step => {
  switch (event._tag) {
    case "Started":
      return choose(policy, { ...state, call: event, outputLimit: event.outputLimit.start }, snapshot, draw)
    case "Woke":
      return choose(policy, awake(state, event), snapshot, draw, event.to)
    case "TakenAway":
      return choose(policy, awake(unsent(state, true), event), snapshot, draw)
    case "PermitRefused":
      return onRefusal(policy, state, event, snapshot, draw)
    case "Failed":
      return onFailure(
        policy,
        afterFailure(policy, begun(state, event), event, snapshot, draw),
        event,
        snapshot,
        draw
      )
    case "Cut":
      return onCut(policy, begun(state, event), event, snapshot)
    case "Compacted":
    case "CompactionFailed":
      // Stryker disable next-line ConditionalExpression: for the types; only `Compacted` has a number.
      return event._tag === "Compacted" && event.freed > 0
        ? again(policy, { ...state, overflowed: undefined }, snapshot, draw)
        : mendedInVain(policy, { ...state, compactions: Infinity }, snapshot, draw)
    case "LeftOut":
      return event.dropped > 0
        ? again(policy, { ...state, mended: mendedBut(state, event) }, snapshot, draw)
        : mendedInVain(policy, state, snapshot, draw)
    case "KeyAsked":
      return event.renewed
        ? again(policy, state, snapshot, draw)
        : mendedInVain(policy, state, snapshot, draw)
  }
}

/** The state behind a wait. Gives back the time that was reserved for the wait and not used. */
const awake = (
  state: CallState,
  { early = 0, reset }: Pick<Extract<Event, { readonly _tag: "Woke" }>, "early" | "reset">
): CallState => {
  const { ledger } = state
  return afterReset({ ...state, ledger: { ...ledger, spent: Math.max(0, ledger.spent - early) } }, reset)
}

/**
 * The state without the waits that servers and circuits named for targets that an operator brought back since. As
 * behind a wait that the server named, the next attempt there takes no retry budget.
 */
export const afterReset = (state: CallState, reset: Reset | undefined): CallState => {
  if (reset === undefined || reset.size === 0) return state
  const refused = new Map(state.refused)
  const tries = new Map(state.tries)
  for (const id of reset) {
    const by = refused.get(id)
    // The call has waited all the same: a circuit lets such calls through gradually.
    if (by !== undefined) refused.set(id, { ...by, until: -Infinity })
    const own = tries.get(id)
    if (own !== undefined) tries.set(id, { ...own, backAt: undefined, notBefore: -Infinity })
  }
  return { ...state, refused, tries }
}

const tooLate = local("limit/deadline", new Timeout({ phase: "total", local: true }), undefined)

/**
 * True when a call that waits for a cooldown may continue early. A target that it may go to `isBack`: it has answered
 * another call in the meantime, or an operator brought it back. The retry budget has a token, or the attempt needs
 * none; successes refill the budget.
 */
export const mayWake = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  snapshot: Snapshot,
  isBack: (target: TargetRef) => boolean
): boolean =>
  Choice.ready(policy, state, snapshot, snapshot.cooldowns).some(
    (target) =>
      isBack(target.ref) &&
      (snapshot.mayRetry || isFree(state, target.ref, snapshot.now)) &&
      Cool.outOf(snapshot.cooldowns, target.ref, snapshot.now) === undefined &&
      Choice.mayGoTo(policy, state, target, snapshot)
  )

/** True when a call that waits for the retry budget may ask `target` now, or any target. */
export const mayRepeat = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  snapshot: Snapshot,
  target: TargetRef | undefined
): boolean =>
  Choice.ready(policy, state, snapshot, snapshot.cooldowns).some(
    (view) =>
      (target === undefined || view.ref.id === target.id) && Choice.mayGoTo(policy, state, view, snapshot)
  )

/**
 * Milliseconds for which a call waits at least before the retry budget lets it go again: the backoff of its repeats that
 * the budget let go and that failed. Without it the oldest call would use up its attempts within a few answers.
 */
export const restOf = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  { left, lastFailure, tries }: CallState
): number => {
  const released = left === undefined ? 0 : (tries.get(left.id)?.released ?? 0)
  // Stryker disable next-line ConditionalExpression: the first is for the types; a released repeat has failed.
  return lastFailure === undefined || released === 0
    ? 0
    : Backoff.delay(rowOf(policy, lastFailure).backoff, released, undefined, 0.5)
}

/** `to`: the target to prefer. */
const choose = (policy: Policy, state: CallState, snapshot: Snapshot, draw: number, to?: TargetRef): Step => {
  if (isOver(snapshot)) return giveUp(state, state.lastFailure ?? tooLate, undefined)
  const notOut = Choice.ready(policy, state, snapshot, snapshot.cooldowns)
  // A call that has left no target yet may go to any of them. This takes no retry budget.
  const first =
    // Stryker disable next-line ConditionalExpression: only faster; the way below gives the same.
    state.left === undefined ? Choice.preferred(notOut, state, snapshot, snapshot.cooldowns) : undefined
  // Stryker disable next-line ConditionalExpression: as above.
  if (first !== undefined) return sendAfterWait(policy, state, first.ref, snapshot)
  const hasNoTime = isLate(policy, state, snapshot)
  if (state.phase === "queued" && hasNoTime) return giveUp(state, state.lastFailure ?? tooLate, undefined)
  // An attempt that was not sent frees no time for a repeat on a target that the call has tried.
  const late = state.phase === "attempting" && hasNoTime
  const ready = notOut.filter(
    (target) => Choice.mayGoTo(policy, state, target, snapshot) && (!late || !state.tries.has(target.ref.id))
  )
  if (ready.length === 0) return waitOrGiveUp(policy, state, snapshot, undefined, draw)
  const affordable = ready.filter(({ ref }) => isAffordable(state, snapshot, ref))
  const unasked = Choice.unasked(state, affordable)
  const target =
    affordable.find(({ ref }) => ref.id === to?.id) ??
    Choice.preferred(unasked.length > 0 ? unasked : affordable, state, snapshot, snapshot.cooldowns)
  return target === undefined
    ? (queued(policy, state, snapshot, undefined) ??
        giveUp(state, state.lastFailure ?? Choice.allOut(policy, state, snapshot), undefined))
    : sendAfterWait(policy, state, target.ref, snapshot)
}

/**
 * Sends an attempt at `target`, as a last resort when the target's circuit refused this call and the call has
 * waited since.
 */
const sendAfterWait = (policy: Policy, state: CallState, target: TargetRef, snapshot: Snapshot): Step => {
  const isLast = state.phase === "waiting" && Choice.isRefusedByCircuit(policy, state, target)
  const sent = send(policy, state, target, 0, undefined, snapshot)
  return isLast ? asLastResort(...sent) : sent
}

const asLastResort = (action: Sending, next: CallState): Step => [
  { ...action, lastResort: true },
  { ...next, lastResort: true }
]

/**
 * Repeats the call on its target after a remedy, for example a compaction. Treats the failure as not remedied when
 * the remedy used up the time or the budget.
 */
const again = (policy: Policy, state: CallState, snapshot: Snapshot, draw: number): Step => {
  const { target } = state
  if (target === undefined) return giveUp(state, nowhere, undefined)
  return isOver(snapshot) || !isAffordable(state, snapshot, undefined)
    ? mendedInVain(policy, state, snapshot, draw)
    : send(policy, { ...state, pending: undefined }, target, 0, undefined, snapshot)
}

const mendedInVain = (policy: Policy, state: CallState, snapshot: Snapshot, draw: number): Step =>
  state.pending === undefined
    ? giveUp(state, nowhere, undefined)
    : onFailure(policy, { ...state, pending: undefined }, state.pending, snapshot, draw)

/** Failure for events in an order that no shell produces. */
const nowhere = local("call/out-of-order", new Format({ side: "request" }), undefined)

const onRefusal = (
  policy: Policy,
  state: CallState,
  { until, failure, waited, took = 0, byCircuit }: Event & { readonly _tag: "PermitRefused" },
  snapshot: Snapshot,
  draw: number
): Step => {
  // Every refusal takes at least 1 ms, so a call that is always refused reaches its deadline.
  const later = Math.max(until, snapshot.now + 1)
  const mayResort = byCircuit && !state.lastResort
  // Stryker disable next-line StringLiteral: any id that no target has.
  const refused = new Map(state.refused).set(state.target?.id ?? "", {
    until: later,
    failure,
    mayResort,
    byCircuit
  })
  const back = unsent(state, waited)
  const ledger = { ...back.ledger, spent: back.ledger.spent + took }
  return choose(policy, { ...back, ledger, refused }, snapshot, draw)
}

const afterFailure = (
  policy: Policy,
  state: CallState,
  event: Failed,
  snapshot: Snapshot,
  draw: number
): CallState => {
  const { failure, commit, keptText } = event
  const { retryAfter } = failure
  // Stryker disable next-line StringLiteral: as above.
  const id = state.target?.id ?? ""
  const { reason } = failure
  // Stryker disable next-line ConditionalExpression: for the types; it is read for an overflow only.
  const named = reason._tag === "ContextOverflow" ? reason.limit : undefined
  const isInBytes = reason._tag === "ContextOverflow" && reason.media === true
  const window = isInBytes ? undefined : (Choice.viewOf(snapshot, id)?.info.contextWindow ?? named)
  const tries = state.tries.get(id)
  const of = policy.classOf(failure)
  const classes = new Map(tries?.classes)
  classes.set(of, (classes.get(of) ?? 0) + 1)
  const seen = state.seen || commit === "text"
  const row = rowOf(policy, failure)
  const mode = midStreamAfter(policy, row, state, event)
  const isKept = keptText !== undefined
  // A named wait of zero is not a wait. The repeat then counts like one of our own.
  const isNamed = retryAfter !== undefined && !Duration.isZero(retryAfter)
  const next: CallState = {
    ...state,
    left: state.target,
    ledger: {
      ...state.ledger,
      spent: state.ledger.spent + timeCounted(event),
      cost: state.ledger.cost + event.cost,
      tokens: state.ledger.tokens + event.tokens
    },
    partial: state.partial || commit === "text" || (keptText === true && !state.call.structured),
    seen,
    cut: state.cut || isKept,
    hasText: state.hasText || keptText === true,
    raise: isKept ? undefined : state.raise,
    // Keep an answer that a limit cut. A new one would be cut again. A refusal is never kept.
    anew: state.anew || (seen && ((!state.cut && !isKept) || isRefusedText(event)) && mode === "restart"),
    lastFailure: failure,
    failedAfter: event.elapsed,
    // Failures of other targets do not count as consecutive failures of this one.
    inARow: {
      class: of,
      // Stryker disable next-line OptionalChaining: for the types; who has failed has left a target.
      count: state.inARow?.class === of && state.left?.id === id ? state.inARow.count + 1 : 1
    },
    overflowed:
      failure.reason._tag === "ContextOverflow"
        ? Math.max(window ?? 0, state.overflowed ?? 0)
        : state.overflowed,
    tries: new Map(state.tries).set(id, {
      count: tries?.count ?? 0,
      released: (tries?.released ?? 0) + (state.isReleased ? 1 : 0),
      delay: tries?.delay,
      failure,
      firstFailedAt: tries?.firstFailedAt ?? snapshot.now,
      classes,
      notBefore: isNamed ? snapshot.now + Duration.toMillis(retryAfter) : undefined
    })
  }
  const own = next.tries.get(id)
  // A wait of 0 is none. Once a call has failed more than once, it is a refusal that names no useful wait: its backoff
  // holds at this target, also when the call asks another one in between.
  const isZero =
    retryAfter !== undefined && !isNamed && next.ledger.attempts > 1 && row.retryAfter === "minimum"
  if (isZero && own !== undefined && failure.evidence.shouldRetry !== false) {
    const wait = Backoff.delay(row.backoff, next.ledger.attempts - next.ledger.sweeps, own.delay, draw)
    return { ...next, tries: new Map(next.tries).set(id, { ...own, backAt: snapshot.now + wait }) }
  }
  // Stryker disable next-line ConditionalExpression: the second is for the types; it was set above.
  if (!isNamed || own === undefined || row.retryAfter === "ignored") return next
  // Count all attempts of the call. Otherwise each of several keys under one limit would be asked again every second.
  const { used } = Choice.usedHere(policy, row, next, failure, snapshot)
  const attempts = Math.max(used, next.ledger.attempts - next.ledger.sweeps)
  const wait = waitOf(policy, row, failure, Backoff.delay(row.backoff, attempts, own.delay, draw), draw)
  const backAt = snapshot.now + (wait._tag === "TooLong" ? wait.retryAfter : wait.millis)
  return { ...next, tries: new Map(next.tries).set(id, { ...own, backAt }) }
}

/** Returns the wait before a repeat at the target that failed. `formula` is our own backoff in milliseconds. */
const waitOf = (policy: Policy, row: Row, { retryAfter }: ProviderFailure, formula: number, draw: number) => {
  const rule: Backoff.HintRule = {
    retryAfter: row.retryAfter,
    maxRetryAfter: policy.maxWait,
    retryAfterJitter: policy.retryAfterJitter
  }
  return Backoff.withHint(
    rule,
    formula,
    retryAfter === undefined ? undefined : Duration.toMillis(retryAfter),
    draw
  )
}

const onFailure = (
  policy: Policy,
  state: CallState,
  event: Failed,
  snapshot: Snapshot,
  draw: number
): Step => {
  const { failure, commit } = event
  const row = rowOf(policy, failure)
  const here = state.target
  if (here === undefined) return giveUp(state, failure, undefined)
  const lowered = withoutRaise(policy, state, event, here, snapshot)
  if (lowered !== undefined) return lowered
  const stops = row.then === "stop"
  if (stops && leavable(failure.reason).length === 0) return giveUp(state, failure, undefined)
  const leaving = Choice.cooldownFor(row, event, here, snapshot)
  const late = isLate(policy, state, snapshot)
  if (
    commit === "tool" ||
    (state.seen && midStreamAfter(policy, row, state, event) === "fail") ||
    mustEnd(policy, state) ||
    (late && !mayAskAnother(policy, state, event, snapshot)) ||
    Choice.failedTargets(state, policy.classOf(failure)) >= (row.targets ?? Infinity)
  ) {
    return giveUp(state, failure, leaving)
  }
  const mending = mend(policy, row, state, event, here, snapshot)
  if (mending !== undefined) return mending
  if (stops) return giveUp(state, failure, undefined)

  const opened = (cooldown: Cooldown | undefined) =>
    cooldown === undefined ? snapshot.cooldowns : Cool.open(snapshot.cooldowns, cooldown, snapshot.now)
  const othersAt = (cooldowns: Cool.Cooldowns) =>
    Choice.ready(policy, state, snapshot, cooldowns).filter(
      (target) =>
        target.ref.id !== here.id &&
        Choice.matches(row.to, here, target, snapshot, failure) &&
        (!late || !state.tries.has(target.ref.id)) &&
        isAffordable(state, snapshot, target.ref)
    )
  const after = opened(leaving)
  // For this call one failure is enough to prefer another target, even without the proof that other calls need.
  const proven =
    // Stryker disable next-line ConditionalExpression: only faster; the same cooldown would open.
    leaving === undefined
      ? opened(Choice.cooldownFor(row, { ...event, isProven: true }, here, snapshot))
      : after
  const elsewhere = othersAt(proven)
  const others = elsewhere.length > 0 ? elsewhere : othersAt(after)
  const wait = repeatDelay(policy, row, state, here, failure, snapshot, draw)
  const repeat = isAffordable(state, snapshot, here, wait) ? wait : undefined
  // A wait that the server named holds for all calls, even when this call stays at the target.
  const notBefore = Choice.isNotBefore(row, failure) ? leaving : undefined

  const { equivalents, rest } = candidates(policy, state, others, here)
  const equivalent = Choice.preferred(equivalents, state, snapshot, after)
  const other = equivalent ?? Choice.preferred(rest, state, snapshot, after)
  const delayThere = other === undefined ? 0 : returnDelay(policy, row, state, other.ref, draw)
  if (other !== undefined && delayThere <= Math.max(0, timeLeft(policy, state, snapshot))) {
    const stays =
      // Stryker disable next-line ConditionalExpression: for the types; a comparison with `undefined` is false.
      repeat !== undefined &&
      // Stryker disable next-line OptionalChaining: for the types; there is a failure.
      (state.inARow?.count ?? 0) < (row.switchAfter ?? Infinity) &&
      (equivalent === undefined
        ? state.ledger.spent + repeat <= Duration.toMillis(policy.patience)
        : preferredToEquivalent(policy, row, state, here, failure, repeat))
    return stays
      ? send(policy, state, here, repeat, notBefore, snapshot)
      : send(policy, state, other.ref, delayThere, leaving, snapshot)
  }
  if (repeat !== undefined) {
    const soonest = Choice.soonest(
      policy,
      state,
      { ...snapshot, cooldowns: after },
      (target) => target.ref.id !== here.id && Choice.mayGoTo(policy, state, target, snapshot)
    )
    if (soonest === undefined || snapshot.now + repeat <= soonest.until) {
      return send(policy, state, here, repeat, notBefore, snapshot)
    }
  }
  // A server with another wire format may accept the request, but the call does not wait for one.
  if (row.to === "other-dialect") return giveUp(state, failure, leaving)
  // Fail with this failure instead of `AllTargetsOut` when the targets are not at fault, or when the retry budget
  // allows no further attempt.
  const isOurs = row.then === "grow" || row.to !== "next" || !isAffordable(state, snapshot, undefined)
  const next = waitOrGiveUp(policy, state, { ...snapshot, cooldowns: after }, leaving, draw)
  return isOurs && next[0]._tag === "GiveUp"
    ? giveUp(state, failure, row.then === "grow" ? undefined : leaving)
    : next
}

/**
 * Returns the targets that the call can switch to: those of the same model, and all others. Targets that this call has
 * not asked come first. Otherwise short waits bring the call back to the same targets again and again, and it never
 * reaches the one that would answer. When `patience` is over, keys that failed this call no longer come before an
 * untried model.
 */
const candidates = (
  policy: Policy,
  state: CallState,
  others: ReadonlyArray<TargetView>,
  here: TargetRef
): { readonly equivalents: ReadonlyArray<TargetView>; readonly rest: ReadonlyArray<TargetView> } => {
  const equivalents = others.filter((target) => target.ref.model === here.model)
  const unasked = Choice.unasked(state, others)
  if (unasked.length === 0) return { equivalents, rest: others }
  const fresh = unasked.filter((target) => target.ref.model === here.model)
  const isPatient = state.ledger.spent <= Duration.toMillis(policy.patience)
  return { equivalents: fresh.length === 0 && isPatient ? equivalents : fresh, rest: unasked }
}

/** Returns a remedy that lets the same target succeed, if the failure has one. */
const mend = (
  policy: Policy,
  row: Row,
  state: CallState,
  event: Failed,
  here: TargetRef,
  snapshot: Snapshot
): Step | undefined => {
  const { failure } = event
  if (!isAffordable(state, snapshot, undefined)) return undefined
  const mending: CallState = { ...state, phase: "mending", pending: event }
  const marked = (what: string): CallState => ({
    ...mending,
    mended: new Set(state.mended).add(`${what} ${here.id}`)
  })
  if (
    failure.reason._tag === "Auth" &&
    Choice.viewOf(snapshot, here.id)?.renewable === true &&
    !state.mended.has(`key ${here.id}`)
  ) {
    return [{ _tag: "RenewKey", target: here, cooldown: undefined }, marked("key")]
  }
  const part = leavable(failure.reason).find((part) => !state.mended.has(`${part} ${here.id}`))
  if (part !== undefined) {
    return [{ _tag: "LeaveOut", part, target: here, failure, cooldown: undefined }, marked(part)]
  }
  if (row.then !== "grow") return undefined
  const limit = OutputLimit.lowered(failure) ?? Infinity
  const counted = failure.reason._tag === "ContextOverflow" ? failure.reason.output : undefined
  if (limit < (counted ?? outputLimitAt(state, here) ?? Infinity) && !state.lowered.has(here.model)) {
    const lowered = new Map(state.lowered).set(here.model, limit)
    const smaller: CallState = { ...mending, pending: undefined, overflowed: undefined, lowered }
    const [{ nudge, rewind, isFree }, next] = send(policy, smaller, here, 0, undefined, snapshot)
    return [{ _tag: "LowerOutputLimit", ...atOnce(here), isFree, limit, rewind, nudge }, next]
  }
  const isTooLong = failure.reason._tag === "ContextOverflow"
  const isAnew = policy.compactionsPer === "target" && state.compactedAt !== here.id
  const compactions = isAnew ? 0 : state.compactions
  if (isTooLong && snapshot.canCompact && compactions < policy.maxCompactions) {
    const next: CallState = { ...mending, compactions: compactions + 1, compactedAt: here.id }
    return [{ _tag: "Compact", target: here, failure, cooldown: undefined }, next]
  }
  return undefined
}

/** The remedies that the call has used. Leaving parts out is none yet while some of them are left. */
const mendedBut = (
  { mended, target }: CallState,
  { part, left = 0 }: Event & { readonly _tag: "LeftOut" }
): ReadonlySet<string> =>
  // Stryker disable next-line OptionalChaining: for the types; the target was asked.
  left === 0 ? mended : new Set([...mended].filter((remedy) => remedy !== `${part} ${target?.id}`))

/** True when the call should repeat on this target although another key or endpoint of the same model is ready. */
const preferredToEquivalent = (
  policy: Policy,
  row: Row,
  state: CallState,
  here: TargetRef,
  failure: ProviderFailure,
  delay: number
): boolean => {
  // Stryker disable next-line OptionalChaining: for the types; it was asked.
  const tries = state.tries.get(here.id)?.count ?? 0
  if (Choice.isNotBefore(row, failure)) {
    // Only once in a call: short waits at each of many limited keys would use up its attempts.
    if (state.ledger.switches > 0 || tries > 1) return false
    // Compare the real wait. The backoff may be longer than the wait that the server named.
    return delay <= Backoff.lengthened(Duration.toMillis(policy.shortWait), policy.retryAfterJitter, 1)
  }
  return tries <= row.repeatsBeforeEquivalent && delay <= Duration.toMillis(policy.patience)
}

/** Returns the delay before a repeat on the same target in milliseconds, or `undefined` when no repeat is allowed. */
const repeatDelay = (
  policy: Policy,
  row: Row,
  state: CallState,
  here: TargetRef,
  failure: ProviderFailure,
  snapshot: Snapshot,
  draw: number
): number | undefined => {
  const { used, delay, released } = Choice.usedHere(policy, row, state, failure, snapshot)
  const isSpent = used - released >= row.attempts && !Choice.mayGoOn(policy, state, here.id, snapshot)
  if (row.then !== "retry" || isSpent || failure.evidence.shouldRetry === false) return undefined
  const backoff = Backoff.delay(row.backoff, used, delay, draw)
  // A named wait of 0 is kept after the first failure. A server that names it again and again has no place yet.
  const isAtOnce = failure.retryAfter !== undefined && Duration.isZero(failure.retryAfter)
  const obeyed: Row =
    isAtOnce && used > 1 && row.retryAfter !== "wins" ? { ...row, retryAfter: "ignored" } : row
  const wait = waitOf(policy, obeyed, failure, backoff, draw)
  // Stryker disable next-line ConditionalExpression,StringLiteral: the first is for the types; what is too long has no `millis`.
  if (wait._tag === "TooLong" || wait.millis > timeLeft(policy, state, snapshot)) return undefined
  // Another call may have opened a cooldown for the target in the meantime, or this call has probed it.
  const out = Cool.outOf(snapshot.cooldowns, here, snapshot.now + wait.millis)
  return out === undefined ? wait.millis : undefined
}

/**
 * Milliseconds before the call goes to `target`. It goes at once to a target that it has not asked. Once all have failed,
 * one backoff holds over all of them: it grows with each further attempt, wherever that was made.
 */
const returnDelay = (
  policy: Policy,
  row: Row,
  { ledger, tries }: CallState,
  { id }: TargetRef,
  draw: number
): number => {
  const own = tries.get(id)
  if (
    !policy.sharedBackoff ||
    own?.failure === undefined ||
    own.backAt !== undefined ||
    row.then !== "retry" ||
    !row.worthWaiting
  )
    return 0
  return Backoff.delay(row.backoff, ledger.attempts - ledger.sweeps - tries.size + 1, own.delay, draw)
}

/** Milliseconds that each wait lasts at least once a call has made as many waits as it may make attempts: so it ends. */
const leastOfMany = 1_000

const waitOrGiveUp = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  cooldown: Cooldown | undefined,
  draw: number
): Step => {
  const soonest = Choice.soonest(policy, state, snapshot, (target) =>
    Choice.mayGoTo(policy, state, target, snapshot)
  )
  const left = timeLeft(policy, state, snapshot)
  const resort = Choice.lastResort(policy, state, snapshot)
  if (resort !== undefined && left > 0 && isAffordable(state, snapshot, resort) && !mustEnd(policy, state)) {
    return asLastResort(...send(policy, state, resort, 0, cooldown, snapshot))
  }
  if (
    soonest !== undefined &&
    policy.whenAllOut !== "fail" &&
    isAffordable(state, snapshot, soonest.target, Math.max(0, soonest.until - snapshot.now)) &&
    !mustEnd(policy, state)
  ) {
    const { target, until, failure } = soonest
    if (
      policy.whenAllOut === "probe" &&
      isAffordable(state, snapshot, soonest.target) &&
      !soonest.refused &&
      Cool.isUnprobed(snapshot.cooldowns, target, snapshot.now) &&
      !state.mended.has(`out ${target.id}`)
    ) {
      const mended = new Set(state.mended).add(`out ${target.id}`)
      return send(policy, { ...state, mended }, target, 0, cooldown, snapshot)
    }
    const wait = Math.max(0, until - snapshot.now)
    const tooLong = failure.retryAfter !== undefined && wait > Duration.toMillis(policy.maxWait)
    if (wait <= left && !tooLong) {
      // Other calls may have put the target out again when this one wakes. It waits on, for no request, until its deadline.
      const isMany = !soonest.refused && state.ledger.waits >= policy.maxAttempts
      const least = isMany ? Math.max(wait, leastOfMany) : wait
      const sleep = Math.min(left, Backoff.lengthened(least, policy.retryAfterJitter, draw))
      const { ledger } = state
      const next: CallState = {
        ...state,
        phase: "waiting",
        ledger: { ...ledger, waits: ledger.waits + (soonest.refused ? 0 : 1), spent: ledger.spent + sleep }
      }
      return [{ _tag: "Wait", until: snapshot.now + sleep, cooldown, soonest, forBudget: false }, next]
    }
  }
  return (
    queued(policy, state, snapshot, cooldown) ??
    giveUp(state, Choice.allOut(policy, state, snapshot), cooldown)
  )
}

/**
 * Waits for the retry budget instead of ending the call: `undefined` when the budget is not the reason, or when no wait
 * can help. The shell wakes the call as soon as a success pays for its attempt, in the order of the calls. A call that
 * wakes without a token has no hope left, and ends.
 */
const queued = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  cooldown: Cooldown | undefined
): Step | undefined => {
  const { lastFailure: failure, left: target, ledger } = state
  const left = timeLeft(policy, state, snapshot)
  if (
    snapshot.mayRetry ||
    // Stryker disable next-line ConditionalExpression: for the types; a call that was not answered has failed somewhere.
    failure === undefined ||
    // Stryker disable next-line ConditionalExpression: for the types; a call that has failed has left a target.
    target === undefined ||
    policy.whenAllOut !== "wait" ||
    left <= 0 ||
    mustEnd(policy, state) ||
    state.phase === "queued" ||
    !mayReturn(policy, state, failure, snapshot)
  ) {
    return undefined
  }
  const until = snapshot.now + left
  return [
    { _tag: "Wait", until, cooldown, soonest: { target, until, failure, refused: false }, forBudget: true },
    { ...state, phase: "queued", ledger: { ...ledger, spent: ledger.spent + left } }
  ]
}

/**
 * True when a target can be asked before the deadline: one that the call has not asked, or any if its failure passes.
 */
const mayReturn = (
  policy: Policy,
  state: CallState,
  failure: ProviderFailure,
  snapshot: Snapshot
): boolean => {
  const end = snapshot.now + timeLeft(policy, state, snapshot)
  const mayRepeat = rowOf(policy, failure).worthWaiting
  return Choice.ready(policy, state, { ...snapshot, now: end }, snapshot.cooldowns).some(
    (target) =>
      (mayRepeat || !state.tries.has(target.ref.id)) && Choice.mayGoTo(policy, state, target, snapshot)
  )
}

const send = (
  policy: Policy,
  state: CallState,
  target: TargetRef,
  delay: number,
  cooldown: Cooldown | undefined,
  snapshot: Snapshot
): readonly [Extract<Action, { readonly _tag: "Attempt" | "Switch" | "Continue" }>, CallState] => {
  const { left: from, lastFailure: failure } = state
  const row = failure === undefined ? undefined : rowOf(policy, failure)
  const rewind = state.anew && state.seen && state.call.rewindable
  const next = sent(state, target, delay)
  const probe = Cool.outOf(snapshot.cooldowns, target, snapshot.now + delay) !== undefined
  const common: Sent = {
    target,
    delay,
    cooldown,
    probe,
    lastResort: false,
    isFree: isFree(state, target, snapshot.now + delay)
  }
  if (from === undefined) return [{ _tag: "Attempt", ...common, rewind, nudge: undefined }, next]
  const { attempts } = next.ledger
  if (isContinuing(next)) {
    // An answer that the limit cut has no failure.
    const cause = wasCut(state) ? undefined : failure
    const { cut, interrupted } = policy.nudges
    const nudge = cause === undefined ? cut : (betterSample(policy, cause) ?? interrupted)
    const words = Nudge.textOf(nudge, cause, attempts)
    return [
      { _tag: "Continue", from, failure: cause, ...common, rewind: false, nudge: words, raisedTo: undefined },
      next
    ]
  }
  const asks = row?.nudge ?? (failure === undefined ? undefined : betterSample(policy, failure))
  const nudge = asks === undefined ? undefined : Nudge.textOf(asks, failure, attempts)
  return from.id === target.id || failure === undefined
    ? [{ _tag: "Attempt", ...common, rewind, nudge }, next]
    : [{ _tag: "Switch", from, failure, ...common, rewind, nudge }, next]
}

/** The nudge that asks for a better sample, after a bad one. */
const betterSample = ({ nudges }: Policy, { evidence: { rule } }: ProviderFailure): Nudge.Nudge | undefined =>
  badCalls.has(rule) ? nudges.wrongCall : badObjects.has(rule) ? nudges.wrongObject : undefined
