/**
 * When a call may ask a target, at what price, and why not earlier. Part of `CallState`: it reads the snapshot. Pure.
 *
 * **Four questions about one target.** {@link isClosed}: it cannot help this call, whenever it is asked. {@link opensAt}:
 * the time from which it may be asked. {@link keptOutBy}: what keeps it out, and until when. `CallLimits.isAffordable`:
 * whether the retry budget lets the call go there. `ready`, `soonest`, `lastResort` and `allOut` look for a target with
 * them.
 *
 * A cooldown opens a little before its end for one probe: `opensAt` then lies before the end that `keptOutBy` tells.
 */
import { Duration, HashMap, Iterable } from "effect"
import type { TargetOut } from "../../failure/reasons/CallFailure.ts"
import { ErrorText } from "@outlast/resilience"
import { AllTargetsOut } from "../../failure/reasons/CallFailure.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as BlockedTimes from "./BlockedTimes.ts"
import { isRefusal, refusalAt, triesAt } from "./CallLog.ts"
import type { Snapshot, Soonest, TargetView } from "./CallModel.ts"
import type { CallState } from "./State.ts"
import type { Cooldowns, Out } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"

type Policy = RecoveryPolicy<string>

export const viewOf = ({ targets }: Snapshot, id: string): TargetView | undefined =>
  targets.find(({ ref }) => ref.id === id)

// -----------------------------------------------------------------------------
// One target
// -----------------------------------------------------------------------------

/**
 * True when this target cannot help the call: its attempts are used up, it forbids a repeat, or its window is too small.
 */
const isClosed = (
  policy: Policy,
  state: CallState,
  { ref, info }: TargetView,
  snapshot: Snapshot
): boolean => {
  if (isTooSmall(state, ref, info)) return true
  const tries = triesAt(state, ref)
  if (tries.failure === undefined) return false
  // A wait that the provider names allows a repeat behind it.
  if (tries.failure.evidence.shouldRetry === false && tries.backAt === undefined) return true
  const row = rowOf(policy, tries.failure)
  const used = row.pool === "own" ? (tries.classes.get(policy.classOf(tries.failure)) ?? 0) : tries.count
  return used - tries.released >= row.attempts && !mayGoOn(policy, state, ref, snapshot)
}

/**
 * An unknown window may be larger than the one that overflowed, unless it is that of the same model. A limit in bytes is
 * that of an endpoint, and says nothing about windows.
 */
