/** The tool calls of a turn: verdicts, hooks, approval, results. Part of `RunState`. Pure. */
import type { Response } from "effect/ai"
import type { Verdict } from "./RunAction.ts"
import type { HookReply, Of } from "./RunEvent.ts"
import { stopped } from "./RunEnd.ts"
import * as RunGuard from "./RunGuard.ts"
import type { Moved, Pending, RunState } from "./RunModel.ts"
import { asks, none, nudged, paramsOf } from "./RunModel.ts"
import type { HookPoint } from "./RunSettings.ts"
import * as Settings from "./RunSettings.ts"
import { next } from "./RunTurn.ts"
import * as RunTally from "./RunTally.ts"
import type { Passed } from "./Transition.ts"

export const run: Verdict = { _tag: "Run" }
const approve: Verdict = { _tag: "Approve" }

/** Finish reasons of a complete answer. After any other reason its tool calls may be cut. */
const complete: ReadonlySet<Response.FinishReason> = new Set<Response.FinishReason>([
  "stop",
  "tool-calls",
  "pause"
])

/** Gives each call of an answer its verdict, in the order of the calls. */
export const judged = (
  before: RunState,
  event: Of<"Answered">,
  transitions: ReadonlyArray<Passed>
): Moved => {
  if (!complete.has(event.finish)) {
    return runTools(
      { ...before, calls: before.calls.map(({ name }) => ({ name, verdict: cut })) },
      transitions
    )
  }
  const rules = Settings.rulesOf(before.settings)
  const params = paramsOf(event.messages)
  let state = before
  const calls: Array<Pending> = []
  for (const [i, call] of event.calls.entries()) {
    let verdict: Verdict = call.approval === true ? approve : run
    if (rules !== undefined) {
      const said = RunGuard.judge(rules, state.guard, state.turn, { ...call, params: params[i] })
      if (said._tag === "Stop") return stopped(state, said.tripped, transitions)
      state = { ...state, guard: said.guard }
      if (said.nudge !== undefined) state = nudged(state, said.nudge)
      verdict = said.verdict ?? verdict
    }
    const files = rules === undefined ? none : RunGuard.filesOf(rules, params[i])
    calls.push({ name: call.name, verdict, ...(files.length === 0 ? {} : { files }) })
  }
  return beforeTools({ ...state, calls }, transitions)
}

const cut: Verdict = {
  _tag: "Block",
  type: "execution-interrupted",
  message: "The answer was cut: the call was not run."
}

const notApproved: Verdict = {
  _tag: "Block",
  type: "execution-denied",
  message: "This call was not approved."
}

const positions = (state: RunState, which: (verdict: Verdict) => boolean): ReadonlyArray<number> =>
  state.calls.flatMap(({ verdict }, i) => (which(verdict) ? [i] : []))

const mayRun = ({ _tag }: Verdict): boolean => _tag !== "Block"

const beforeTools = (state: RunState, transitions: ReadonlyArray<Passed>): Moved => {
  const calls = positions(state, mayRun)
  if (!asks(state, "beforeTool") || calls.length === 0) return approving(state, transitions)
  return hooking(state, "beforeTool", calls, transitions)
}

export const hooking = (
  state: RunState,
  point: HookPoint,
  calls: ReadonlyArray<number>,
  transitions: ReadonlyArray<Passed>
): Moved => ({
  action: { _tag: "AskHook", point, calls },
  transitions,
  state: { ...state, phase: "hooking", hook: point }
})

const approving = (state: RunState, transitions: ReadonlyArray<Passed>): Moved => {
  const calls = positions(state, ({ _tag }) => _tag === "Approve")
  if (!state.settings.suspends || calls.length === 0) return runTools(state, transitions)
  return {
    action: { _tag: "AskApproval", calls },
    transitions,
    state: { ...state, phase: "approving" }
  }
}

export const approved = (state: RunState, decisions: ReadonlyArray<boolean>): Moved => {
  let at = 0
  const calls = state.calls.map((call) =>
    call.verdict._tag === "Approve"
      ? { ...call, verdict: decisions[at++] === true ? run : notApproved }
      : call
  )
  return runTools({ ...state, calls }, none)
}

/** Counts the calls that may run, and runs them. */
const runTools = (before: RunState, transitions: ReadonlyArray<Passed>): Moved => {
  const rules = Settings.rulesOf(before.settings)
  let state: RunState = { ...before, phase: "tools" }
  const verdicts = state.calls.map(({ verdict }) => verdict)
  if (rules === undefined) return { action: { _tag: "RunTools", verdicts }, transitions, state }
  let running = 0
  for (const { name, verdict, files } of state.calls) {
    if (!mayRun(verdict)) continue
    running++
    const [tripped, guard] = RunGuard.admitTool(rules, state.guard, name, files)
    if (tripped !== undefined) return stopped(state, tripped, transitions)
    state = { ...state, guard }
  }
  const share = running === 0 ? undefined : RunGuard.shareOf(rules, state.guard, running)
  return { action: { _tag: "RunTools", verdicts, ...(share && { share }) }, transitions, state }
}

export const toolsFinished = (before: RunState, { results }: Of<"ToolsFinished">): Moved => {
  const rules = Settings.rulesOf(before.settings)
  const state: RunState = {
    ...before,
    guard: RunGuard.finished(rules, before.guard, before.turn, results),
    tally: RunTally.finished(before.tally, before.calls, results)
  }
  const ran = positions(state, mayRun)
  return asks(state, "afterTool") && ran.length > 0
    ? hooking(state, "afterTool", ran, none)
    : next(state, none)
}

/** The replies to `beforeTool`. */
export const mayStillRun = (
  state: RunState,
  replies: ReadonlyArray<HookReply>,
  transitions: ReadonlyArray<Passed>
): Moved => {
  let at = 0
  const calls = state.calls.map((call) => {
    const reply = mayRun(call.verdict) ? replies[at++] : undefined
    return reply?._tag === "Block" ? { ...call, verdict: blockedBy(reply.message) } : call
  })
  return approving({ ...state, calls }, transitions)
}

const blockedBy = (message: string): Verdict => ({
  _tag: "Block",
  type: "execution-denied",
  message: message.slice(0, maxHookMessage),
  pattern: "hook"
})

/** Characters of a hook's message in the state. */
const maxHookMessage = 1_000
