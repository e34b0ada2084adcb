/** Begins and ends the turns of a run, up to the call of the model. Part of `RunState`. Pure. */
import type { Memory } from "../compaction/Memory.ts"
import { overflowOf } from "./AgentFailed.ts"
import type { CallNotes, Of } from "./RunEvent.ts"
import { failed, finish, stopped } from "./RunEnd.ts"
import * as RunGuard from "./RunGuard.ts"
import type { Moved, RunState } from "./RunModel.ts"
import { initial, none, passed } from "./RunModel.ts"
import * as Settings from "./RunSettings.ts"
import * as RunTally from "./RunTally.ts"
import type { Cause, Passed } from "./Transition.ts"
import { transition } from "./Transition.ts"

export const started = ({ settings, refused }: Of<"Started">): Moved => {
  const state: RunState = { ...initial, settings }
  return refused === undefined ? begin(state, []) : stopped({ ...state, turn: 1 }, refused)
}

export const remembering = (state: RunState, memory: Memory | undefined): RunState =>
  memory === undefined ? state : { ...state, memory }

/** Begins the next turn. */
export const begin = (before: RunState, passed: ReadonlyArray<Passed>): Moved => {
  const turn = before.turn + 1
  const rules = Settings.rulesOf(before.settings)
  let { guard } = before
  if (rules !== undefined) {
    const [tripped, admitted] = RunGuard.admitCall(rules, guard)
    if (tripped !== undefined) {
      // The turn that has ended is not followed by another one.
      const kept = passed.filter(({ transition }) => transition !== "next_turn")
      return stopped(before.turn === 0 ? { ...before, turn } : before, tripped, kept)
    }
    guard = admitted
  }
  const { maxReactive } = before.settings
  const state: RunState = { ...before, turn, guard, calls: none, refits: maxReactive ?? 0, fit: "before" }
  return maxReactive === undefined
    ? ask(state, passed)
    : { action: { _tag: "Fit", cause: "before" }, transitions: passed, state: { ...state, phase: "fitting" } }
}

const ask = (state: RunState, transitions: ReadonlyArray<Passed>): Moved => ({
  action: { _tag: "Ask", nudges: state.nudges },
  transitions,
  state: { ...state, phase: "asking", nudges: none }
})

export const fitted = (before: RunState, event: Of<"Fitted">): Moved => {
  const tally = event.compacted ? RunTally.compacted(before.tally, event.summaries) : before.tally
  const state = remembering({ ...before, tally }, event.memory)
  const cause: Cause = event.prepared === true ? "prepared" : state.fit
  const isSmaller = event.edits.length > 0
  return ask(state, isSmaller ? [passed(state, "compacted", cause)] : none)
}

/** What the recovery of the call did, as transitions. */
export const noted = (state: RunState, notes: CallNotes | undefined): ReadonlyArray<Passed> => {
  if (notes === undefined) return none
  const { raisedTo, continued = 0, diminished = false, mediaDropped = 0 } = notes
  return [
    ...(mediaDropped > 0 ? [passed(state, "media_dropped")] : none),
    ...(raisedTo === undefined ? none : [passed(state, "output_limit_raised")]),
    ...Array.from({ length: continued }, () => passed(state, "output_continued")),
    ...(diminished ? [passed(state, "diminishing_returns")] : none)
  ]
}

export const askFailed = (before: RunState, { reason, mayShrink, notes }: Of<"AskFailed">): Moved => {
  const state: RunState = { ...before, tally: RunTally.noted(before.tally, notes) }
  const transitions = noted(state, notes)
  if (mayShrink && state.refits > 0 && overflowOf(reason) !== undefined) {
    return {
      action: { _tag: "Fit", cause: "refused", reason },
      transitions,
      state: { ...state, phase: "fitting", fit: "refused", refits: state.refits - 1 }
    }
  }
  return failed(state, reason, "refused", transitions)
}

/** The turn has ended without ending the run. */
export const next = (state: RunState, before: ReadonlyArray<Passed>): Moved => {
  const { turn, settings, tally } = state
  const what = transition(settings, {
    number: turn,
    finish: "pause",
    toolCalls: state.calls.length,
    costUsd: RunTally.costOf(tally) ?? 0
  })
  const transitions = [...before, passed(state, what)]
  if (what === "next_turn") return begin(state, transitions)
  return finish(state, what, what === "turn_limit" ? "turn_limit" : "cost_limit", before)
}
