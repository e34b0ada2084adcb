/**
 * Selects the targets that a call may be sent to, and tells why and how long the others are out. This part of
 * `CallState` reads the snapshot. Pure.
 */
import { Duration, Iterable } from "effect"
import type { TargetOut } from "../../failure/reasons/CallFailure.ts"
import { ErrorText } from "@outlast/resilience"
import { AllTargetsOut } from "../../failure/reasons/CallFailure.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { CallState, Failed, Snapshot, Soonest, Streak, TargetView } from "./CallModel.ts"
import { isRefusal } from "./CallModel.ts"
import type { Cooldown, Cooldowns, Out } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"

type Policy = RecoveryPolicy<string>

export const viewOf = ({ targets }: Snapshot, id: string): TargetView | undefined =>
  targets.find(({ ref }) => ref.id === id)

/** Returns the targets that can be asked now, in order of preference. */
export const ready = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  cooldowns: Cooldowns
): ReadonlyArray<TargetView> => {
  const { now, targets } = snapshot
  if (cooldowns.size === 0 && state.tries.size === 0 && state.refused.size === 0) return targets
  const blocked = blockedTimes(policy, cooldowns, targets)
  return targets.filter(
    (target, i) =>
      (blocked[i] ?? -Infinity) <= now &&
      !((state.refused.get(target.ref.id)?.until ?? now) > now) &&
      !isWaitedFor(state, target.ref, now) &&
      !isExhausted(policy, state, target, snapshot)
  )
}

/**
 * Returns the first of `targets`, or another one instead.
 *
 * When a key was refused, a key that has never answered gets one attempt at a time as long as there are others. Fifty
 * concurrent calls then find the one good key of forty with four requests each. Without this rule each call would ask
 * all forty.
 *
 * In a long chain calls must not return to the first targets after each short cooldown, and never reach the last. A
 * call therefore begins at a target that no call has asked, if the first one is doubted. A call that has failed goes to
 * one that is not doubted.
 */
export const preferred = (
  targets: ReadonlyArray<TargetView>,
  { left }: CallState,
  snapshot: Snapshot,
  cooldowns: Cooldowns
): TargetView | undefined => {
  const [first] = targets
  if (first === undefined || cooldowns.size === 0) return first
  const isFlying = ({ ref }: TargetView): boolean =>
    Iterable.some(snapshot.flying.values(), ({ target }) => target.id === ref.id)
  if (Cool.isDoubted(cooldowns, first.ref)) {
    const isNew = (target: TargetView): boolean =>
      !snapshot.answered.has(target.ref.id) && !snapshot.streaks.has(target.ref.id) && !isFlying(target)
    const isSure = ({ ref }: TargetView): boolean => !Cool.isDoubted(cooldowns, ref)
    const better = targets.find(left === undefined ? isNew : isSure)
    if (better !== undefined) return better
  }
  const isAsked = (target: TargetView): boolean => !snapshot.answered.has(target.ref.id) && isFlying(target)
  if (!isAsked(first)) return first
  const isEquivalent = ({ ref }: TargetView): boolean => ref.model === first.ref.model
  const isDoubtful = snapshot.targets.some((target) => {
    const out = isEquivalent(target) ? Cool.outOf(cooldowns, target.ref, snapshot.now) : undefined
    return out !== undefined && isRefusal(out.failure)
  })
  if (!isDoubtful) return first
  return targets.find((target) => isEquivalent(target) && !isAsked(target)) ?? first
}

/** Returns the `targets` that the call has not asked yet. */
export const unasked = (
  { tries }: CallState,
  targets: ReadonlyArray<TargetView>
): ReadonlyArray<TargetView> => targets.filter(({ ref }) => !tries.has(ref.id))

/** True when the wait that the server named to this call is not over. */
const isWaitedFor = ({ tries }: CallState, { id }: TargetRef, now: number): boolean =>
  (tries.get(id)?.backAt ?? now) > now

/**
 * The last times for each set of cooldowns. With `Order.inOrder` most calls find the cooldowns and the targets of the
 * call before them.
 */
