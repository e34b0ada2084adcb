/**
 * Limits of a run: numbers that nothing inside the run can change. They are checked when they are made.
 *
 * A limit is the allowed number: with `toolCalls: 400` the 401st call does not run. `toolCalls`, `turns` and active
 * time always have a limit, so that every run ends. The others may be `false` for no limit.
 *
 * **Example** (The defaults with two changes)
 *
 * ```ts
 * SafetyGuard.run({ time: "10 minutes", tools: { delete_file: 3 } })(program)
 * ```
 */
import { Duration } from "effect"
import { Options as Check } from "@outlast/resilience"

export interface Limits {
  /**
   * Events of the transcript: a block of text or thinking, a file, a source, a tool call, a result. Deltas of a
   * stream do not count. Default: no limit. At most 1,000,000.
   */
  readonly events?: number | false | undefined
  /** Tool calls. Default 400, at most 1,000,000. */
  readonly toolCalls?: number | undefined
  /**
   * Active time, total time, or both. A duration alone is active time; a number is milliseconds. `{}` means the
   * defaults.
   */
  readonly time?: Duration.Input | Times | undefined
  /** Model calls. Default 400, at most 1,000,000. */
  readonly turns?: number | undefined
  /** Input and output tokens, as providers report them. Default: no limit. */
  readonly tokens?: number | false | undefined
  /** US dollars, where prices are known. Default: no limit. */
  readonly money?: number | false | undefined
  /** Calls of a tool, by its name. Default: no limit. 0 forbids the tool. */
  readonly tools?: Readonly<Record<string, number>> | undefined
  /** Edits of any one file. Default: no limit. */
  readonly fileEdits?: number | false | undefined
  /** Agents that other agents run. */
  readonly subagents?: Subagents | undefined
}

export interface Times {
  /**
   * Active time: waits for a cooldown, between attempts and for a person do not count. Default 60 minutes, at most 30
   * days.
   */
  readonly active?: Duration.Input | undefined
  /** All time since the start of the run, including waits. Default: no limit. At most 30 days. */
  readonly total?: Duration.Input | false | undefined
}

export interface Subagents {
  /** Levels below the first agent. Default 3; 0 forbids them. */
  readonly depth?: number | undefined
  /** Sub-agents of one agent that run concurrently. Default 8. */
  readonly breadth?: number | undefined
  /** All sub-agents of a run. Default 32. */
  readonly total?: number | undefined
}

/** Resolved limits. `Infinity` means no limit. */
export interface Bounds {
  readonly events: number
  readonly toolCalls: number
  /** Milliseconds of active time. */
  readonly time: number
  /** Milliseconds from the start of the run. */
  readonly totalTime: number
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
  time: { active: "60 minutes", total: false },
  turns: 400,
  tokens: false,
  money: false,
  tools: {},
  fileEdits: false,
  subagents: { depth: 3, breadth: 8, total: 32 }
} as const satisfies Limits

/** The limits with the defaults. Throws an `InvalidOption` (a `RangeError`) for an unknown or invalid field. */
export const make = (limits: Limits = {}): Bounds => {
  Check.fields<Limits>(module, limits, checks)
  const { events, toolCalls, turns, tokens, money, tools, fileEdits } = { ...defaults, ...given(limits) }
  const { active, total } = { ...defaults.time, ...timesOf(limits.time) }
  const { depth, breadth, total: subagents } = { ...defaults.subagents, ...given(limits.subagents ?? {}) }
  return {
    events: limitOf(events),
    toolCalls,
    time: Duration.toMillis(active),
    totalTime: total === false ? Infinity : Duration.toMillis(total),
    turns,
    tokens: limitOf(tokens),
    money: limitOf(money),
    tools: new Map(Object.entries(tools)),
    fileEdits: limitOf(fileEdits),
    depth,
    breadth,
    subagents
  }
}

/** Amounts to add to some limits. */
export interface Extension {
  readonly events?: number | undefined
  readonly toolCalls?: number | undefined
  /** Adds to active time, total time, or both. A duration is active time. */
  readonly time?: Duration.Input | ExtendedTimes | undefined
  readonly turns?: number | undefined
  readonly tokens?: number | undefined
  readonly money?: number | undefined
  readonly tools?: Readonly<Record<string, number>> | undefined
  readonly fileEdits?: number | undefined
  /** Added to `subagents.total`. */
  readonly subagents?: number | undefined
}

export interface ExtendedTimes {
  readonly active?: Duration.Input | undefined
  readonly total?: Duration.Input | undefined
}

