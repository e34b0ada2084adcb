/** Ends a run: with an ending, or with a failure. Part of `RunState`. Pure. */
import type { Tripped } from "../guard/StopReason.ts"
import type { Reason } from "./AgentFailed.ts"
import { isRefused, isTooLong } from "./AgentFailed.ts"
import type { Ending, RunAction, Stop } from "./RunAction.ts"
import * as RunGuard from "./RunGuard.ts"
import type { Moved, RunState } from "./RunModel.ts"
import { none, passed } from "./RunModel.ts"
import * as RunTally from "./RunTally.ts"
import type { Cause, Passed, Transition } from "./Transition.ts"

export const failed = (
  state: RunState,
  reason: Reason,
  cause: "before" | "refused",
  before: ReadonlyArray<Passed> = none
): Moved => {
  const what = isTooLong(reason)
    ? passed(state, "context_exhausted", cause)
    : passed(state, isRefused(reason) ? "answer_refused" : "model_failed")
  return end(state, { _tag: "Fail", turn: state.turn, reason }, [...before, what])
}

/** A limit of the run, or a guard around it, ends the run. */
export const stopped = (
  state: RunState,
  tripped: Tripped | undefined,
  transitions: ReadonlyArray<Passed> = none
): Moved => {
  const { guard, tally } = state
  const stop: Stop =
    tripped === undefined
      ? { reason: "guard_failed", message: "A guard around the run stopped it." }
      : {
          reason: tripped.reason,
          limit: tripped.limit,
          subject: tripped.subject,
          message: RunGuard.messageOf(tripped, guard, tally.blocked)
        }
  return finish(state, "guard_stopped", "guard_stopped", transitions, stop)
}

export const finish = (
  state: RunState,
  what: Transition,
  status: Ending["status"],
  before: ReadonlyArray<Passed> = none,
  stop?: Stop,
  cause?: Cause
): Moved =>
  end(state, { _tag: "Finish", ending: endingOf(state, status, stop) }, [
    ...before,
    passed(state, what, cause)
  ])

export const end = (state: RunState, action: RunAction, transitions: ReadonlyArray<Passed>): Moved => ({
  action,
  transitions,
  state: { ...state, phase: "ended" }
})

/** The end of a run as it stands now. */
export const endingOf = (state: RunState, status: Ending["status"], stop?: Stop): Ending => ({
  status,
  finishReason: state.finish,
  ...RunTally.totals(state.tally),
  ...(stop === undefined ? {} : { stop })
})
