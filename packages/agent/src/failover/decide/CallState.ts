/**
 * Decides every retry of a call, as a pure state machine: `(policy, state, event, snapshot, draw)` returns an action
 * and the next state. No Effect, no clock, no randomness.
 *
 * **State.** The facts of the call, its log (`made`), its answer so far, what has changed in the request (`mended`), and
 * what it does now: `Attempt` while a request is in flight; `Mend` during a remedy before the next attempt (a compaction,
 * a new key); `Wait` while all targets are out; `Queue` while the retry budget is empty; `Done` after `GiveUp` or
 * `Deliver`. A complete answer ends the call outside this machine.
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
 * step. Times are monotonic milliseconds.
 *
 * **Where to look.** `Openings`: when may the call ask a target, and why not earlier? `CallLimits`: may it make another
 * attempt at all? `Delays`: how long does it wait before one? `Waiting`: what does it do when it can go nowhere, and
 * which news end that wait? `Hedge`: when does it make two attempts at once? `AfterFailure`, `CutAnswer`: how does it go
 * on behind an attempt? `Remedy`: what lets the same target succeed? `AnswerSoFar`, `CallLog`: what has it so far?
 */
import { Format, Timeout } from "../../failure/reasons/FailoverReason.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { onFailure, record } from "./AfterFailure.ts"
import { hasNoTime, isAffordable, isOver, mayRepeat } from "./CallLimits.ts"
import * as Log from "./CallLog.ts"
import type { Event, Failed, Reset, Snapshot } from "./CallModel.ts"
import type { CallState, Flight, Step } from "./State.ts"
import { choosing } from "./State.ts"
import { giveUp, onCut } from "./CutAnswer.ts"
import * as Hedge from "./Hedge.ts"
import * as Openings from "./Openings.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import * as Remedy from "./Remedy.ts"
import { send, sendAsLastResort } from "./Sending.ts"
import { forBudget, waitOrGiveUp } from "./Waiting.ts"

export * from "./CallModel.ts"
export * from "./State.ts"
export { midStreamAtMost } from "./MidStream.ts"
export { lateAfter } from "./Hedge.ts"
export { mayHope, mayRelease, mayWake, waitsUntil } from "./Waiting.ts"

type Policy = RecoveryPolicy<string>

/** Returns the next action and state. `draw` is in [0, 1). */
export const step = <Class extends string>(
  policy: RecoveryPolicy<Class>,
  state: CallState,
  event: Event,
  snapshot: Snapshot,
  draw: number
): Step => {
  const { doing, mended } = state
  switch (event._tag) {
    case "Started": {
      const outputLimit = event.outputLimit.start
      return choose(policy, { ...state, call: event, mended: { ...mended, outputLimit } }, snapshot, draw)
    }
    case "Woke":
      return choose(policy, awake(state, event), snapshot, draw, { to: event.to })
    case "TakenAway":
      if (doing._tag === "Attempt" && doing.late !== undefined) return Hedge.notSent(state, doing.late)
      return doing._tag === "Attempt"
        ? choose(policy, awake(unsent(state, doing.delay), event), snapshot, draw, { isUnsent: true })
        : giveUp(state, nowhere, undefined)
    case "PermitRefused":
      return doing._tag === "Attempt"
        ? onRefusal(policy, state, doing, event, snapshot, draw)
        : giveUp(state, nowhere, undefined)
    case "Late":
      return doing._tag === "Attempt"
        ? Hedge.onLate(policy, state, doing, event, snapshot)
        : giveUp(state, nowhere, undefined)
    case "Overtaken":
      return doing._tag === "Attempt" && doing.late !== undefined
        ? Hedge.onOvertaken(policy, state, { ...doing, late: doing.late }, event, snapshot)
        : giveUp(state, nowhere, undefined)
    case "Failed":
      if (doing._tag === "Attempt" && doing.late !== undefined)
        return Hedge.onFailure(policy, state, { ...doing, late: doing.late }, event, snapshot, draw)
      return doing._tag === "Attempt"
        ? onEnd(policy, state, doing, event, snapshot, draw)
        : giveUp(state, event.failure, undefined)
    case "Cut":
      return doing._tag === "Attempt"
        ? onCut(policy, state, doing, event, snapshot)
        : giveUp(state, nowhere, undefined)
    default:
      return doing._tag === "Mend"
        ? onRemedy(policy, state, doing, event, snapshot, draw)
        : giveUp(state, nowhere, undefined)
  }
}

/** Failure for events in an order that no shell produces. */
const nowhere = local("call/out-of-order", new Format({ side: "request" }), undefined)

const noTime = local("limit/deadline", new Timeout({ phase: "total", local: true }), undefined)

// -----------------------------------------------------------------------------
// Events
// -----------------------------------------------------------------------------

/** The only attempt in flight has failed. */
const onEnd = (
  policy: Policy,
  state: CallState,
  flight: Flight,
  event: Failed,
  snapshot: Snapshot,
  draw: number
): Step => {
  const recorded = record(policy, state, flight, event, snapshot, draw)
  const { failed, target } = flight.decides ?? { failed: event, target: flight.target }
  return onFailure(policy, recorded, failed, target, snapshot, draw)
}

/** The state behind a wait. Gives back the time that was reserved for the wait and not used. */
const awake = (
  state: CallState,
  { early = 0, reset }: { readonly early?: number; readonly reset?: Reset | undefined }
): CallState => afterReset({ ...state, made: Log.waited(state.made, -early) }, reset)

