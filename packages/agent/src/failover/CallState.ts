/**
 * The one owner of every retry of a call, as a pure machine: `(policy, state, event, snapshot, draw)` gives an
 * action and the next state. No Effect, no clock, no randomness.
 *
 * **States.** `idle` until `Started`; `attempting` while a request is under way; `waiting` while all targets
 * are out; `done` for ever after `GiveUp`. A success ends the call outside the machine.
 *
 * **Always true**, for every policy and every sequence of events: it ends; attempts never exceed
 * `maxAttempts`; no wait reaches beyond the deadline, and once waits and failed attempts have used it up no
 * attempt begins, but for one: if a silent attempt alone used it up, one target that was not tried yet is still
 * asked; no attempt begins once failed attempts have cost `maxCost`; a failure that is to stop (a cancel, a
 * malformed request) is never followed by an attempt, nor is a committed tool call.
 *
 * **What it does not do.** It opens no cooldown by itself: the action carries it, and the shell opens it
 * before the next step. Times are monotonic milliseconds.
 */
import { Duration } from "effect"
import { Backoff } from "@outlast/resilience"
import type { CallFailure, TargetOut } from "../failure/CallFailure.ts"
import { AllTargetsOut } from "../failure/CallFailure.ts"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import type { TargetRef } from "../failure/TargetRef.ts"
import type { Cooldown, Cooldowns } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import type { RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"

/** How much of an attempt the consumer has seen. */
export type Commit = "nothing" | "reasoning" | "text" | "tool"

export type Event =
  | { readonly _tag: "Started" }
  | {
      readonly _tag: "Failed"
      readonly failure: ProviderFailure
      readonly commit: Commit
      /** Milliseconds that the attempt took. */
      readonly elapsed: number
      /** US dollars that the attempt cost, where known. */
      readonly cost: number
    }
  | { readonly _tag: "Woke" }
  /** While an attempt was delayed another call opened a cooldown over its target: it was not sent. */
  | { readonly _tag: "TakenAway" }

export type Action =
  /** Send the call to `target` after `delay`: the first attempt, or one more on the same target. */
  | {
      readonly _tag: "Attempt"
      readonly target: TargetRef
      readonly delay: number
      readonly cooldown: Cooldown | undefined
    }
  /** Send the call to another target at once. */
  | {
      readonly _tag: "Switch"
      readonly from: TargetRef
      readonly target: TargetRef
      readonly delay: 0
      readonly failure: ProviderFailure
      readonly cooldown: Cooldown | undefined
    }
  /** Send the partial answer that was seen to `target`, to be continued there. */
  | {
      readonly _tag: "Continue"
      readonly from: TargetRef
      readonly target: TargetRef
      readonly delay: number
      readonly failure: ProviderFailure
      readonly cooldown: Cooldown | undefined
    }
  /** All targets are out: sleep, then `Woke`. */
  | { readonly _tag: "Wait"; readonly until: number; readonly cooldown: Cooldown | undefined }
  | { readonly _tag: "GiveUp"; readonly failure: CallFailure; readonly cooldown: Cooldown | undefined }

/** A target as the machine sees it. */
export interface TargetView {
  readonly ref: TargetRef
  /** Tokens; unknown when absent. */
  readonly contextWindow: number | undefined
}

/** An immutable view of the chain. */
export interface Snapshot {
  readonly now: number
  /** In order of preference. */
  readonly targets: ReadonlyArray<TargetView>
  /** Targets that could not be built: never chosen, and named when all are out. */
  readonly dead: ReadonlyArray<TargetOut>
  readonly cooldowns: Cooldowns
}

interface Tries {
  readonly count: number
  /** Milliseconds that the last repeat waited; none before the first. */
  readonly delay: number | undefined
  readonly failure: ProviderFailure | undefined
}

export interface CallState {
  readonly phase: "idle" | "attempting" | "waiting" | "done"
  readonly target: TargetRef | undefined
  readonly attempts: number
  readonly waits: number
  readonly switches: number
  /** Milliseconds of waits and failed attempts. */
  readonly spent: number
  /** US dollars of failed attempts. */
  readonly cost: number
  /** The consumer has seen text: every further attempt continues it. */
  readonly textSeen: boolean
  readonly lastFailure: ProviderFailure | undefined
  /** The largest window that the conversation did not fit, in tokens. */
  readonly overflowed: number | undefined
  /** By target id. */
  readonly tries: ReadonlyMap<string, Tries>
}

export const initial: CallState = {
  phase: "idle",
  target: undefined,
  attempts: 0,
  waits: 0,
  switches: 0,
  spent: 0,
  cost: 0,
  textSeen: false,
  lastFailure: undefined,
  overflowed: undefined,
  tries: new Map()
}

type Step = readonly [Action, CallState]

/** Decides what happens next. `draw` is in [0, 1). */
export const step = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  event: Event,
  snapshot: Snapshot,
  draw: number
): Step => {
  switch (event._tag) {
    case "Started":
    case "Woke":
      return choose(policy, state, snapshot, draw)
    case "TakenAway":
      return choose(policy, unsent(state), snapshot, draw)
    case "Failed":
      return onFailure(policy, afterFailure(state, event, snapshot), event, snapshot, draw)
  }
}

