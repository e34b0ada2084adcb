/**
 * Whether an agent goes round in circles: by what its calls bring, not by how many they are.
 *
 * **What it counts.** An outcome is _known_ when the same call brought it before, volatile parts aside, and _new_
 * otherwise. A run that brings something new is left alone, however often it calls the same tool. What it counts is
 *
 * - the same call with a known outcome, nothing new in between (`identical`; `poll` where it waits for something), and
 *   the same failure of the same call, nothing done in between;
 * - rounds of the same outcomes, A-B-A-B and longer (`cycle`);
 * - the same failure with other arguments (`same_failure`), the same finding (`same_finding`);
 * - a check that fails as before, whatever is changed (`unchanged_check`);
 * - edits of one file that go back, do nothing, or leave the check as it was (`edits`);
 * - any calls in a row that bring nothing new (`stale`), and an answer that repeats itself (`text`).
 *
 * **Ladder.** `before` says what to do with a call: `Ok`, `Nudge` (run it, and tell the model), `Block` (do not run it,
 * tell the model why) or `Stop` (it has been told often enough). `observe` takes in what a call brought, `refused`
 * that it was not run. Equal calls of one turn count once.
 *
 * **Strict and soft.** Only strict evidence blocks and stops by default: `identical`, `poll`, `cycle` of the same calls,
 * `text`. All other evidence is soft: the model is told. The option `mode` changes that.
 *
 * **Composition.** Pure: a state goes in, a state comes out, and its size is bounded. `SafetyGuard` asks it before a
 * tool runs; `outlast guard` replays traces with it.
 *
 * **What it does not do.** It runs and stops nothing, it reads no clock, and it does not know what words mean: an agent
 * that finds new pages about the wrong thing makes progress here. A limit must end that.
 *
 * **Example**
 *
 * ```ts
 * const detector = LoopDetector.make({ tools: { fetch_price: { nature: "read" } } })
 * let state = LoopDetector.initial(detector)
 * const verdict = LoopDetector.before(detector, state, { turn: 0, tool: "grep", arguments: { pattern: "a" } })
 * ```
 */
import * as AfterCall from "./loops/AfterCall.ts"
import * as Cycle from "./loops/Cycle.ts"
import type { KnownEdit } from "./loops/FileEdit.ts"
import * as FileEdit from "./loops/FileEdit.ts"
import * as Identity from "./loops/Identity.ts"
import type { Input, Ladder, LoopOptions, Mode, ToolOptions } from "./loops/LoopOptions.ts"
import * as Ladders from "./loops/LoopOptions.ts"
import * as LoopState from "./loops/LoopState.ts"
import type { Finding, Pattern, Verdict } from "./loops/LoopVerdict.ts"
import * as LoopVerdict from "./loops/LoopVerdict.ts"
import * as Memory from "./loops/Memory.ts"
import * as TextLoop from "./loops/TextLoop.ts"
import type { ToolNature } from "./loops/ToolNature.ts"
import * as Nature from "./loops/ToolNature.ts"

export type { Input as Options, Ladder, Mode, ToolOptions } from "./loops/LoopOptions.ts"
export type { Finding, Kind, Pattern, Step, Verdict, Wording } from "./loops/LoopVerdict.ts"
export type { State } from "./loops/LoopState.ts"

/** A call that a model asks for. */
export interface Call {
  /** Calls of one turn run at the same time. */
  readonly turn: number
  readonly tool: string
  readonly arguments: unknown
}

/** A call that ran. */
export interface Observation extends Call {
  readonly result: unknown
  /** The tool failed. A result that tells of an error while the tool did not fail is seen as well. */
  readonly failed: boolean
  /** Where the host knows the content of the file that was edited. Default: read from the arguments. */
  readonly edit?: KnownEdit | undefined
}

export interface LoopDetector {
  readonly options: LoopOptions
  /** The same as `options.tools`. */
  readonly tools: ReadonlyMap<string, ToolOptions>
}

export const defaults: LoopOptions = Ladders.defaults

/** What the model is told of a finding, in English. */
export const wording: LoopVerdict.Wording = LoopVerdict.wording

