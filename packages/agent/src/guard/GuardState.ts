/**
 * Amounts that a run has used, and the decision whether it may use more. Pure.
 *
 * **States.** Running, or stopped with its reason. A stopped state admits nothing.
 *
 * Each `admit…` function is asked before something happens, and counts it at once. A {@link Step} is either a reached
 * limit, and nothing is counted, or the new state. No count ever exceeds its limit, in any order of concurrent calls.
 * Tokens and cost are known only afterwards: {@link spent} adds them, and the next call checks them. Each step takes
 * constant time, and memory is bounded.
 *
 * **What it does not do.** It measures no time (`ActiveTime` does) and detects no loops (`LoopDetector` does).
 */
import type { BlockedCall } from "./BlockedCalls.ts"
import * as BlockedCalls from "./BlockedCalls.ts"
import * as FileCounts from "./FileCounts.ts"
import type { Bounds } from "./Limits.ts"
import type { Counts, Tripped } from "./StopReason.ts"

export interface GuardState {
  readonly events: number
  readonly toolCalls: number
  readonly turns: number
  readonly tokens: number
  readonly costUsd: number
  readonly subagents: number
  /** Calls of the tools that have their own limit. */
  readonly tools: ReadonlyMap<string, number>
  readonly files: FileCounts.FileCounts
  readonly blocked: BlockedCalls.BlockedCalls
  readonly stopped: Tripped | undefined
}

/** The reached limit, if any, and the state afterwards. */
export type Step = readonly [Tripped | undefined, GuardState]

export const initial: GuardState = {
  events: 0,
  toolCalls: 0,
  turns: 0,
  tokens: 0,
  costUsd: 0,
  subagents: 0,
  tools: new Map(),
  files: FileCounts.none,
  blocked: BlockedCalls.none,
  stopped: undefined
}

/** Admits a call of the model. */
export const admitCall = (bounds: Bounds, state: GuardState): Step => {
  if (state.stopped !== undefined) return [state.stopped, state]
  const { turns, tokens, costUsd } = state
  if (turns >= bounds.turns) return over({ reason: "turns", limit: bounds.turns }, state)
  if (tokens >= bounds.tokens) return over({ reason: "tokens", limit: bounds.tokens }, state)
  if (costUsd >= bounds.money) return over({ reason: "money", limit: bounds.money }, state)
  if (state.events >= bounds.events) return over({ reason: "max_events", limit: bounds.events }, state)
  return [undefined, { ...state, turns: turns + 1 }]
}

/** Admits a tool call and its file edits, with each file named once. The call and its result are two events. */
export const admitTool = (
  bounds: Bounds,
  state: GuardState,
  { tool, files }: { readonly tool: string; readonly files: ReadonlyArray<string> }
): Step => {
  if (state.stopped !== undefined) return [state.stopped, state]
  const { events, toolCalls, tools } = state
  if (events + 2 > bounds.events) return over({ reason: "max_events", limit: bounds.events }, state)
  if (toolCalls >= bounds.toolCalls) return over({ reason: "max_tool_calls", limit: bounds.toolCalls }, state)
  const limit = bounds.tools.get(tool)
  const used = tools.get(tool) ?? 0
  // Stryker disable next-line ConditionalExpression: for the types; no number is at least `undefined`.
  if (limit !== undefined && used >= limit) {
    return over({ reason: "tool_limit", limit, subject: tool }, state)
  }
  const subject = files.find((file) => FileCounts.get(state.files, file) >= bounds.fileEdits)
  if (subject !== undefined) return over({ reason: "file_loop", limit: bounds.fileEdits, subject }, state)
  return [
    undefined,
    {
      ...state,
      events: events + 2,
      toolCalls: toolCalls + 1,
      tools: limit === undefined ? tools : new Map(tools).set(tool, used + 1),
      files: files.reduce(FileCounts.add, state.files)
    }
  ]
}

/** Records a tool call that does not run. The call and its result are two events, but no tool call. */
export const admitDenial = (bounds: Bounds, state: GuardState, call: BlockedCall): Step => {
  if (state.stopped !== undefined) return [state.stopped, state]
  if (state.events + 2 > bounds.events) return over({ reason: "max_events", limit: bounds.events }, state)
  const blocked = BlockedCalls.add(state.blocked, call)
  return [undefined, { ...state, events: state.events + 2, blocked }]
}

/** Admits one event of the transcript. */
export const admitEvent = (bounds: Bounds, state: GuardState): Step => {
  if (state.stopped !== undefined) return [state.stopped, state]
  if (state.events >= bounds.events) return over({ reason: "max_events", limit: bounds.events }, state)
  return [undefined, { ...state, events: state.events + 1 }]
}

/**
 * Admits an agent. `depth` is its depth below the guarded program: the first agent has depth 0 and is not counted.
 * `running` is the number of running sub-agents of its parent.
 */
export const admitAgent = (
  bounds: Bounds,
  state: GuardState,
  { depth, running }: { readonly depth: number; readonly running: number }
): Step => {
  if (state.stopped !== undefined) return [state.stopped, state]
  if (depth === 0) return [undefined, state]
  const refused = (limit: number, detail: string): Step => over({ reason: "subagents", limit, detail }, state)
  if (depth > bounds.depth) {
    return refused(bounds.depth, `reached maximum of ${bounds.depth} levels of sub-agents.`)
  }
  if (running >= bounds.breadth) {
    return refused(bounds.breadth, `reached maximum of ${bounds.breadth} sub-agents of one agent at a time.`)
  }
  if (state.subagents >= bounds.subagents) {
    return refused(bounds.subagents, `reached maximum of ${bounds.subagents} sub-agents.`)
  }
  return [undefined, { ...state, subagents: state.subagents + 1 }]
}

/** Adds the tokens and cost of an answer. */
export const spent = (
  state: GuardState,
  { tokens, costUsd }: { readonly tokens: number; readonly costUsd: number }
): GuardState => ({
  ...state,
  tokens: state.tokens + amountOf(tokens),
  costUsd: state.costUsd + amountOf(costUsd)
})

/** An invalid report (negative or NaN) must neither reduce a count nor disable a limit. */
// Stryker disable next-line EqualityOperator: 0 is 0 either way.
const amountOf = (reported: number): number => (reported > 0 ? reported : 0)

/** Stops the run. Only the first stop counts. */
export const stop = (state: GuardState, tripped: Tripped): GuardState =>
  state.stopped === undefined ? { ...state, stopped: brief(tripped) } : state

/** Shortens names and texts that may come from the model. */
const brief = (tripped: Tripped): Tripped => {
  const { subject, detail } = tripped
  return {
    ...tripped,
    ...(subject === undefined ? {} : { subject: FileCounts.named(subject) }),
    ...(detail === undefined ? {} : { detail: detail.slice(0, maxDetail) })
  }
}

/** Maximum characters of a detail. */
const maxDetail = 1_000

/** Clears the stop after the host raised the limits. */
export const resumed = (state: GuardState): GuardState => ({ ...state, stopped: undefined })

export const counts = (state: GuardState, elapsed: number, totalElapsed: number): Counts => ({
  events: state.events,
  toolCalls: state.toolCalls,
  turns: state.turns,
  tokens: state.tokens,
  costUsd: state.costUsd,
  subagents: state.subagents,
  blocked: state.blocked.count,
  elapsed,
  totalElapsed,
  files: state.files.total,
  lastFiles: state.files.last
})

const over = (tripped: Tripped, state: GuardState): Step => [tripped, stop(state, tripped)]
