/**
 * Settings of a run, as JSON: they are part of its state, so that a run can go on in another process.
 *
 * Limits that are absent do not apply. {@link rulesOf} returns them in the form that the guard's own modules use.
 */
import { Schema } from "effect"
import type * as Limits from "../guard/Limits.ts"
import * as LoopDetector from "../guard/LoopDetector.ts"

/** Limits of a run and its sub-agents; see `SafetyGuard`. An absent field has no limit. */
export const RunLimits = Schema.Struct({
  events: Schema.optional(Schema.Finite),
  toolCalls: Schema.optional(Schema.Finite),
  /** Milliseconds of active time, and of all time. */
  time: Schema.optional(Schema.Finite),
  totalTime: Schema.optional(Schema.Finite),
  turns: Schema.optional(Schema.Finite),
  tokens: Schema.optional(Schema.Finite),
  /** US dollars. */
  money: Schema.optional(Schema.Finite),
  tools: Schema.optional(Schema.Record(Schema.String, Schema.Finite)),
  fileEdits: Schema.optional(Schema.Finite),
  depth: Schema.optional(Schema.Finite),
  breadth: Schema.optional(Schema.Finite),
  subagents: Schema.optional(Schema.Finite)
})
export type RunLimits = typeof RunLimits.Type

/** Points at which a hook is asked. */
export const HookPoint = Schema.Literals(["beforeTool", "afterTool", "beforeStop"])
export type HookPoint = typeof HookPoint.Type

export const RunSettings = Schema.Struct({
  /** Turns of the run, at most. */
  maxTurns: Schema.Finite,
  /** US dollars of the run, at most. */
  maxCost: Schema.optional(Schema.Finite),
  limits: Schema.optional(RunLimits),
  /** Reaction to loops. Absent: loops are not detected. */
  loops: Schema.optional(Schema.Literals(["strict", "soft", "tell"])),
  /** Output tokens that the run should produce. */
  tokenBudget: Schema.optional(Schema.Finite),
  hooks: Schema.Array(HookPoint),
  /** True when calls that need approval suspend the run. Otherwise the interpreter decides while it runs them. */
  suspends: Schema.Boolean,
  /** Compactions of a turn after a rejection, at most. Absent: the run has no compaction. */
  maxReactive: Schema.optional(Schema.Finite)
})
export type RunSettings = typeof RunSettings.Type

export const defaults: RunSettings = { maxTurns: 50, hooks: [], suspends: false }

/** Limits and detector of a run; `undefined` if it has none. */
export interface Rules {
  readonly bounds: Limits.Bounds
  readonly detector: LoopDetector.LoopDetector | undefined
}

const known = new WeakMap<RunSettings, Rules>()

export const rulesOf = (settings: RunSettings): Rules | undefined => {
  if (settings.limits === undefined && settings.loops === undefined) return undefined
  const before = known.get(settings)
  if (before !== undefined) return before
  const { loops } = settings
  const rules: Rules = {
    bounds: boundsOf(settings.limits ?? {}),
    detector: loops === undefined ? undefined : LoopDetector.make(loops)
  }
  known.set(settings, rules)
  return rules
}

const boundsOf = (limits: RunLimits): Limits.Bounds => ({
  events: limits.events ?? Infinity,
  toolCalls: limits.toolCalls ?? Infinity,
  time: limits.time ?? Infinity,
  totalTime: limits.totalTime ?? Infinity,
  turns: limits.turns ?? Infinity,
  tokens: limits.tokens ?? Infinity,
  money: limits.money ?? Infinity,
  tools: new Map(Object.entries(limits.tools ?? {})),
  fileEdits: limits.fileEdits ?? Infinity,
  depth: limits.depth ?? Infinity,
  breadth: limits.breadth ?? Infinity,
  subagents: limits.subagents ?? Infinity
})

/** The limits as JSON. */
export const limitsOf = ({ tools, ...bounds }: Limits.Bounds): RunLimits => ({
  // `Infinity` is not JSON.
  ...Object.fromEntries(Object.entries(bounds).filter(([, limit]) => limit !== Infinity)),
  ...(tools.size === 0 ? {} : { tools: Object.fromEntries(tools) })
})

/** The smaller one of each two limits. */
export const narrower = (a: RunLimits, b: RunLimits): RunLimits => {
  const least = (one: number | undefined, other: number | undefined): number | undefined =>
    one === undefined || other === undefined ? (one ?? other) : Math.min(one, other)
  const tools = { ...b.tools }
  for (const [tool, limit] of Object.entries(a.tools ?? {}))
    tools[tool] = Math.min(limit, tools[tool] ?? limit)
  return {
    events: least(a.events, b.events),
    toolCalls: least(a.toolCalls, b.toolCalls),
    time: least(a.time, b.time),
    totalTime: least(a.totalTime, b.totalTime),
    turns: least(a.turns, b.turns),
    tokens: least(a.tokens, b.tokens),
    money: least(a.money, b.money),
    tools: Object.keys(tools).length === 0 ? undefined : tools,
    fileEdits: least(a.fileEdits, b.fileEdits),
    depth: least(a.depth, b.depth),
    breadth: least(a.breadth, b.breadth),
    subagents: least(a.subagents, b.subagents)
  }
}