/** Throws an `InvalidOption` for an unknown field and for a value that is not allowed. */
export const make = (input: Input | Mode = {}): LoopDetector => {
  const options = Ladders.make(input)
  return { options, tools: new Map(Object.entries(options.tools)) }
}

export const initial = ({ options: { rows } }: LoopDetector): LoopState.State => LoopState.initial(rows)

/** What to do with a call, on the assumption that it will bring what it brought before. */
export const before = (detector: LoopDetector, state: LoopState.State, call: Call): Verdict => {
  const { options } = detector
  const { mode } = options
  const nature = natureOf(detector, call)
  lastOf = detector
  lastArguments = call.arguments
  lastTool = call.tool
  lastNature = nature
  if (nature === "pause") return LoopVerdict.ok
  const expected = LoopState.expected(state, call.tool, identified(detector, call))
  const { seen, subject, toolId } = expected
  // Its twin of the same turn has been allowed.
  if (LoopState.isTwin(state, call.turn, expected)) return LoopVerdict.ok
  const { tool } = call
  let worst: Found | undefined
  const row = expected.tool?.row
  // A tool with a ladder of its own has its own patience.
  const hasOwn = ownOf(detector, tool)?.same !== undefined
  if (seen !== undefined) {
    if (seen.news === state.news && seen.stirs === state.stirs) {
      const pattern = seen.waiting ? "poll" : "identical"
      const ladder = ladderOf(detector, tool, seen)
      worst = worse(worst, mode, pattern, Math.min(seen.same, seen.exact), ladder)
      worst = worse(worst, mode, pattern, seen.same, ladder, { isStrict: false })
    }
    if (!hasOwn)
      worst = worse(worst, mode, "identical", seen.failures, seen.waiting ? options.waits : options.failures)
    worst = worse(worst, mode, "unchanged_check", seen.unchanged, options.checks)
  }
  if (nature === "thought" && !hasOwn) {
    worst = worse(worst, mode, "stale", state.thoughts, options.stale)
  }
  // What asks for the next thing may bring it.
  if (subject !== "next" && subject !== "other") {
    const recurs = seen !== undefined || (row !== undefined && row.times > 0)
    if (nature !== "thought" && !hasOwn && recurs) {
      worst = worse(worst, mode, "stale", state.stale, options.stale)
    }
    const round = Cycle.goingOn(state.cycle, toolId, expected.id, options.cycle.nudge)
    if (round !== undefined) {
      const { period, rounds, exact, waiting } = round
      const ladder = waiting ? options.waits : options.cycle
      // Two rounds of two are too few to stop at.
      const from = { ...ladder, block: Math.max(ladder.block, minCycle / period + 1) }
      worst = worse(worst, mode, "cycle", exact, from, { period, isStrict: true })
      worst = worse(worst, mode, "cycle", rounds, from, { period })
    }
  }
  if (!hasOwn) {
    if (row !== undefined) {
      worst = worse(worst, mode, "same_finding", row.times, options.findings)
    }
    worst = worse(worst, mode, "same_failure", LoopState.troubled(state, expected), options.failures)
  }
  const mayEdit = nature === "act" && state.fruitless >= options.edits.nudge
  const path = mayEdit ? FileEdit.pathOf(call.arguments) : undefined
  const file = path === undefined ? undefined : Memory.get(state.files, FileEdit.idOf(path))
  if (file !== undefined) worst = worse(worst, mode, "edits", file.fruitless, options.edits, { path })
  if (worst === undefined) return LoopVerdict.ok
  const { finding, isBlocked } = worst
  // Of the refusals of this turn the model has not heard yet.
  const isTold = state.refusals >= options.refusals && state.refusedIn !== call.turn
  const step = !isBlocked ? "Nudge" : isTold ? "Stop" : "Block"
  return LoopVerdict.make(step, { tool, ...finding }, options.wording)
}

interface Found {
  readonly finding: Omit<Finding, "tool">
  readonly isBlocked: boolean
}

interface More extends Pick<Finding, "period" | "path"> {
  /** Default: as the pattern is. */
  readonly isStrict?: boolean
}

/**
 * Returns the finding that was there first, unless the new one blocks and the first does not. Evidence that may not block
 * nudges again at multiples of the count that would block.
 */
