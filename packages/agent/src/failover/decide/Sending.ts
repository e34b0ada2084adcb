/**
 * Updates the counts of a call when an attempt is sent, and takes them back when it was not sent after all. Part of
 * `CallState`. Pure.
 */
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Action, CallState, Cut, Failed, Sent } from "./CallModel.ts"
import { isSweep } from "./CallModel.ts"

/** Returns the state after sending an attempt to `target` with a delay of `delay` milliseconds. */
export const sent = (state: CallState, target: TargetRef, delay: number): CallState => {
  const { ledger, left } = state
  const tries = state.tries.get(target.id)
  return {
    ...state,
    phase: "attempting",
    target,
    lastResort: false,
    isReleased: state.phase === "queued",
    ledger: {
      ...ledger,
      attempts: ledger.attempts + 1,
      sweeps: ledger.sweeps + (isSweep(state, target) ? 1 : 0),
      switches: ledger.switches + (left === undefined || left.id === target.id ? 0 : 1),
      spent: ledger.spent + delay
    },
    tries: new Map(state.tries).set(target.id, {
      count: (tries?.count ?? 0) + 1,
      released: tries?.released ?? 0,
      delay: tries === undefined ? undefined : delay,
      failure: tries?.failure,
      firstFailedAt: tries?.firstFailedAt,
      classes: tries?.classes ?? noClasses,
      notBefore: tries?.notBefore,
      backAt: tries?.backAt
    })
  }
}

const noClasses: ReadonlyMap<string, number> = new Map()

/**
 * Returns the state after an attempt was really sent. If it began the answer again, the earlier text is void. A cut
 * answer stays until another one replaces it, because a repeat with a raised limit may fail.
 */
export const begun = (state: CallState, event: Failed | Cut): CallState => {
  const hasCut = state.cut && state.raise !== undefined
  const isOpen = event._tag === "Failed" && hasCut && event.commit !== "text"
  if (!state.anew || isOpen) return state
  const isKept = event._tag === "Cut"
  const { cut, hasText } = state
  return {
    ...state,
    anew: false,
    seen: false,
    partial: false,
    cut: cut && isKept,
    hasText: hasText && isKept
  }
}

/** Returns the state without the attempt that was not sent. A delay that was `waited` still counts. */
export const unsent = (state: CallState, waited: boolean): CallState => {
  const { ledger, left } = state
  const id = state.target?.id ?? ""
  const tries = state.tries.get(id)
  const isSwitch = left !== undefined && left.id !== id
  const count = (tries?.count ?? 1) - 1
  const others = new Map(state.tries)
  if (tries === undefined || (count === 0 && tries.failure === undefined)) others.delete(id)
  else others.set(id, { ...tries, count })
  const before = { ...state, tries: others }
  return {
    ...state,
    target: left,
    ledger: {
      ...ledger,
      attempts: ledger.attempts - 1,
      sweeps: ledger.sweeps - (state.target !== undefined && isSweep(before, state.target) ? 1 : 0),
      switches: ledger.switches - (isSwitch ? 1 : 0),
      spent: ledger.spent - (waited ? 0 : (tries?.delay ?? 0))
    },
    tries: others
  }
}

/** An action that sends an attempt. */
export type Sending = Extract<Action, { readonly probe: boolean }>

export const isSending = (action: Action): action is Sending => "probe" in action

/** True when the action keeps the call at `target`. */
export const staysAt = (action: Action, target: TargetRef | undefined): boolean =>
  "target" in action && action.target.id === target?.id

/** One more attempt at once where the call is. */
export const atOnce = (target: TargetRef): Sent => ({
  target,
  delay: 0,
  cooldown: undefined,
  probe: false,
  lastResort: false,
  isFree: false
})
