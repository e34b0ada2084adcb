/**
 * Whether an agent goes round in circles: by what its calls bring, not by how many they are.
 *
 * **What it counts.** An outcome is _known_ when the same call brought it before, volatile parts aside, and _new_
 * otherwise. A run that brings something new is left alone, however often it calls the same tool. What it counts is
 *
 * - the same call with a known outcome, nothing new in between (`identical`; `poll` where it waits for something);
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
import * as Cycle from "./loops/Cycle.ts"
import type { KnownEdit } from "./loops/FileEdit.ts"
import * as FileEdit from "./loops/FileEdit.ts"
import * as Fingerprint from "./loops/Fingerprint.ts"
import type { Input, Ladder, LoopOptions, ToolOptions } from "./loops/LoopOptions.ts"
import * as Ladders from "./loops/LoopOptions.ts"
import * as LoopState from "./loops/LoopState.ts"
import type { Finding, Pattern, Verdict } from "./loops/LoopVerdict.ts"
import * as LoopVerdict from "./loops/LoopVerdict.ts"
import * as Memory from "./loops/Memory.ts"
import * as TextLoop from "./loops/TextLoop.ts"
import type { ToolNature } from "./loops/ToolNature.ts"
import * as Nature from "./loops/ToolNature.ts"

export type { Input as Options, Ladder, ToolOptions } from "./loops/LoopOptions.ts"
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

/** Throws an `InvalidOption` for a number that nobody could have meant. */
export const make = (input: Input = {}): LoopDetector => {
  const options = Ladders.make(input)
  return { options, tools: new Map(Object.entries(options.tools)) }
}

export const initial = ({ options: { rows } }: LoopDetector): LoopState.State => LoopState.initial(rows)

/** What to do with a call, on the assumption that it will bring what it brought before. */
export const before = (detector: LoopDetector, state: LoopState.State, call: Call): Verdict => {
  const { options } = detector
  const nature = natureOf(detector, call)
  if (nature === "pause") return LoopVerdict.ok
  const asked = LoopState.askedOf(call.tool, identified(detector, call))
  // Its twin of the same turn has been allowed.
  if (LoopState.isTwin(state, call.turn, asked)) return LoopVerdict.ok
  let worst: Verdict = LoopVerdict.ok
  const judge = (pattern: Pattern, count: number, ladder: Ladder, period?: number, path?: string): void => {
    if (count < ladder.nudge || worst._tag === "Block" || worst._tag === "Stop") return
    const isBlocked = count >= ladder.block
    if (!isBlocked && worst._tag === "Nudge") return
    const tag = !isBlocked ? "Nudge" : state.refusals >= options.refusals ? "Stop" : "Block"
    const place = { ...(period === undefined ? {} : { period }), ...(path === undefined ? {} : { path }) }
    worst = LoopVerdict.make(tag, { pattern, tool: call.tool, count, ...place }, options.wording)
  }

  const { seen, subject, troubled } = LoopState.expected(state, asked)
  const row = Memory.get(state.rows, asked.tool)
  // A tool with a ladder of its own has its own patience.
  const hasOwn = detector.tools.get(call.tool)?.same !== undefined
  if (seen !== undefined) {
    if (seen.news === state.news) {
      judge(seen.waiting ? "poll" : "identical", seen.same, ladderOf(detector, call.tool, seen))
    }
    judge("unchanged_check", seen.unchanged, options.checks)
  }
  if (nature === "thought" && !hasOwn) judge("stale", state.thoughts, options.stale)
  // What asks for the next thing may bring it.
  if (subject === "known") {
    const recurs = seen !== undefined || (row !== undefined && row.times > 0)
    if (nature !== "thought" && !hasOwn && recurs) judge("stale", state.stale, options.stale)
    const round = Cycle.goingOn(state.cycle, asked.tool, options.cycle.nudge)
    // Two rounds of two are too few to tell.
    if (round !== undefined && (round.rounds - 1) * round.period >= minCycle) {
      judge("cycle", round.rounds, round.waiting ? options.waits : options.cycle, round.period)
    }
  }
  if (!hasOwn) {
    if (row !== undefined) judge("same_finding", row.times, options.findings)
    judge("same_failure", troubled, options.failures)
  }
  const path = nature === "act" ? FileEdit.pathOf(call.arguments) : undefined
  const file = path === undefined ? undefined : Memory.get(state.files, Fingerprint.ofText(path))
  if (file !== undefined) judge("edits", file.fruitless, options.edits, undefined, path)
  return worst
}

/** Equal outcomes that make a cycle, at least. */
const minCycle = 4

/** What the state is after a call ran. */
export const observe = (
  detector: LoopDetector,
  state: LoopState.State,
  observation: Observation
): LoopState.State => {
  const { tool, turn, result, failed } = observation
  const nature = natureOf(detector, observation)
  if (nature === "pause") return state.paused ? state : { ...state, paused: true }
  const edit =
    observation.edit !== undefined
      ? FileEdit.ofKnown(observation.edit)
      : nature === "act"
        ? FileEdit.of(tool, observation.arguments)
        : undefined
  const identity = identified(detector, observation)
  return LoopState.after(state, { turn, tool, nature, failed, edit, identity, result })
}

/** What the state is after a call was not run. */
export const refused = (detector: LoopDetector, state: LoopState.State, call: Call): LoopState.State => {
  const { failures, findings } = detector.options
  const asked = LoopState.askedOf(call.tool, identified(detector, call))
  return LoopState.refused(state, asked, { findings: findings.block, failures: failures.block })
}

/** What to do about an answer, of which this is the text so far. It may be asked as it grows. */
export const text = ({ options }: LoopDetector, answer: string): Verdict => {
  const { nudge, block } = options.text
  const found = TextLoop.at(answer, nudge)
  if (found === undefined) return LoopVerdict.ok
  const finding: Finding = { pattern: "text", tool: undefined, count: found.times }
  return LoopVerdict.make(found.times >= block ? "Stop" : "Nudge", finding, options.wording)
}

const natureOf = ({ tools }: LoopDetector, { tool, arguments: args }: Call): ToolNature =>
  tools.get(tool)?.nature ?? Nature.of(tool, args)

/** What makes a call of a tool the one that it is. */
const identified = ({ tools }: LoopDetector, { tool, arguments: args }: Call): unknown => {
  const identity = tools.get(tool)?.identity
  return identity === undefined ? args : identity(args)
}

const ladderOf = ({ options, tools }: LoopDetector, tool: string, seen: LoopState.Seen): Ladder => {
  const usual =
    (seen.waiting && (seen.paused || !seen.troubled)) ||
    seen.moved ||
    (seen.lively && !seen.troubled) ||
    seen.nature === "advance"
      ? options.waits
      : seen.waiting || seen.nature === "read" || seen.nature === "thought"
        ? options.reads
        : options.acts
  const own = tools.get(tool)?.same
  return own === undefined ? usual : Ladders.ladderOf(tool, usual, own)
}