const choose = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  snapshot: Snapshot,
  draw: number
): Step => {
  const ready = readyTargets(policy, state, snapshot, snapshot.cooldowns)[0]
  return ready === undefined
    ? waitOrGiveUp(policy, state, snapshot, undefined, draw)
    : send(state, ready.ref, 0, undefined)
}

/** The state without the attempt that was not sent. Its delay was waited, and counts. */
const unsent = (state: CallState): CallState => {
  const id = state.target?.id ?? ""
  const tries = state.tries.get(id)
  return {
    ...state,
    attempts: state.attempts - 1,
    // It counts as a wait, so that others cannot keep a call waking for ever.
    waits: state.waits + 1,
    tries:
      tries === undefined ? state.tries : new Map(state.tries).set(id, { ...tries, count: tries.count - 1 })
  }
}

const afterFailure = (
  state: CallState,
  event: Event & { readonly _tag: "Failed" },
  snapshot: Snapshot
): CallState => {
  const id = state.target?.id ?? ""
  const window = windowOf(snapshot, id)
  const tries = state.tries.get(id)
  return {
    ...state,
    // An attempt that had streamed text was at work, not lost: its time does not count against the deadline.
    spent: state.spent + (event.commit === "text" ? 0 : event.elapsed),
    cost: state.cost + event.cost,
    textSeen: state.textSeen || event.commit === "text",
    lastFailure: event.failure,
    overflowed:
      event.failure.reason._tag === "ContextOverflow" && window !== undefined
        ? Math.max(window, state.overflowed ?? 0)
        : state.overflowed,
    tries: new Map(state.tries).set(id, {
      count: tries?.count ?? 0,
      delay: tries?.delay,
      failure: event.failure
    })
  }
}

const onFailure = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  { failure, commit, elapsed }: Event & { readonly _tag: "Failed" },
  snapshot: Snapshot,
  draw: number
): Step => {
  const row = rowOf(policy, failure)
  const here = state.target
  if (here === undefined || row.then === "stop") return giveUp(state, failure, undefined)
  const leaving = cooldownFor(row, failure, here, snapshot)
  if (
    commit === "tool" ||
    (state.textSeen && policy.midStream === "fail") ||
    state.attempts >= policy.maxAttempts ||
    (isLate(policy, state.spent) && !mayAskAnother(policy, state, failure, elapsed, snapshot)) ||
    (policy.maxCost !== undefined && state.cost >= policy.maxCost)
  ) {
    return giveUp(state, failure, leaving)
  }

  const after =
    leaving === undefined ? snapshot.cooldowns : Cool.open(snapshot.cooldowns, leaving, snapshot.now)
  const others = readyTargets(policy, state, snapshot, after).filter(
    ({ ref }) => ref.id !== here.id && (!isLate(policy, state.spent) || !state.tries.has(ref.id))
  )
  const repeat = repeatDelay(policy, row, state, failure, draw)
  // A wait that the server named holds for all calls, even while this one stays.
  const notBefore = row.retryAfter === "not-before" && failure.retryAfter !== undefined ? leaving : undefined

  const equivalent = others.find((target) => target.ref.model === here.model)
  const other = equivalent ?? others[0]
  if (other !== undefined) {
    const stays =
      repeat !== undefined &&
      (equivalent === undefined
        ? state.spent + repeat <= Duration.toMillis(policy.patience)
        : preferredToEquivalent(policy, row, state, failure, repeat))
    return stays ? send(state, here, repeat, notBefore) : send(state, other.ref, 0, leaving)
  }
  if (repeat !== undefined) {
    const soonest = soonestOf(policy, state, snapshot, after, here)
    if (soonest === undefined || snapshot.now + repeat <= soonest.until)
      return send(state, here, repeat, notBefore)
  }
  const next = waitOrGiveUp(policy, state, { ...snapshot, cooldowns: after }, leaving, draw)
  // An overflow with no larger window to wait for is the conversation's failure, not the targets'.
  return row.then === "grow" && next[0]._tag === "GiveUp" ? giveUp(state, failure, undefined) : next
}

