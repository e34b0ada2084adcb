/**
 * Which targets a call may be sent to, and what is known of those it may not: the part of `CallState` that reads the
 * snapshot. Pure.
 */
import { Duration, Iterable } from "effect"
import type { TargetOut } from "../../failure/reasons/CallFailure.ts"
import { ErrorText } from "@outlast/resilience"
import { AllTargetsOut } from "../../failure/reasons/CallFailure.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { CallState, Failed, Snapshot, Soonest, TargetView } from "./CallModel.ts"
import { isRefusal } from "./CallModel.ts"
import type { Cooldown, Cooldowns, Out } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"

type Policy = RecoveryPolicy<string>

export const viewOf = ({ targets }: Snapshot, id: string): TargetView | undefined =>
  targets.find(({ ref }) => ref.id === id)

/** The targets that can be asked now, in order of preference. */
export const ready = (
  policy: Policy,
  state: CallState,
  { now, targets }: Snapshot,
  cooldowns: Cooldowns
): ReadonlyArray<TargetView> =>
  cooldowns.size === 0 && state.tries.size === 0 && state.refused.size === 0
    ? targets
    : targets.filter(
        (target) =>
          !isOut(policy, cooldowns, target.ref, now) &&
          !((state.refused.get(target.ref.id)?.until ?? now) > now) &&
          !isWaitedFor(state, target.ref, now) &&
          !isExhausted(policy, state, target)
      )

/**
 * The first of `targets`, or an equivalent one in its place. Where a key was refused, a key that has never answered gets
 * one attempt at a time while there are others. Fifty calls at once then find the one good key of forty with four
 * requests each; without this, each call asks all forty.
 */
export const preferred = (
  targets: ReadonlyArray<TargetView>,
  snapshot: Snapshot,
  cooldowns: Cooldowns
): TargetView | undefined => {
  const [first] = targets
  if (first === undefined || cooldowns.size === 0) return first
  const isAsked = ({ ref }: TargetView): boolean =>
    !snapshot.answered.has(ref.id) &&
    Iterable.some(snapshot.flying.values(), ({ target }) => target.id === ref.id)
  if (!isAsked(first)) return first
  const isEquivalent = ({ ref }: TargetView): boolean => ref.model === first.ref.model
  const isDoubtful = snapshot.targets.some((target) => {
    const out = isEquivalent(target) ? Cool.outOf(cooldowns, target.ref, snapshot.now) : undefined
    return out !== undefined && isRefusal(out.failure)
  })
  if (!isDoubtful) return first
  return targets.find((target) => isEquivalent(target) && !isAsked(target)) ?? first
}

/** Of `targets`, those that the call has not asked, where a refusal makes it ask each of them once. Else none. */
export const unasked = (
  { tries }: CallState,
  failure: ProviderFailure | undefined,
  targets: ReadonlyArray<TargetView>
): ReadonlyArray<TargetView> =>
  failure !== undefined && isRefusal(failure) ? targets.filter(({ ref }) => !tries.has(ref.id)) : []

/** The server named a wait to this call, which is not over. */
const isWaitedFor = ({ tries }: CallState, { id }: TargetRef, now: number): boolean =>
  (tries.get(id)?.backAt ?? now) > now

/** Cooling, and not so near its end that one call may see whether it is back. */
const isOut = ({ probe }: Policy, cooldowns: Cooldowns, target: TargetRef, now: number): boolean =>
  Cool.outOf(cooldowns, target, now) !== undefined &&
  (probe === false ||
    !Cool.mayProbe(cooldowns, target, now, (length) =>
      Math.min(Duration.toMillis(probe.atMost), probe.share * length)
    ))

/** Whether a row's failures at `here` may be taken to `target`. */
export const matches = (
  to: Row["to"],
  here: TargetRef,
  { ref, info }: TargetView,
  snapshot: Snapshot
): boolean => {
  if (to === "next") return true
  if (to === "other-model") return ref.model !== here.model
  return to === "other-dialect"
    ? formatOf(ref, info) !== formatOf(here, viewOf(snapshot, here.id)?.info)
    : to.includes(ref.model)
}

const formatOf = ({ provider }: TargetRef, info: ModelInfo | undefined): string =>
  info?.dialect?.format ?? provider

/** Whether the failure that the call left a target for may be taken to `target`, or back to where it was. */
export const mayGoTo = (
  policy: Policy,
  { left, lastFailure }: CallState,
  target: TargetView,
  snapshot: Snapshot
): boolean =>
  left === undefined ||
  lastFailure === undefined ||
  left.id === target.ref.id ||
  matches(rowOf(policy, lastFailure).to, left, target, snapshot)

