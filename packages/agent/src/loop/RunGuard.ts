/**
 * Limits and loop evidence inside the state of a run. Pure.
 *
 * The rules are those of `GuardState` and `LoopDetector`. This module keeps their counts as JSON of bounded size. Each
 * call is judged in the order of the calls, and results are recorded in that order, so that a replay decides the same.
 *
 * **Limits.** Edits are counted for the last {@link maxFiles} files. Loops use the default texts and natures.
 */
import { Schema } from "effect"
import type { Prompt } from "effect/ai"
import * as EditedFiles from "../guard/EditedFiles.ts"
import type { GuardState, Step } from "../guard/GuardState.ts"
import * as State from "../guard/GuardState.ts"
import * as LoopDetector from "../guard/LoopDetector.ts"
import * as Hash from "../guard/loops/Hash.ts"
import type { Counts, Tripped } from "../guard/StopReason.ts"
import { texts } from "../guard/StopReason.ts"
import type { Verdict } from "./RunAction.ts"
import type { AnsweredCall, CallResult, Spent } from "./RunEvent.ts"
import type { RunLimits, Rules } from "./RunSettings.ts"
import { limitsOf } from "./RunSettings.ts"

export const RunGuard = Schema.Struct({
  events: Schema.Finite,
  toolCalls: Schema.Finite,
  turns: Schema.Finite,
  tokens: Schema.Finite,
  costUsd: Schema.Finite,
  subagents: Schema.Finite,
  /** Milliseconds: active time, and all time. */
  active: Schema.Finite,
  elapsed: Schema.Finite,
  /** Calls of the tools that have their own limit. */
  tools: Schema.Record(Schema.String, Schema.Finite),
  /** Hash of a file and number of its edits, the file that was edited last at the end. */
  edits: Schema.Array(Schema.Tuple([Schema.Finite, Schema.Finite])),
  /** Number of edited files, and the names of the last ones. */
  files: Schema.Finite,
  lastFiles: Schema.Array(Schema.String),
  loops: LoopDetector.State
})
export type RunGuard = typeof RunGuard.Type

/** A file that a call edits. */
export const EditedFile = Schema.Struct({ hash: Schema.Finite, name: Schema.String })
export type EditedFile = typeof EditedFile.Type

const maxFiles = 64
const maxNames = 5
const maxName = 100

export const initial: RunGuard = {
  events: 0,
  toolCalls: 0,
  turns: 0,
  tokens: 0,
  costUsd: 0,
  subagents: 0,
  active: 0,
  elapsed: 0,
  tools: {},
  edits: [],
  files: 0,
  lastFiles: [],
  loops: LoopDetector.initial
}

/** The reached limit, if any, and the guard afterwards. */
type Checked = readonly [Tripped | undefined, RunGuard]

const stateOf = (guard: RunGuard): GuardState => ({
  ...State.initial,
  events: guard.events,
  toolCalls: guard.toolCalls,
  turns: guard.turns,
  tokens: guard.tokens,
  costUsd: guard.costUsd,
  subagents: guard.subagents,
  tools: new Map(Object.entries(guard.tools))
})

const checked = (guard: RunGuard, [tripped, state]: Step): Checked =>
  tripped !== undefined
    ? [tripped, guard]
    : [
        undefined,
        {
          ...guard,
          events: state.events,
          toolCalls: state.toolCalls,
          turns: state.turns,
          tools: Object.fromEntries(state.tools)
        }
      ]

/** The time limit that was reached, if any. */
const overTime = ({ bounds }: Rules, { active, elapsed }: RunGuard): Tripped | undefined =>
  elapsed >= bounds.totalTime
    ? { reason: "timeout", limit: bounds.totalTime, subject: "total" }
    : active >= bounds.time
      ? { reason: "timeout", limit: bounds.time, subject: "active" }
      : undefined

/** Admits a call of the model. */
export const admitCall = (rules: Rules, guard: RunGuard): Checked => {
  const over = overTime(rules, guard)
  return over !== undefined ? [over, guard] : checked(guard, State.admitCall(rules.bounds, stateOf(guard)))
}

/** Counts an answer: its parts, tokens and cost, and the calls that the provider ran itself. */
export const answered = (
  rules: Rules,
  guard: RunGuard,
  messages: ReadonlyArray<Prompt.Message>,
  { tokens, costUsd }: { readonly tokens: number; readonly costUsd: number }
): Checked => {
  let next: Checked = [undefined, guard]
  for (const message of messages) {
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (next[0] !== undefined) return next
      if (part.type === "tool-call") {
        if (part.providerExecuted) next = admitTool(rules, next[1], part.name)
      } else if (part.type !== "tool-result") {
        next = checked(next[1], State.admitEvent(rules.bounds, stateOf(next[1])))
      }
    }
  }
  const [tripped, after] = next
  return [
    tripped,
    { ...after, tokens: after.tokens + atLeast0(tokens), costUsd: after.costUsd + atLeast0(costUsd) }
  ]
}

/** An invalid report must neither reduce a count nor disable a limit. */
const atLeast0 = (n: number): number => (n > 0 ? n : 0)

/** What the detector says about the text of an answer. */
export const ofText = ({ detector }: Rules, text: string): LoopDetector.Verdict | undefined =>
  detector === undefined || text === ""
    ? undefined
    : LoopDetector.text(detector, LoopDetector.read(LoopDetector.noText, text))

/** Judgement of a call, before hooks and approval. */
export type Judged =
  | { readonly _tag: "Stop"; readonly tripped: Tripped }
  | {
      readonly _tag: "Judged"
      readonly guard: RunGuard
      readonly verdict: Verdict | undefined
      readonly nudge: string | undefined
    }