/** The state without the waits that servers and circuits named for targets that an operator brought back since. */
export const afterReset = (state: CallState, reset: Reset | undefined): CallState =>
  reset === undefined ? state : { ...state, made: Log.afterReset(state.made, reset) }

/** The state without the attempt that was not sent. Of its delay, `waited` milliseconds have passed. */
const unsent = (state: CallState, waited: number): CallState => ({
  ...state,
  made: Log.waited(state.made, waited),
  doing: choosing
})

const onRefusal = (
  policy: Policy,
  state: CallState,
  flight: Flight,
  event: Extract<Event, { readonly _tag: "PermitRefused" }>,
  snapshot: Snapshot,
  draw: number
): Step => {
  const { target, delay, lastResort, late } = flight
  const { failure, waited, took = 0, byCircuit } = event
  // Every refusal takes at least 1 ms, so a call that is always refused reaches its deadline.
  const until = Math.max(event.until, snapshot.now + 1)
  const refused = { until, failure, mayResort: byCircuit && !lastResort, byCircuit }
  const back = unsent(state, (waited ? delay : 0) + took)
  const made = Log.setRefused(back.made, target, refused)
  if (late !== undefined) return Hedge.onRefusal(policy, { ...state, made }, { ...flight, late }, snapshot)
  return choose(policy, { ...back, made }, snapshot, draw, { isUnsent: true })
}

/**
 * Repeats the call on its target after a remedy, for example a compaction. Treats the failure as not remedied when
 * the remedy did nothing, or used up the time or the budget.
 */
const onRemedy = (
  policy: Policy,
  state: CallState,
  { target, failed: event }: { readonly target: TargetRef; readonly failed: Failed },
  remedy: Extract<Event, { readonly _tag: "Compacted" | "CompactionFailed" | "LeftOut" | "KeyAsked" }>,
  snapshot: Snapshot,
  draw: number
): Step => {
  const next = mended(state, target, remedy)
  const again = next.works && !isOver(snapshot) && mayRepeat(next.state, snapshot)
  return again
    ? send(policy, next.state, target, 0, undefined, snapshot)
    : onFailure(policy, { ...next.state, doing: choosing }, event, target, snapshot, draw)
}

const mended = (
  state: CallState,
  target: TargetRef,
  remedy: Extract<Event, { readonly _tag: "Compacted" | "CompactionFailed" | "LeftOut" | "KeyAsked" }>
): { readonly state: CallState; readonly works: boolean } => {
  const { mended } = state
  switch (remedy._tag) {
    case "Compacted":
    case "CompactionFailed": {
      // Stryker disable next-line ConditionalExpression: for the types; only `Compacted` has a number.
      const works = remedy._tag === "Compacted" && remedy.freed > 0
      const next = works ? { ...mended, overflowed: undefined } : { ...mended, compactions: Infinity }
      return { works, state: { ...state, mended: next } }
    }
    case "LeftOut":
      return remedy.dropped > 0
        ? { works: true, state: Remedy.leftOut(state, target, remedy) }
        : { works: false, state }
    case "KeyAsked":
      return { works: remedy.renewed, state }
  }
}

// -----------------------------------------------------------------------------
// The next target
// -----------------------------------------------------------------------------

/** `to`: the target to prefer. `isUnsent`: the call had an attempt that was not sent. */
const choose = (
  policy: Policy,
  state: CallState,
  snapshot: Snapshot,
  draw: number,
  { to, isUnsent = false }: { readonly to?: TargetRef | undefined; readonly isUnsent?: boolean } = {}
): Step => {
  const last = state.made.failure
  if (isOver(snapshot)) return giveUp(state, last ?? noTime, undefined)
  const isOutOfTime = hasNoTime(policy, state, snapshot)
  if (state.doing._tag === "Queue" && isOutOfTime) return giveUp(state, last ?? noTime, undefined)
  // An attempt that was not sent frees no time for a repeat on a target that the call has tried.
  const late = isUnsent && isOutOfTime
  const ready = Openings.among(
    Openings.ready(policy, state, snapshot),
    (target) =>
      Openings.mayGoTo(policy, state, target, snapshot) && (!late || !Log.hasTried(state, target.ref))
  )
  if (Openings.first(ready) === undefined) return waitOrGiveUp(policy, state, snapshot, undefined, draw)
  const affordable = Openings.among(ready, ({ ref }) => isAffordable(state, snapshot, ref))
  const unasked = Openings.among(affordable, ({ ref }) => !Log.hasTried(state, ref))
  const target =
    (to === undefined ? undefined : affordable(({ ref }) => ref.id === to.id)) ??
    Openings.preferred(Openings.first(unasked) === undefined ? affordable : unasked, state, snapshot)
  return target === undefined
    ? (forBudget(policy, state, snapshot, undefined) ??
        giveUp(state, last ?? Openings.allOut(policy, state, snapshot), undefined))
    : sendAfterWait(policy, state, target.ref, snapshot)
}

/**
 * Sends an attempt at `target`, as a last resort when the target's circuit refused this call and the call has
 * waited since.
 */
const sendAfterWait = (policy: Policy, state: CallState, target: TargetRef, snapshot: Snapshot): Step =>
  state.doing._tag === "Wait" && Openings.isRefusedByCircuit(policy, state, target)
    ? sendAsLastResort(policy, state, target, undefined, snapshot)
    : send(policy, state, target, 0, undefined, snapshot)