/** Adds to the bounds. Throws an `InvalidOption` for an invalid extension or a sum out of range. */
export const extended = (bounds: Bounds, by: Extension): Bounds => {
  Check.fields<{ readonly extend: Extension }>(module, { extend: by }, { extend: is.required(additions) })
  const plus = (field: NumericBound, added = 0): number => {
    const limit = bounds[field]
    // An unlimited bound stays unlimited.
    if (limit === Infinity || added === 0) return limit
    return inRange(field, limit + added)
  }
  const longer = (field: "time" | "totalTime", added: Duration.Input = 0): number => {
    const limit = bounds[field]
    if (limit === Infinity) return limit
    const sum = limit + Duration.toMillis(added)
    return Check.millis(module, field === "time" ? "time" : "time.total", sum, { max: maxTime })
  }
  const tools = new Map(bounds.tools)
  for (const [name, added] of Object.entries(by.tools ?? {})) {
    const limit = tools.get(name)
    // A tool without a limit stays unlimited.
    if (limit !== undefined) tools.set(name, countOf(`tools.${name}`, limit + added, limit))
  }
  const { active, total } = timesOf(by.time)
  return {
    ...bounds,
    events: plus("events", by.events),
    toolCalls: plus("toolCalls", by.toolCalls),
    time: longer("time", active),
    totalTime: longer("totalTime", total === false ? undefined : total),
    turns: plus("turns", by.turns),
    tokens: plus("tokens", by.tokens),
    money: plus("money", by.money),
    tools,
    fileEdits: plus("fileEdits", by.fileEdits),
    subagents: plus("subagents", by.subagents)
  }
}

// -----------------------------------------------------------------------------
// Checks
// -----------------------------------------------------------------------------

const module = "SafetyGuard"
const maxTime = "30 days"
const maxCount = 1_000_000

const { is } = Check

const count = is.integer({ min: 1, max: maxCount })
const countOrNone = is.integer({ min: 0, max: maxCount })
const time = is.duration({ min: 1, max: maxTime })

const amount: Check.Check = (module, field, n) =>
  Check.check(isAmount(n), module, field, n, "a finite number above 0")

const isAmount = (n: unknown): boolean => typeof n === "number" && Number.isFinite(n) && n > 0

/** Rejects a `Map`, which would be read as an empty record. */
const byTool = (item: Check.Check): Check.Check => is.record(item, "a record of numbers")

/** True for `{ active, total }` and for any other plain object that is not a duration. */
const isTimes = (time: unknown): time is Times =>
  Object.prototype.toString.call(time) === "[object Object]" && !Check.isDuration(time)

const timeOr =
  (times: Check.Check, duration: Check.Check): Check.Check =>
  (module, field, value) =>
    (isTimes(value) ? times : duration)(module, field, value)

/** One check for each limit. `SafetyGuard` adds checks for its other options. */
export const checks: Check.Checks<Limits> = {
  events: is.falseOr(count),
  toolCalls: count,
  time: timeOr(is.object<Times>({ active: time, total: is.falseOr(time) }), time),
  turns: count,
  tokens: is.falseOr(amount),
  money: is.falseOr(amount),
  tools: byTool(countOrNone),
  fileEdits: is.falseOr(count),
  subagents: is.object<Subagents>({ depth: countOrNone, breadth: count, total: countOrNone })
}

const more = is.number({ min: 0 })
const longer = is.duration()

const additions: Check.Check = is.object<Extension>({
  events: more,
  toolCalls: more,
  time: timeOr(is.object<ExtendedTimes>({ active: longer, total: longer }), longer),
  turns: more,
  tokens: more,
  money: more,
  tools: byTool(more),
  fileEdits: more,
  subagents: more
})

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

type NumericBound = Exclude<keyof Bounds, "tools" | "time" | "totalTime" | "depth" | "breadth">

const timesOf = (time: Duration.Input | Times | undefined): Given<Times> =>
  time === undefined ? {} : isTimes(time) ? given(time) : { active: time }

const limitOf = (n: number | false): number => (n === false ? Infinity : n)

const countOf = (field: string, n: number, min = 1): number =>
  Check.integer(module, field, n, { min, max: maxCount })

const inRange = (field: NumericBound, sum: number): number => {
  if (field !== "tokens" && field !== "money") return countOf(field, sum)
  amount(module, field, sum)
  return sum
}

/** The fields of an object that are not `undefined`. */
type Given<O> = { readonly [K in keyof O]?: Exclude<O[K], undefined> }

const given = <O extends object>(options: O): Given<O> =>
  // Only undefined fields are removed, so the remaining ones keep their types.
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Given<O>