const isTooSmall = (
  { made, mended: { overflowed } }: CallState,
  { endpoint, model, provider }: TargetRef,
  { contextWindow }: ModelInfo
): boolean => {
  if (overflowed === undefined) return false
  const isSame = (inBytes: boolean, is: (target: TargetRef) => boolean): boolean =>
    Iterable.some(
      HashMap.values(made.tries),
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

/**
 * True when a call that has used up the attempts of its row at a target may repeat there all the same: successes pay
 * for its repeats, and the target has lately answered other calls that began to fail no earlier.
 */
export const mayGoOn = (policy: Policy, state: CallState, target: TargetRef, snapshot: Snapshot): boolean => {
  const { failure, firstFailedAt = Infinity } = triesAt(state, target)
  // Stryker disable next-line ConditionalExpression,BooleanLiteral: for the types; a target whose attempts are used up has failed.
  if (failure === undefined) return false
  // Stryker disable next-line ConditionalExpression,BooleanLiteral: the first is for the types; `false` has no `paidBy`.
  if (policy.retryBudget === false || policy.retryBudget.paidBy !== "successes") return false
  const { then, worthWaiting } = rowOf(policy, failure)
  const answeredAt = snapshot.answered.get(target.id) ?? -Infinity
  const isRecent = snapshot.now - answeredAt < Duration.toMillis(policy.pacing.worksFor)
  return then === "retry" && worthWaiting && answeredAt >= firstFailedAt && isRecent
}

/** The time from which the call may ask a target, as far as the target's refusal and the wait that it named decide. */
const opensAt = (state: CallState, target: TargetRef): number =>
  Math.max(refusalAt(state, target)?.until ?? -Infinity, triesAt(state, target).backAt ?? -Infinity)

/** Returns the longest of the cooldown, the refusal and the named wait that keep a target from this call. */
const keptOutBy = (
  state: CallState,
  cooldowns: Cooldowns,
  target: TargetRef,
  now: number
): Out | undefined => {
  let out = Cool.outOf(cooldowns, target, now)
  const by = refusalAt(state, target)
  if (by !== undefined && by.until > (out?.until ?? now)) out = by
  const { failure, backAt = -Infinity } = triesAt(state, target)
  // Stryker disable next-line ConditionalExpression: the first is for the types; a target that named a wait has failed.
  if (failure !== undefined && backAt > (out?.until ?? now)) out = { until: backAt, failure }
  return out
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
    // Stryker disable next-line ConditionalExpression: the second is for the types; other reasons have no `model`.
    (isOther && reason._tag === "Format" && reason.model === true) ||
    formatOf(ref, info) !== formatOf(here, viewOf(snapshot, here.id)?.info)
  )
}

const formatOf = ({ provider }: TargetRef, info: ModelInfo | undefined): string =>
  info?.dialect?.format ?? provider

/** True when the last failure of the call allows it to go to `target`, or to return to the target that it left. */
export const mayGoTo = (
  policy: Policy,
  { made: { left, failure } }: CallState,
  target: TargetView,
  snapshot: Snapshot
): boolean =>
  left === undefined ||
  failure === undefined ||
  left.id === target.ref.id ||
  matches(rowOf(policy, failure).to, left, target, snapshot, failure)

// -----------------------------------------------------------------------------
// All targets
// -----------------------------------------------------------------------------

/**
 * Finds the first target, in order of preference, that has a property. Looks at no target behind it, so that a call over
 * a thousand targets does not look at a thousand after each.
 */
export type Find = (is: (target: TargetView) => boolean) => TargetView | undefined

/** Narrows a search. What narrows it last is asked first. */
export const among =
  (find: Find, isMeant: (target: TargetView) => boolean): Find =>
  (is) =>
    find((target) => is(target) && isMeant(target))

const any = (): boolean => true

export const first = (find: Find): TargetView | undefined => find(any)

/** Searches the targets that can be asked now. */
export const ready = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  cooldowns: Cooldowns = snapshot.cooldowns
): Find => {
  const { now, targets } = snapshot
  let open: ReadonlyArray<TargetView> | undefined
  return (is) => {
    open ??= BlockedTimes.openAt(policy, cooldowns, targets, now)
    return open.find(
      (target) =>
        is(target) && !(opensAt(state, target.ref) > now) && !isClosed(policy, state, target, snapshot)
    )
  }
}