const lastTimes = new WeakMap<
  Cooldowns,
  {
    readonly policy: Policy
    readonly targets: ReadonlyArray<TargetView>
    readonly blocked: ReadonlyArray<number>
  }
>()

/** Returns the time from which a call may go to each target, as far as cooldowns and their probes decide. */
const blockedTimes = (
  policy: Policy,
  cooldowns: Cooldowns,
  targets: ReadonlyArray<TargetView>
): ReadonlyArray<number> => {
  if (cooldowns.size === 0) return []
  const known = lastTimes.get(cooldowns)
  if (known?.policy === policy && known.targets === targets) return known.blocked
  const { probe } = policy
  const margin = (length: number): number =>
    probe === false ? 0 : Math.min(Duration.toMillis(probe.atMost), probe.share * length)
  const blocked = targets.map(({ ref }) => Cool.blockedUntil(cooldowns, ref, margin))
  lastTimes.set(cooldowns, { policy, targets, blocked })
  return blocked
}

/** True when the row's `to` allows a call that failed at `here` to go to `target`. */
export const matches = (
  to: Row["to"],
  here: TargetRef,
  { ref, info }: TargetView,
  snapshot: Snapshot,
  { reason }: ProviderFailure
): boolean => {
  if (to === "next") return true
  const isOther = ref.model !== here.model
  if (to === "other-model") return isOther
  if (to !== "other-dialect") return to.includes(ref.model)
  return (
    (isOther && reason._tag === "Format" && reason.model === true) ||
    formatOf(ref, info) !== formatOf(here, viewOf(snapshot, here.id)?.info)
  )
}

const formatOf = ({ provider }: TargetRef, info: ModelInfo | undefined): string =>
  info?.dialect?.format ?? provider

/** True when the last failure of the call allows it to go to `target`, or to return to the target that it left. */
export const mayGoTo = (
  policy: Policy,
  { left, lastFailure }: CallState,
  target: TargetView,
  snapshot: Snapshot
): boolean =>
  left === undefined ||
  lastFailure === undefined ||
  left.id === target.ref.id ||
  matches(rowOf(policy, lastFailure).to, left, target, snapshot, lastFailure)

/** Number of targets at which this call had a failure of the class. */
export const failedTargets = ({ tries }: CallState, of: string): number =>
  [...tries.values()].filter(({ classes }) => classes.has(of)).length

/**
 * True when this target cannot help the call: its attempts are used up, it forbids a repeat, or its window is too small.
 */
const isExhausted = (
  policy: Policy,
  state: CallState,
  { ref, info }: TargetView,
  snapshot: Snapshot
): boolean => {
  if (isTooSmall(state, ref, info)) return true
  const tries = state.tries.get(ref.id)
  if (tries?.failure === undefined) return false
  // A wait that the provider names allows a repeat behind it.
  if (tries.failure.evidence.shouldRetry === false && tries.backAt === undefined) return true
  const row = rowOf(policy, tries.failure)
  const used = row.pool === "own" ? (tries.classes.get(policy.classOf(tries.failure)) ?? 0) : tries.count
  return used - tries.released >= row.attempts && !mayGoOn(policy, state, ref.id, snapshot)
}

/**
 * An unknown window may be larger than the one that overflowed, unless it is that of the same model. A limit in bytes is
 * that of an endpoint, and says nothing about windows.
 */
const isTooSmall = (
  { overflowed, tries }: CallState,
  { endpoint, model, provider }: TargetRef,
  { contextWindow }: ModelInfo
): boolean => {
  if (overflowed === undefined) return false
  const isSame = (inBytes: boolean, is: (target: TargetRef) => boolean): boolean =>
    [...tries.values()].some(
      ({ failure }) =>
        failure?.reason._tag === "ContextOverflow" &&
        (failure.reason.media === true) === inBytes &&
        failure.target !== undefined &&
        is(failure.target)
    )
  if (isSame(true, (target) => target.provider === provider && target.endpoint === endpoint)) return true
  return contextWindow === undefined
    ? isSame(false, (target) => target.model === model)
    : contextWindow <= overflowed
}