const worse = (
  before: Found | undefined,
  mode: Mode,
  pattern: Pattern,
  count: number,
  { nudge, block }: Ladder,
  { isStrict = LoopVerdict.strict.has(pattern), ...place }: More = {}
): Found | undefined => {
  const isBlocked = count >= blockOf(mode, isStrict, block)
  const isTold = count >= nudge && (count < block || count % block < 1)
  const isWorse = before === undefined ? isBlocked || isTold : isBlocked && !before.isBlocked
  return isWorse ? { finding: { pattern, count, ...place }, isBlocked } : before
}

/** The count from which evidence blocks. The only place that gives the modes their meaning. */
const blockOf = (mode: Mode, isStrict: boolean, block: number): number => {
  if (mode === "tell") return Infinity
  return isStrict ? block : mode === "soft" ? 2 * block : Infinity
}

/** Equal outcomes that make a cycle, at least. */
const minCycle = 4

/** What was asked about last: mostly it is observed next, and was not changed meanwhile. Nothing is kept then. */
let lastOf: LoopDetector | undefined
let lastArguments: unknown
let lastTool = ""
let lastNature: ToolNature | undefined

/** What the state is after a call ran. */
export const observe = (
  detector: LoopDetector,
  state: LoopState.State,
  observation: Observation
): LoopState.State => {
  const { tool } = observation
  const isLast = lastOf === detector && lastArguments === observation.arguments && lastTool === tool
  const nature = (isLast ? lastNature : undefined) ?? natureOf(detector, observation)
  lastOf = lastArguments = lastNature = undefined
  if (nature === "pause") return state.paused ? state : { ...state, paused: true }
  const edit =
    observation.edit !== undefined
      ? FileEdit.ofKnown(observation.edit)
      : nature === "act"
        ? FileEdit.of(tool, observation.arguments)
        : undefined
  const identity = identified(detector, observation)
  return AfterCall.after(state, observation, nature, identity, edit)
}

/** What the state is after a call was not run. */
export const refused = (detector: LoopDetector, state: LoopState.State, call: Call): LoopState.State => {
  const { mode, failures, findings } = detector.options
  lastOf = lastArguments = lastNature = undefined
  const expected = LoopState.expectedAgain(state, call.tool, identified(detector, call))
  const soft = (ladder: Ladder): number => blockOf(mode, false, ladder.block)
  return LoopState.refused(state, call.turn, expected, { findings: soft(findings), failures: soft(failures) })
}

/** What to do about an answer, of which this is the text so far. It may be asked as it grows. */
export const text = ({ options }: LoopDetector, answer: string): Verdict => {
  const { nudge, block } = options.text
  const found = TextLoop.at(answer, nudge)
  if (found === undefined) return LoopVerdict.ok
  const finding: Finding = { pattern: "text", tool: undefined, count: found.times }
  const isOver = found.times >= blockOf(options.mode, true, block)
  return LoopVerdict.make(isOver ? "Stop" : "Nudge", finding, options.wording)
}

/** What the host says of a tool: mostly nothing of any. */
const ownOf = ({ tools }: LoopDetector, tool: string): ToolOptions | undefined =>
  tools.size === 0 ? undefined : tools.get(tool)

const natureOf = (detector: LoopDetector, { tool, arguments: args }: Call): ToolNature =>
  ownOf(detector, tool)?.nature ?? Nature.of(tool, args)

/** What makes a call of a tool the one that it is. */
const identified = (detector: LoopDetector, { tool, arguments: args }: Call): unknown => {
  const identity = ownOf(detector, tool)?.identity
  return identity === undefined ? args : Identity.of(tool, identity(args))
}

const ladderOf = (detector: LoopDetector, tool: string, seen: LoopState.Seen): Ladder => {
  const { options } = detector
  const usual =
    (seen.waiting && (seen.paused || !seen.troubled)) ||
    seen.moved ||
    (seen.lively && !seen.troubled) ||
    seen.nature === "advance"
      ? options.waits
      : seen.waiting || seen.nature === "read" || seen.nature === "thought"
        ? options.reads
        : options.acts
  const own = ownOf(detector, tool)?.same
  return own === undefined ? usual : Ladders.ladderOf(tool, usual, own)
}