/**
 * Returns the first of the targets that `find` searches, or another one instead.
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
  find: Find,
  state: CallState,
  snapshot: Snapshot,
  cooldowns: Cooldowns = snapshot.cooldowns
): TargetView | undefined => {
  const { left } = state.made
  const best = first(find)
  if (best === undefined || Cool.isEmpty(cooldowns)) return best
  // One call looks whether a target is back. The others go elsewhere meanwhile.
  const by = state.call.providerTools ? undefined : "running"
  const isFree = ({ ref }: TargetView): boolean => !Cool.isLookedAt(cooldowns, ref, by)
  const free = isFree(best) ? undefined : first(among(find, isFree))
  if (free !== undefined) return preferred(among(find, isFree), state, snapshot, cooldowns)
  let flying: ReadonlySet<string> | undefined
  const isFlying = ({ ref }: TargetView): boolean => {
    flying ??= new Set(Iterable.map(snapshot.flying.values(), ({ target }) => target.id))
    return flying.has(ref.id)
  }
  if (Cool.isDoubted(cooldowns, best.ref)) {
    const isNew = (target: TargetView): boolean =>
      !snapshot.answered.has(target.ref.id) && !snapshot.streaks.has(target.ref.id) && !isFlying(target)
    const isSure = ({ ref }: TargetView): boolean => !Cool.isDoubted(cooldowns, ref)
    const better = find(left === undefined ? isNew : isSure)
    if (better !== undefined) return better
  }
  const isAsked = (target: TargetView): boolean => !snapshot.answered.has(target.ref.id) && isFlying(target)
  // Stryker disable next-line ConditionalExpression: only faster; the search below finds it first.
  if (!isAsked(best)) return best
  const isEquivalent = ({ ref }: TargetView): boolean => ref.model === best.ref.model
  const isDoubtful = snapshot.targets.some((target) => {
    const out = isEquivalent(target) ? Cool.outOf(cooldowns, target.ref, snapshot.now) : undefined
    return out !== undefined && isRefusal(out.failure)
  })
  if (!isDoubtful) return best
  return find((target) => isEquivalent(target) && !isAsked(target)) ?? best
}

/** Returns the target that is back first, among those worth waiting for. `isMeant`: the call may go there at all. */
export const soonest = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  isMeant: (target: TargetView) => boolean
): Soonest | undefined => {
  const { now, targets, cooldowns } = snapshot
  let soonest: Soonest | undefined
  for (const target of targets) {
    const { ref } = target
    if (!isMeant(target) || isClosed(policy, state, target, snapshot)) continue
    const out = keptOutBy(state, cooldowns, ref, now)
    if (out === undefined || !rowOf(policy, out.failure).worthWaiting) continue
    if (out.until < (soonest?.until ?? Infinity)) {
      soonest = { ...out, target: ref, refused: refusalAt(state, ref)?.until === out.until }
    }
  }
  return soonest
}

/** True when the target's circuit refused this call and the call may pass it as a last resort. */
export const isRefusedByCircuit = (policy: Policy, state: CallState, target: TargetRef): boolean =>
  policy.lastResort && policy.whenAllOut !== "fail" && refusalAt(state, target)?.byCircuit === true

/** Returns a target whose open circuit may let the call pass, when no other target can be asked now. */
export const lastResort = (policy: Policy, state: CallState, snapshot: Snapshot): TargetRef | undefined => {
  const { now, cooldowns } = snapshot
  if (!policy.lastResort || policy.whenAllOut === "fail" || HashMap.isEmpty(state.made.refused))
    return undefined
  return snapshot.targets.find((target) => {
    const refused = refusalAt(state, target.ref)
    return (
      refused?.mayResort === true &&
      refused.until > now &&
      Cool.outOf(cooldowns, target.ref, now) === undefined &&
      !((triesAt(state, target.ref).backAt ?? now) > now) &&
      !isClosed(policy, state, target, snapshot) &&
      mayGoTo(policy, state, target, snapshot)
    )
  })?.ref
}

/**
 * Milliseconds that the call may wait in the queue of a target's limits; `left` are those of its deadline. The call
 * keeps its place when no other target can be asked.
 */
export const queueTime = (
  policy: Policy,
  left: number,
  { now, targets, cooldowns }: Pick<Snapshot, "now" | "targets" | "cooldowns">,
  target: TargetRef
): number => {
  const isElsewhere = targets.some(
    ({ ref }) => ref.id !== target.id && Cool.outOf(cooldowns, ref, now) === undefined
  )
  return isElsewhere || policy.whenAllOut === "fail"
    ? Duration.toMillis(policy.shortWait)
    : Math.max(0, Math.min(Duration.toMillis(policy.maxWait), left))
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
    const out = keptOutBy(state, cooldowns, ref, now)
    const failure = out?.failure ?? triesAt(state, ref).failure
    if (failure === undefined) return []
    if (out === undefined || out.until === Infinity) return [{ target: ref, failure }]
    const wait = out.until - now
    if (rowOf(policy, failure).worthWaiting) back = Math.min(back, wait)
    return [{ target: ref, failure, availableIn: Duration.millis(wait) }]
  })
  const failure = new AllTargetsOut({
    targets: [...outs, ...dead],
    attempts: state.made.attempts,
    ...(back === Infinity ? {} : { soonest: Duration.millis(back) })
  })
  return ErrorText.brief(failure, "targets", "soonest")
}
