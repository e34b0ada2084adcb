/**
 * What the sending of an attempt changes in the state of a call, and what is taken back when it was not sent after all:
 * the part of `CallState` that keeps the books. Pure.
 */
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Action, CallState, Cut, Failed, Sent } from "./CallModel.ts"
import { isSweep } from "./CallModel.ts"

/** The state with an attempt at `target` after `delay` milliseconds. */
export const sent = (state: CallState, target: TargetRef, delay: number): CallState => {
  const { ledger, left } = state
  const tries = state.tries.get(target.id)
  return {
    ...state,
    phase: "attempting",
    target,
    lastResort: false,
    ledger: {
      ...ledger,
      attempts: ledger.attempts + 1,
      sweeps: ledger.sweeps + (isSweep(state, target) ? 1 : 0),
      switches: ledger.switches + (left === undefined || left.id === target.id ? 0 : 1),
      spent: ledger.spent + delay
    },
    tries: new Map(state.tries).set(target.id, {
      count: (tries?.count ?? 0) + 1,
      delay: tries === undefined ? undefined : delay,
      failure: tries?.failure,
      classes: tries?.classes ?? noClasses,
      notBefore: tries?.notBefore,
      backAt: tries?.backAt
    })
  }
}

const noClasses: ReadonlyMap<string, number> = new Map()

/**
 * The state with the attempt that was sent: if it began the answer anew, what was before is void. A cut answer is not,
 * until another one takes its place: a repeat with a raised limit that failed is still to be made.
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

/** The state without the attempt that was not sent. A delay that was `waited` counts. */
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

/** An action that sends something. */
export type Sending = Extract<Action, { readonly probe: boolean }>

export const isSending = (action: Action): action is Sending => "probe" in action

/** Whether a call does not leave `target` by this. */
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