/** Milliseconds for which an answer shows that its target works. */
export const worksFor = 20_000

/**
 * True when a call that has used up the attempts of its row at a target may repeat there all the same: successes pay
 * for its repeats, and the target has lately answered other calls that began to fail no earlier.
 */
export const mayGoOn = (policy: Policy, { tries }: CallState, id: string, snapshot: Snapshot): boolean => {
  const { failure, firstFailedAt = Infinity } = tries.get(id) ?? {}
  // Stryker disable next-line ConditionalExpression,BooleanLiteral: for the types; a target whose attempts are used up has failed.
  if (failure === undefined) return false
  // Stryker disable next-line ConditionalExpression,BooleanLiteral: the first is for the types; `false` has no `paidBy`.
  if (policy.retryBudget === false || policy.retryBudget.paidBy !== "successes") return false
  const { then, worthWaiting } = rowOf(policy, failure)
  const answeredAt = snapshot.answered.get(id) ?? -Infinity
  return (
    then === "retry" && worthWaiting && answeredAt >= firstFailedAt && snapshot.now - answeredAt < worksFor
  )
}

/** Returns the number of attempts that count at the current target, and the last delay there in milliseconds. */
export const usedHere = (
  policy: Policy,
  row: Row,
  { target, tries }: CallState,
  failure: ProviderFailure,
  { streaks }: Snapshot
): { readonly used: number; readonly released: number; readonly delay: number | undefined } => {
  const id = target?.id ?? ""
  if (policy.counters === "target") {
    const streak = streaks.get(id)
    return { used: streak?.failures ?? 0, released: 0, delay: streak?.delay }
  }
  const own = tries.get(id)
  const used = row.pool === "own" ? own?.classes.get(policy.classOf(failure)) : own?.count
  return { used: used ?? 0, released: own?.released ?? 0, delay: own?.delay }
}

/** True when the server named a wait that all calls must respect. */
export const isNotBefore = (row: Row, { retryAfter }: ProviderFailure): boolean =>
  row.cooldown?.retryAfter === "not-before" && retryAfter !== undefined

/** Milliseconds for which an answer shows that a key is valid. */
const trustedFor = 60 * 60 * 1_000

/** Consecutive failures after which a target is no alternative to another one, as long as the last one is recent. */
const downAfter = 3

const isDown = (streak: Streak | undefined, now: number): boolean =>
  streak !== undefined && streak.failures >= downAfter && now - (streak.at ?? -Infinity) < worksFor

/**
 * Returns the cooldown to open when the call leaves the target. A rule with `proof: "several-calls"` needs that proof
 * even when the server named the wait: a server that sheds load names a wait to one call while it answers others. A
 * cooldown that covers every target of the chain, or the last one that is left, opens only for a wait that the server
 * named. The next call may as well try then. A target that is {@link downAfter down} does not count as left.
 */
export const cooldownFor = (
  { cooldown: rule, worthWaiting }: Row,
  { failure, isProven = false }: Failed,
  target: TargetRef,
  { now, cooldowns, targets, streaks, answered }: Snapshot
): Cooldown | undefined => {
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
        !isDown(streaks.get(ref.id), now)
    ) === undefined
  const mayGuess = !coversAll && !isLast
  if (named === undefined && !mayGuess) return undefined
  const isTrusted =
    rule.trusted !== undefined &&
    targets.some(
      ({ ref }) =>
        Cool.covers(rule.scope, target, ref) && now - (answered.get(ref.id) ?? -Infinity) < trustedFor
    )
  const streak = Cool.streakOf(cooldowns, rule.scope, target, now)
  const guess = mayGuess ? Cool.length(rule, streak, named, isTrusted) : 0
  const isNamed = named !== undefined && (rule.retryAfter === "not-before" || named >= guess)
  const length = isNamed ? named : guess
  return { scope: rule.scope, target, until: now + length, failure, named: isNamed }
}