const isLate = <Class extends string>(policy: RecoveryPolicy<Class>, spent: number): boolean =>
  spent >= Duration.toMillis(policy.deadline)

/**
 * One silent attempt may take longer than the whole deadline. If it was that attempt that used it up, a target
 * that was not tried yet is still asked, once.
 */
const mayAskAnother = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  { reason }: ProviderFailure,
  elapsed: number,
  snapshot: Snapshot
): boolean =>
  reason._tag === "Timeout" &&
  reason.local &&
  !isLate(policy, state.spent - elapsed) &&
  readyTargets(policy, state, snapshot, snapshot.cooldowns).some(({ ref }) => !state.tries.has(ref.id))

/** Whether to repeat here although another key or endpoint of the same model is ready. */
const preferredToEquivalent = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  row: Row,
  state: CallState,
  failure: ProviderFailure,
  delay: number
): boolean => {
  if (row.retryAfter === "not-before" && failure.retryAfter !== undefined) {
    // What is really waited counts: the backoff may have grown beyond the wait that was named.
    return delay <= Backoff.lengthened(Duration.toMillis(policy.shortWait), policy.retryAfterJitter, 1)
  }
  return triesHere(state) <= row.repeatsBeforeEquivalent && delay <= Duration.toMillis(policy.patience)
}

/** The delay before one more attempt on the same target, or `undefined` where there may be none. */
const repeatDelay = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  row: Row,
  state: CallState,
  failure: ProviderFailure,
  draw: number
): number | undefined => {
  const tries = triesHere(state)
  if (row.then !== "retry" || tries >= row.attempts) return undefined
  const rule: Backoff.HintRule = {
    retryAfter: "minimum",
    maxRetryAfter: policy.maxWait,
    retryAfterJitter: policy.retryAfterJitter
  }
  const formula = Backoff.delay(row.backoff, tries, delayHere(state), draw)
  const named = failure.retryAfter === undefined ? undefined : Duration.toMillis(failure.retryAfter)
  const wait = Backoff.withHint(rule, formula, named, draw)
  if (wait._tag === "TooLong" || state.spent + wait.millis > Duration.toMillis(policy.deadline))
    return undefined
  return wait.millis
}

/**
 * What leaving the target keeps from being chosen. Where that would be every target of the chain, as with a
 * single one, only waits that the server named are kept: the next call may as well try.
 */
const cooldownFor = (
  row: Row,
  failure: ProviderFailure,
  target: TargetRef,
  { now, cooldowns, targets }: Snapshot
): Cooldown | undefined => {
  const rule = row.cooldown
  if (rule === undefined || Cool.isOpen(cooldowns, rule.scope, target, now)) return undefined
  const named = failure.retryAfter === undefined ? undefined : Duration.toMillis(failure.retryAfter)
  const coversAll = targets.every(({ ref }) => Cool.covers(rule.scope, target, ref))
  if (named === undefined && coversAll) return undefined
  const formula = coversAll ? 0 : Cool.length(rule, Cool.streakOf(cooldowns, rule.scope, target))
  const length =
    named !== undefined && row.retryAfter === "not-before" ? named : Math.max(formula, named ?? 0)
  return { scope: rule.scope, target, until: now + length, failure }
}

const readyTargets = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  { now, targets }: Snapshot,
  cooldowns: Cooldowns
): ReadonlyArray<TargetView> =>
  cooldowns.size === 0 && state.tries.size === 0
    ? targets
    : targets.filter(
        (target) =>
          Cool.outOf(cooldowns, target.ref, now) === undefined && !isExhausted(policy, state, target)
      )

/** The call has nothing to hope for from this target: its attempts are used up, or its window is too small. */
const isExhausted = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  { ref, contextWindow }: TargetView
): boolean => {
  if (state.overflowed !== undefined && (contextWindow ?? 0) <= state.overflowed) return true
  const tries = state.tries.get(ref.id)
  return tries?.failure !== undefined && tries.count >= rowOf(policy, tries.failure).attempts
}