/** Targets at which this call had a failure of the class. */
export const failedTargets = ({ tries }: CallState, of: string): number =>
  [...tries.values()].filter(({ classes }) => classes.has(of)).length

/** The call has nothing to hope for from this target: its attempts are used up, or its window is too small. */
const isExhausted = (policy: Policy, state: CallState, { ref, info }: TargetView): boolean => {
  if (state.overflowed !== undefined && (info.contextWindow ?? 0) <= state.overflowed) return true
  const tries = state.tries.get(ref.id)
  if (tries?.failure === undefined) return false
  const row = rowOf(policy, tries.failure)
  const used = row.pool === "own" ? (tries.classes.get(policy.classOf(tries.failure)) ?? 0) : tries.count
  return used >= row.attempts
}

/** How many attempts at the current target count, and how long the last of them was delayed. */
export const usedHere = (
  policy: Policy,
  row: Row,
  { target, tries }: CallState,
  failure: ProviderFailure,
  { streaks }: Snapshot
): { readonly used: number; readonly delay: number | undefined } => {
  const id = target?.id ?? ""
  if (policy.counters === "target") {
    const streak = streaks.get(id)
    return { used: streak?.failures ?? 0, delay: streak?.delay }
  }
  const own = tries.get(id)
  const used = row.pool === "own" ? own?.classes.get(policy.classOf(failure)) : own?.count
  return { used: used ?? 0, delay: own?.delay }
}

/** The server said when to come back, and that is to be kept by all calls. */
export const isNotBefore = (row: Row, { retryAfter }: ProviderFailure): boolean =>
  row.cooldown?.retryAfter === "not-before" && retryAfter !== undefined

/**
 * What leaving the target keeps from being chosen. A cooldown that wants the failures of several calls needs them, whoever
 * named its length: a server that sheds names a wait to one call while it answers others. Where the cooldown would cover
 * every target of the chain, or the last one that is left, only waits that the server named are kept: the next call may
 * as well try.
 */
export const cooldownFor = (
  { cooldown: rule, worthWaiting }: Row,
  { failure, isProven = false }: Failed,
  target: TargetRef,
  { now, cooldowns, targets }: Snapshot
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
    targets.every(
      ({ ref }) => Cool.covers(rule.scope, target, ref) || Cool.outOf(cooldowns, ref, now) !== undefined
    )
  const mayGuess = !coversAll && !isLast
  if (named === undefined && !mayGuess) return undefined
  const guess = mayGuess ? Cool.length(rule, Cool.streakOf(cooldowns, rule.scope, target, now), named) : 0
  const isNamed = named !== undefined && (rule.retryAfter === "not-before" || named >= guess)
  const length = isNamed ? named : guess
  return { scope: rule.scope, target, until: now + length, failure, named: isNamed }
}

/** The target that is back first, of those that are worth waiting for. */
export const soonest = (
  policy: Policy,
  state: CallState,
  { now, targets, cooldowns }: Snapshot,
  /** Whether the call may go there at all. */
  isMeant: (target: TargetView) => boolean
): Soonest | undefined => {
  let first: Soonest | undefined
  for (const target of targets) {
    const { ref } = target
    if (!isMeant(target) || isExhausted(policy, state, target)) continue
    const out = outOf(state, cooldowns, ref, now)
    if (out === undefined || out.until === Infinity || !rowOf(policy, out.failure).worthWaiting) continue
    if (out.until < (first?.until ?? Infinity)) {
      first = { ...out, target: ref, refused: state.refused.get(ref.id)?.until === out.until }
    }
  }
  return first
}

/** The circuit of a target has refused this call, which may pass it as a last resort. */
export const isRefusedByCircuit = (policy: Policy, { refused }: CallState, target: TargetRef): boolean =>
  policy.lastResort && policy.whenAllOut !== "fail" && refused.get(target.id)?.byCircuit === true

/** A target whose circuit may let the call pass although it is open, where no other target can be asked now. */
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
          !isExhausted(policy, state, target) &&
          mayGoTo(policy, state, target, snapshot)
        )
      })?.ref

/** Milliseconds in the queue of a target's limits: who would have to come back to it anyway keeps the place. */
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

/** What keeps a target from this call for longest. */
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

/** The failure of a call that no target can take: each with its reason and its time. */
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