/** Returns the target that is back first, among those worth waiting for. */
export const soonest = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  /** True when the call may go to the target at all. */
  isMeant: (target: TargetView) => boolean
): Soonest | undefined => {
  const { now, targets, cooldowns } = snapshot
  let first: Soonest | undefined
  for (const target of targets) {
    const { ref } = target
    if (!isMeant(target) || isExhausted(policy, state, target, snapshot)) continue
    const out = outOf(state, cooldowns, ref, now)
    if (out === undefined || out.until === Infinity || !rowOf(policy, out.failure).worthWaiting) continue
    if (out.until < (first?.until ?? Infinity)) {
      first = { ...out, target: ref, refused: state.refused.get(ref.id)?.until === out.until }
    }
  }
  return first
}

/** True when the target's circuit refused this call and the call may pass it as a last resort. */
export const isRefusedByCircuit = (policy: Policy, { refused }: CallState, target: TargetRef): boolean =>
  policy.lastResort && policy.whenAllOut !== "fail" && refused.get(target.id)?.byCircuit === true

/** Returns a target whose open circuit may let the call pass, when no other target can be asked now. */
export const lastResort = (policy: Policy, state: CallState, snapshot: Snapshot): TargetRef | undefined =>
  !policy.lastResort || policy.whenAllOut === "fail" || state.refused.size === 0
    ? undefined
    : snapshot.targets.find((target) => {
        const { now, cooldowns } = snapshot
        const refused = state.refused.get(target.ref.id)
        return (
          refused?.mayResort === true &&
          refused.until > now &&
          Cool.outOf(cooldowns, target.ref, now) === undefined &&
          !isWaitedFor(state, target.ref, now) &&
          !isExhausted(policy, state, target, snapshot) &&
          mayGoTo(policy, state, target, snapshot)
        )
      })?.ref

/**
 * Milliseconds that the call may wait in the queue of a target's limits. The call keeps its place when no other
 * target can be asked.
 */
export const queueTime = (
  policy: Policy,
  { ledger }: CallState,
  { now, deadline, targets, cooldowns }: Pick<Snapshot, "now" | "deadline" | "targets" | "cooldowns">,
  target: TargetRef
): number => {
  const isElsewhere = targets.some(
    ({ ref }) => ref.id !== target.id && Cool.outOf(cooldowns, ref, now) === undefined
  )
  if (isElsewhere || policy.whenAllOut === "fail") return Duration.toMillis(policy.shortWait)
  const left = Math.min(Duration.toMillis(policy.deadline) - ledger.spent, deadline - now)
  return Math.max(0, Math.min(Duration.toMillis(policy.maxWait), left))
}

/** Returns the longest of the cooldown, the refusal and the named wait that keep a target from this call. */
const outOf = (
  { refused, tries }: CallState,
  cooldowns: Cooldowns,
  target: TargetRef,
  now: number
): Out | undefined => {
  let out = Cool.outOf(cooldowns, target, now)
  const by = refused.get(target.id)
  if (by !== undefined && by.until > (out?.until ?? now)) out = by
  const own = tries.get(target.id)
  if (own?.failure !== undefined && own.backAt !== undefined && own.backAt > (out?.until ?? now))
    out = { until: own.backAt, failure: own.failure }
  return out
}

/**
 * Builds the error of a call that no target can take, with the failure of each target and the time until it is back.
 */
export const allOut = (
  policy: Policy,
  state: CallState,
  { now, cooldowns, targets, dead }: Snapshot
): AllTargetsOut => {
  let back = Infinity
  const outs = targets.flatMap(({ ref }): ReadonlyArray<TargetOut> => {
    const out = outOf(state, cooldowns, ref, now)
    const failure = out?.failure ?? state.tries.get(ref.id)?.failure
    if (failure === undefined) return []
    if (out === undefined || out.until === Infinity) return [{ target: ref, failure }]
    const wait = out.until - now
    if (rowOf(policy, failure).worthWaiting) back = Math.min(back, wait)
    return [{ target: ref, failure, availableIn: Duration.millis(wait) }]
  })
  const failure = new AllTargetsOut({
    targets: [...outs, ...dead],
    attempts: state.ledger.attempts,
    ...(back === Infinity ? {} : { soonest: Duration.millis(back) })
  })
  return ErrorText.brief(failure, "targets", "soonest")
}