const windowOf = ({ targets }: Snapshot, id: string): number | undefined =>
  targets.find((target) => target.ref.id === id)?.contextWindow

/** The target that is back first, of those that are worth waiting for. */
const soonestOf = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  { now, targets }: Snapshot,
  cooldowns: Cooldowns,
  except: TargetRef | undefined
): Cool.Out | undefined => {
  let soonest: Cool.Out | undefined
  for (const target of targets) {
    const { ref } = target
    if (ref.id === except?.id || isExhausted(policy, state, target)) continue
    const out = Cool.outOf(cooldowns, ref, now)
    if (out === undefined || !rowOf(policy, out.failure).worthWaiting) continue
    if (out.until < (soonest?.until ?? Infinity)) soonest = out
  }
  return soonest
}

const waitOrGiveUp = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  snapshot: Snapshot,
  cooldown: Cooldown | undefined,
  draw: number
): Step => {
  const soonest = soonestOf(policy, state, snapshot, snapshot.cooldowns, undefined)
  const left = Duration.toMillis(policy.deadline) - state.spent
  if (soonest !== undefined && state.waits < policy.maxAttempts) {
    const wait = soonest.until - snapshot.now
    const tooLong = soonest.failure.retryAfter !== undefined && wait > Duration.toMillis(policy.maxWait)
    if (wait <= left && !tooLong) {
      const sleep = Math.min(left, Backoff.lengthened(wait, policy.retryAfterJitter, draw))
      const next: CallState = {
        ...state,
        phase: "waiting",
        waits: state.waits + 1,
        spent: state.spent + sleep
      }
      return [{ _tag: "Wait", until: snapshot.now + sleep, cooldown }, next]
    }
  }
  return giveUp(state, allOut(policy, state, snapshot), cooldown)
}

const allOut = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  { now, cooldowns, targets, dead }: Snapshot
): AllTargetsOut => {
  let soonest = Infinity
  const outs = targets.flatMap(({ ref }): ReadonlyArray<TargetOut> => {
    const out = Cool.outOf(cooldowns, ref, now)
    const failure = out?.failure ?? state.tries.get(ref.id)?.failure
    if (failure === undefined) return []
    if (out === undefined || out.until === Infinity) return [{ target: ref, failure }]
    const wait = out.until - now
    if (rowOf(policy, failure).worthWaiting) soonest = Math.min(soonest, wait)
    return [{ target: ref, failure, availableIn: Duration.millis(wait) }]
  })
  return new AllTargetsOut({
    targets: [...outs, ...dead],
    attempts: state.attempts,
    ...(soonest === Infinity ? {} : { soonest: Duration.millis(soonest) })
  })
}

const send = (state: CallState, target: TargetRef, delay: number, cooldown: Cooldown | undefined): Step => {
  const from = state.target
  const failure = state.lastFailure
  const tries = state.tries.get(target.id)
  const next: CallState = {
    ...state,
    phase: "attempting",
    target,
    attempts: state.attempts + 1,
    switches: state.switches + (from === undefined || from.id === target.id ? 0 : 1),
    spent: state.spent + delay,
    tries: new Map(state.tries).set(target.id, {
      count: (tries?.count ?? 0) + 1,
      delay: tries === undefined ? undefined : delay,
      failure: tries?.failure
    })
  }
  if (from === undefined || failure === undefined) return [{ _tag: "Attempt", target, delay, cooldown }, next]
  if (state.textSeen) return [{ _tag: "Continue", from, target, delay, failure, cooldown }, next]
  return from.id === target.id
    ? [{ _tag: "Attempt", target, delay, cooldown }, next]
    : [{ _tag: "Switch", from, target, delay: 0, failure, cooldown }, next]
}

const giveUp = (state: CallState, failure: CallFailure, cooldown: Cooldown | undefined): Step => [
  { _tag: "GiveUp", failure, cooldown },
  { ...state, phase: "done" }
]

const triesHere = (state: CallState): number =>
  state.target === undefined ? 0 : (state.tries.get(state.target.id)?.count ?? 0)

const delayHere = (state: CallState): number | undefined =>
  state.target === undefined ? undefined : state.tries.get(state.target.id)?.delay
