/**
 * What a run may take: numbers that nothing inside the run can change. Checked when they are made.
 *
 * A limit is the number that is allowed: with `toolCalls: 400` the 401st call does not run. `toolCalls`, `turns` and
 * `time` always have a number, so that every run ends; the others may be `false`, for none.
 *
 * **Example** (The defaults, but for two)
 *
 * ```ts
 * SafetyGuard.run({ time: "10 minutes", tools: { delete_file: 3 } })(program)
 * ```
 */
import type { Duration } from "effect"
import * as Check from "@outlast/resilience/Options"

export interface Limits {
  /**
   * Events of the transcript: a block of text or thinking, a file, a source, a tool call, a result. Deltas of a stream
   * are none. Default: none. At most 1,000,000.
   */
  readonly events?: number | false | undefined
  /** Tool calls. Default 400, at most 1,000,000. */
  readonly toolCalls?: number | undefined
  /** Active time: waits for a cooldown, between attempts and for a person do not count. Default 60 minutes, at most 30 days. */
  readonly time?: Duration.Input | undefined
  /** Calls of models. Default 400, at most 1,000,000. */
  readonly turns?: number | undefined
  /** Tokens in and out, as providers report them. Default: none. */
  readonly tokens?: number | false | undefined
  /** US dollars, where prices are known. Default: none. */
  readonly money?: number | false | undefined
  /** Calls of a tool, by its name. Default: none. 0 forbids it. */
  readonly tools?: Readonly<Record<string, number>> | undefined
  /** Edits of any one file. Default: none. */
  readonly fileEdits?: number | false | undefined
  /** Agents that agents run. */
  readonly subagents?: Subagents | undefined
}

export interface Subagents {
  /** Levels below the first agent. Default 3; 0 forbids them. */
  readonly depth?: number | undefined
  /** Those of one agent that run at the same time. Default 8. */
  readonly breadth?: number | undefined
  /** All of a run. Default 32. */
  readonly total?: number | undefined
}

/** Limits as they are compared: no limit is `Infinity`. */
export interface Bounds {
  readonly events: number
  readonly toolCalls: number
  /** Milliseconds. */
  readonly time: number
  readonly turns: number
  readonly tokens: number
  readonly money: number
  readonly tools: ReadonlyMap<string, number>
  readonly fileEdits: number
  readonly depth: number
  readonly breadth: number
  readonly subagents: number
}

export const defaults = {
  events: false,
  toolCalls: 400,
  time: "60 minutes",
  turns: 400,
  tokens: false,
  money: false,
  tools: {},
  fileEdits: false,
  subagents: { depth: 3, breadth: 8, total: 32 }
} as const satisfies Limits

/** The limits with the defaults. Throws an `InvalidOption` (a `RangeError`) for what is no limit, or out of its range. */
export const make = (limits: Limits = {}): Bounds => {
  const { subagents = {}, fileEdits = defaults.fileEdits } = limits
  const tools: Readonly<Record<string, number>> = limits.tools ?? defaults.tools
  record("tools", tools)
  record("subagents", subagents)
  const { depth, breadth, total } = { ...defaults.subagents, ...defined(subagents) }
  return {
    events: limitOf("events", limits.events ?? defaults.events),
    toolCalls: countOf("toolCalls", limits.toolCalls ?? defaults.toolCalls),
    time: Check.millis(module, "time", limits.time ?? defaults.time, { min: 1, max: maxTime }),
    turns: countOf("turns", limits.turns ?? defaults.turns),
    tokens: amountOf("tokens", limits.tokens ?? defaults.tokens),
    money: amountOf("money", limits.money ?? defaults.money),
    tools: new Map(Object.entries(tools).map(([name, n]) => [name, countOf(`tools.${name}`, n, 0)])),
    fileEdits: limitOf("fileEdits", fileEdits),
    depth: countOf("subagents.depth", depth, 0),
    breadth: countOf("subagents.breadth", breadth),
    subagents: countOf("subagents.total", total, 0)
  }
}

/** More of some limits, added to what is there. */
export interface Extension {
  readonly events?: number | undefined
  readonly toolCalls?: number | undefined
  readonly time?: Duration.Input | undefined
  readonly turns?: number | undefined
  readonly tokens?: number | undefined
  readonly money?: number | undefined
  readonly tools?: Readonly<Record<string, number>> | undefined
  readonly fileEdits?: number | undefined
  /** Of `subagents.total`. */
  readonly subagents?: number | undefined
}

/** The bounds, wider. Throws an `InvalidOption` for what is no addition, and for a sum out of the range. */
export const extended = (bounds: Bounds, by: Extension): Bounds => {
  const plus = (field: NumericBound, added: number | undefined): number => {
    const limit = bounds[field]
    if (added === undefined) return limit
    const sum = limit + Check.number(module, `extend.${field}`, added, { min: 0 })
    // No limit stays none.
    return limit === Infinity ? limit : inRange(field, sum)
  }
  record("extend.tools", by.tools ?? {})
  const tools = new Map(bounds.tools)
  for (const [name, added] of Object.entries(by.tools ?? {})) {
    const limit = tools.get(name)
    // A tool without a limit keeps none.
    if (limit !== undefined) tools.set(name, countOf(`tools.${name}`, limit + added, limit))
  }
  const time = by.time === undefined ? undefined : Check.millis(module, "extend.time", by.time)
  return {
    ...bounds,
    events: plus("events", by.events),
    toolCalls: plus("toolCalls", by.toolCalls),
    time:
      time === undefined ? bounds.time : Check.millis(module, "time", bounds.time + time, { max: maxTime }),
    turns: plus("turns", by.turns),
    tokens: plus("tokens", by.tokens),
    money: plus("money", by.money),
    tools,
    fileEdits: plus("fileEdits", by.fileEdits),
    subagents: plus("subagents", by.subagents)
  }
}

const module = "SafetyGuard"
const maxTime = "30 days"
const maxCount = 1_000_000

type NumericBound = Exclude<keyof Bounds, "tools" | "time" | "depth" | "breadth">

const countOf = (field: string, n: number, min = 1): number =>
  Check.integer(module, field, n, { min, max: maxCount })

const limitOf = (field: string, n: number | false): number => (n === false ? Infinity : countOf(field, n))

const amountOf = (field: string, n: number | false): number => {
  if (n === false) return Infinity
  Check.check(Number.isFinite(n) && n > 0, module, field, n, "a finite number above 0, or false")
  return n
}

const inRange = (field: NumericBound, sum: number): number =>
  field === "tokens" || field === "money" ? amountOf(field, sum) : countOf(field, sum)

/** From a program without types: what is looked up by name. A `Map` would be taken for one without names. */
const record = (field: string, value: unknown): void =>
  Check.check(
    Object.prototype.toString.call(value) === "[object Object]",
    module,
    field,
    value,
    "a record of numbers"
  )

/** An option that is given as `undefined` is not given. */
const defined = (subagents: Subagents): { depth?: number; breadth?: number; total?: number } => ({
  ...(subagents.depth === undefined ? {} : { depth: subagents.depth }),
  ...(subagents.breadth === undefined ? {} : { breadth: subagents.breadth }),
  ...(subagents.total === undefined ? {} : { total: subagents.total })
})
