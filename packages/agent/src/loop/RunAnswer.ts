/** What follows an answer and the replies of hooks. Part of `RunState`. Pure. */
import type { Stop } from "./RunAction.ts"
import type { Of } from "./RunEvent.ts"
import { finish, stopped } from "./RunEnd.ts"
import * as RunGuard from "./RunGuard.ts"
import type { Moved, RunState } from "./RunModel.ts"
import { asks, none, nudged, passed, textOf } from "./RunModel.ts"
import * as Settings from "./RunSettings.ts"
import * as RunTally from "./RunTally.ts"
import { hooking, judged, mayStillRun, run } from "./RunTools.ts"
import { begin, next, noted, remembering } from "./RunTurn.ts"
import * as TokenBudget from "./TokenBudget.ts"
import type { Cause, Passed } from "./Transition.ts"
import { transition } from "./Transition.ts"

export const answered = (before: RunState, event: Of<"Answered">): Moved => {
  const { usage, costUsd = 0, calls } = event
  const isSwitch = RunTally.isSwitch(before.tally, event.by)
  let state: RunState = remembering(
    {
      ...before,
      finish: event.finish,
      by: event.by,
      raised: event.raised ?? before.raised,
      tally: RunTally.counted(before.tally, event),
      budget: { ...before.budget, output: before.budget.output + usage.outputTokens },
      calls: calls.map(({ name }) => ({ name, verdict: run }))
    },
    event.memory
  )
  const transitions = [...noted(state, event.notes), ...(isSwitch ? [passed(state, "model_switched")] : none)]
  const rules = Settings.rulesOf(state.settings)
  if (rules !== undefined) {
    const tokens = usage.inputTokens + usage.outputTokens
    const [tripped, guard] = RunGuard.answered(rules, state.guard, event.messages, { tokens, costUsd })
    state = { ...state, guard }
    if (tripped !== undefined) return stopped(state, tripped, transitions)
    const said = RunGuard.ofText(rules, textOf(event.messages, true))
    if (said?._tag === "Stop") {
      return stopped(state, { reason: said.kind, detail: said.message }, transitions)
    }
    if (said?._tag === "Nudge") state = nudged(state, said.message)
  }
  if (calls.length === 0) {
    return event.finish === "pause" ? next(state, transitions) : atEnd(state, transitions)
  }
  return judged(state, event, transitions)
}

export const hookReplied = (before: RunState, { replies }: Of<"HookReplied">): Moved => {
  const point = before.hook
  const state: RunState = { ...before, hook: undefined }
  const cause: Cause = point === "beforeStop" ? "end" : "tool"
  const stop = replies.find((reply) => reply._tag === "Stop")
  if (stop !== undefined) {
    const why: Stop = { reason: "hook", message: stop.message }
    return finish(state, "hook_stopped", "hook_stopped", none, why, cause)
  }
  const blocks = replies.filter((reply) => reply._tag === "Block")
  if (point === "beforeStop") {
    const [block] = blocks
    if (block === undefined) return withBudget(state, none)
    if (state.turn >= state.settings.maxTurns) return finish(state, "turn_limit", "turn_limit")
    return begin(state, [passed(state, "hook_blocked", cause, block.message)])
  }
  const transitions = blocks.map(() => passed(state, "hook_blocked", cause))
  if (point === "afterTool") return next(state, transitions)
  return mayStillRun(state, replies, transitions)
}

/** The model has ended by itself. */
const atEnd = (state: RunState, transitions: ReadonlyArray<Passed>): Moved => {
  const what = transition(state.settings, {
    number: state.turn,
    finish: state.finish,
    toolCalls: 0,
    costUsd: 0
  })
  if (what !== "completed") {
    return finish(state, what, what === "answer_refused" ? "refused" : "cut", transitions)
  }
  return asks(state, "beforeStop")
    ? hooking(state, "beforeStop", none, transitions)
    : withBudget(state, transitions)
}

const withBudget = (state: RunState, transitions: ReadonlyArray<Passed>): Moved => {
  const { tokenBudget, maxTurns } = state.settings
  const isOver = tokenBudget === undefined || state.turn >= maxTurns
  const decision = isOver ? undefined : TokenBudget.stopped(state.budget, tokenBudget)
  if (decision?._tag === "Nudge") {
    const { budget, message } = decision
    return begin({ ...state, budget }, [...transitions, passed(state, "budget_nudged", undefined, message)])
  }
  const before =
    decision?._tag === "Diminishing" ? [...transitions, passed(state, "diminishing_returns")] : transitions
  return finish(state, "completed", "completed", before)
}