/** Checks a call for loops. A blocked call is counted as such. */
export const judge = (
  rules: Rules,
  guard: RunGuard,
  turn: number,
  call: AnsweredCall & { readonly params: unknown }
): Judged => {
  const { detector } = rules
  if (detector === undefined) return { _tag: "Judged", guard, verdict: undefined, nudge: undefined }
  const asked = { turn, tool: call.name, arguments: call.params, hints: call.hints }
  const verdict = LoopDetector.before(detector, guard.loops, asked)
  switch (verdict._tag) {
    case "Stop": {
      const tripped = { reason: verdict.kind, subject: call.name, detail: verdict.message }
      return { _tag: "Stop", tripped }
    }
    case "Block": {
      const { message } = verdict
      const loops = LoopDetector.refused(detector, guard.loops, asked)
      return {
        _tag: "Judged",
        guard: { ...guard, loops, events: guard.events + 2 },
        verdict: { _tag: "Block", type: "execution-denied", message, pattern: verdict.evidence.pattern },
        nudge: undefined
      }
    }
    case "Nudge":
      return { _tag: "Judged", guard, verdict: undefined, nudge: verdict.message }
    case "Ok":
      return { _tag: "Judged", guard, verdict: undefined, nudge: undefined }
  }
}

/** The files that a call edits; none where edits are not limited. */
export const filesOf = ({ bounds }: Rules, params: unknown): ReadonlyArray<EditedFile> =>
  bounds.fileEdits === Infinity
    ? []
    : [...new Set(EditedFiles.of(params))].map((file) => ({
        hash: Hash.ofText(file),
        name: file.slice(0, maxName)
      }))

/** Admits a tool call and its file edits. */
export const admitTool = (
  rules: Rules,
  guard: RunGuard,
  tool: string,
  files: ReadonlyArray<EditedFile> = []
): Checked => {
  const { bounds } = rules
  const over = overTime(rules, guard)
  if (over !== undefined) return [over, guard]
  const [tripped, after] = checked(guard, State.admitTool(bounds, stateOf(guard), { tool, files: [] }))
  if (tripped !== undefined) return [tripped, guard]
  let next = after
  for (const { hash, name } of files) {
    const before = next.edits.find(([id]) => id === hash)?.[1] ?? 0
    if (before >= bounds.fileEdits) {
      return [{ reason: "file_loop", limit: bounds.fileEdits, subject: name }, guard]
    }
    const others = next.edits.filter(([id]) => id !== hash)
    next = {
      ...next,
      edits: [...others.slice(Math.max(0, others.length + 1 - maxFiles)), [hash, before + 1]],
      files: before > 0 ? next.files : next.files + 1,
      lastFiles: before > 0 ? next.lastFiles : [...next.lastFiles, name].slice(-maxNames)
    }
  }
  return [undefined, next]
}

/** Records results in the order of the calls, and what sub-agents have used. */
export const finished = (
  rules: Rules | undefined,
  guard: RunGuard,
  turn: number,
  results: ReadonlyArray<CallResult>
): RunGuard => {
  let next = guard
  for (const { evidence, spent } of results) {
    if (evidence !== undefined && rules?.detector !== undefined) {
      const isTimed = typeof evidence !== "number" && next.elapsed > 0
      const timed = isTimed ? { ...evidence, at: next.elapsed } : evidence
      next = { ...next, loops: LoopDetector.record(rules.detector, next.loops, turn, timed) }
    }
    if (spent !== undefined) next = withSpent(next, spent)
  }
  return next
}

const withSpent = (guard: RunGuard, spent: Spent): RunGuard => ({
  ...guard,
  events: guard.events + spent.events,
  toolCalls: guard.toolCalls + spent.toolCalls,
  turns: guard.turns + spent.turns,
  tokens: guard.tokens + spent.tokens,
  costUsd: guard.costUsd + spent.costUsd,
  subagents: guard.subagents + spent.runs
})

/** What the sub-agents of each of `calls` concurrent calls may use: an equal part of what is left. */
export const shareOf = ({ bounds }: Rules, guard: RunGuard, calls: number): RunLimits => {
  const part = (limit: number, used: number): number => Math.max(0, Math.floor((limit - used) / calls))
  const { money, depth } = bounds
  return limitsOf({
    ...bounds,
    events: part(bounds.events, guard.events),
    toolCalls: part(bounds.toolCalls, guard.toolCalls),
    turns: part(bounds.turns, guard.turns),
    tokens: part(bounds.tokens, guard.tokens),
    money: Math.max(0, (money - guard.costUsd) / calls),
    // Calls run at the same time, so each has all of the time that is left.
    time: Math.max(0, bounds.time - guard.active),
    totalTime: Math.max(0, bounds.totalTime - guard.elapsed),
    tools: new Map([...bounds.tools].map(([tool, limit]) => [tool, part(limit, guard.tools[tool] ?? 0)])),
    subagents: depth < 1 ? 0 : part(bounds.subagents, guard.subagents),
    depth: depth - 1
  })
}

/** The message of a stop, with the counts of the run. */
export const messageOf = (tripped: Tripped, guard: RunGuard, blocked: number): string => {
  const { events, toolCalls, turns, tokens, costUsd, subagents, active, elapsed, files, lastFiles } = guard
  const counts: Counts = {
    events,
    toolCalls,
    turns,
    tokens,
    costUsd,
    subagents,
    blocked,
    elapsed: active,
    totalElapsed: elapsed,
    files,
    lastFiles
  }
  return texts.stopped({ ...tripped, counts })
}
