/**
 * Detects an agent that repeats itself: the same call with the same outcome, a cycle of such calls, the same failure.
 *
 * **Evidence.** Strict evidence blocks and stops: the same call with the same outcome (`identical`, `poll`), the same
 * failure of the same call (`identical`), whole laps of identical calls (`cycle`), an answer that repeats itself
 * (`text`). Soft evidence only nudges the model: the same failure (`same_failure`) or the same outcome
 * (`same_finding`) of different calls, and laps whose outcomes differ in numbers. The option `mode` changes this.
 * Times, durations and generated ids in results do not count as differences.
 *
 * **Ladder.** `before` decides about a call: `Ok`, `Nudge` (run it and tell the model), `Block` (do not run it and
 * tell the model why) or `Stop` (it was blocked too often). `observe` records the result of a call, `refused` a call
 * that did not run. Equal calls of one turn count once. The order in which calls of a turn end does not matter.
 *
 * **Composition.** Pure: a state goes in, a state comes out. A state is JSON of at most 8 KB; {@link State} is its
 * schema. `SafetyGuard` asks the detector before a tool runs; `outlast guard` replays traces with it.
 *
 * **What it does not do.** It knows neither time nor meaning. An agent that reads new pages about the wrong topic
 * makes progress here; only limits end such a run.
 *
 * **Example**
 *
 * ```ts
 * const detector = LoopDetector.make({ tools: { fetch_price: { nature: "read" } } })
 * let state = LoopDetector.initial
 * const verdict = LoopDetector.before(detector, state, { turn: 0, tool: "grep", arguments: { pattern: "a" } })
 * ```
 */
import { Schema } from "effect"
import * as Failure from "./loops/Failure.ts"
import * as Fingerprint from "./loops/Fingerprint.ts"
import * as Hash from "./loops/Hash.ts"
import * as Identity from "./loops/Identity.ts"
import type { Input, Ladder, LoopOptions, Mode, ToolOptions } from "./loops/LoopOptions.ts"
import * as Ladders from "./loops/LoopOptions.ts"
import * as LoopState from "./loops/LoopState.ts"
import type { Finding, Verdict } from "./loops/LoopVerdict.ts"
import * as LoopVerdict from "./loops/LoopVerdict.ts"
import * as TextLoop from "./loops/TextLoop.ts"
import type { Hints, ToolNature } from "./loops/ToolNature.ts"
import * as Nature from "./loops/ToolNature.ts"

export type { Input as Options, Ladder, Mode, ToolOptions } from "./loops/LoopOptions.ts"
export type { Finding, Kind, Pattern, Step, Verdict, Wording } from "./loops/LoopVerdict.ts"
export type { Hints, ToolNature } from "./loops/ToolNature.ts"
export { State } from "./loops/LoopState.ts"

/** Schema of what a state keeps of one result. */
export const Evidence = Schema.Union([LoopState.Done, Schema.Literal("pause")])
export type Evidence = typeof Evidence.Type

/** A call that a model asks for. */
export interface Call {
  /** Number of the turn. Calls of one turn run concurrently. */
  readonly turn: number
  readonly tool: string
  readonly arguments: unknown
  /** The annotations of the tool. */
  readonly hints?: Hints | undefined
}

/** A call that ran. */
export interface Observation extends Call {
  readonly result: unknown
  /** True when the tool failed. A result that begins with an error, or has an error field, counts as a failure, too. */
  readonly failed: boolean
}

export interface LoopDetector {
  readonly options: LoopOptions
  /** Looks a tool up by its name. */
  readonly toolOf: (name: string) => Named
  /** Cached `LoopState.settled`. `before` and `observe` of one call need the same state, so the last result is kept. */
  readonly settled: (state: LoopState.State) => LoopState.State
}

/** A tool by its name: the hash of the name, its nature, and the host's options. */
interface Named {
  readonly id: number
  readonly nature: ToolNature | undefined
  readonly own: ToolOptions | undefined
}

/** Default options. */
export const defaults: LoopOptions = Ladders.defaults

/** English texts for the model. */
export const wording: LoopVerdict.Wording = LoopVerdict.wording

/** Creates a detector. Throws an `InvalidOption` for an unknown or invalid option. */
export const make = (input: Input | Mode = {}): LoopDetector => {
  const options = Ladders.make(input)
  const own = new Map(Object.entries(options.tools))
  const named = new Map<string, Named>()
  const toolOf = (name: string): Named => {
    const known = named.get(name)
    if (known !== undefined) return known
    const tool = {
      id: Hash.ofText(name),
      nature: Nature.ofName(name),
      own: own.get(name)
    }
    // Names come from the model, so their number is unlimited.
    if (named.size < maxNamed) named.set(name, tool)
    return tool
  }
  let last = [LoopState.initial, LoopState.initial] as const
  const settled = (state: LoopState.State): LoopState.State => {
    if (last[0] !== state) last = [state, LoopState.settled(state)]
    return last[1]
  }
  return { options, toolOf, settled }
}

/** Number of names whose nature is cached. */
const maxNamed = 256

/** Initial state of a run. */
export const initial: LoopState.State = LoopState.initial

/** Decides about a call, on the assumption that its outcome will be the same as before. */
export const before = (detector: LoopDetector, given: LoopState.State, call: Call): Verdict => {
  const { options } = detector
  const { tool } = call
  const named = detector.toolOf(tool)
  const nature = natureOf(named, call)
  if (nature === "pause") return LoopVerdict.ok
  // Other calls of the same turn are not counted yet.
  const state = call.turn === given.turn ? given : detector.settled(given)
  const id = idOf(named, call)
  const ladder = named.own?.same
  const seen = LoopState.expected(state, id)
  const worst = new Worst(options.mode)
  if (seen !== undefined) {
    const isRisky = nature === "act" && call.hints?.idempotentHint !== true
    const isPoll = !isRisky && (seen.waits || seen.changes >= minChanges)
    const usual = isPoll ? options.waits : isRisky ? options.acts : options.reads
    const own = ladder === undefined ? usual : Ladders.ladderOf(tool, usual, ladder)
    worst.add({ pattern: isPoll ? "poll" : "identical", count: seen.same }, own)
    if (ladder === undefined) worst.add({ pattern: "identical", count: seen.failures }, options.failures)
  }
  // A tool with its own ladder follows only that ladder.
  if (ladder === undefined) {
    if (seen !== undefined) addCycles(worst, options.cycle, state, id)
    const known = LoopState.finding(state, named.id)
    if (known?.failed === true) worst.add({ pattern: "same_failure", count: known.times }, options.failures)
    else if (known !== undefined) worst.add({ pattern: "same_finding", count: known.times }, options.findings)
  }
  if (worst.finding === undefined) return LoopVerdict.ok
  // The model has not yet read the refusals of this turn.
  const isTold = state.refusals >= options.refusals && state.refusedIn !== call.turn
  const step = !worst.isBlocked ? "Nudge" : isTold ? "Stop" : "Block"
  return LoopVerdict.make(step, { tool, ...worst.finding }, options.wording)
}

const addCycles = (worst: Worst, ladder: Ladder, state: LoopState.State, id: number): void => {
  const exact = LoopState.cycle(state, id, ladder.nudge)
  if (exact !== undefined) {
    const { period, laps } = exact
    const block = Math.max(ladder.block, Math.min(shortLaps, shortCalls / period))
    worst.add({ pattern: "cycle", count: laps, period }, { ...ladder, block })
  }
  const inShape = LoopState.cycle(state, id, ladder.block, true)
  if (inShape !== undefined) {
    worst.add({ pattern: "cycle", count: inShape.laps, period: inShape.period }, ladder, false)
  }
}

/** Number of outcome changes from which a call is a poll. A single change may be an accident. */
const minChanges = 2

/** A short cycle blocks at this number of laps or of calls, whichever comes first. */
const shortLaps = 3
const shortCalls = 9

/** Keeps the first finding, unless a later one blocks and the first does not. */
class Worst {
  readonly #mode: Mode
  finding: Omit<Finding, "tool"> | undefined
  isBlocked = false

  constructor(mode: Mode) {
    this.#mode = mode
  }

  /** Adds a finding. Evidence that must not block nudges again at multiples of `block`. */
  add(
    finding: Omit<Finding, "tool">,
    { nudge, block }: Ladder,
    isStrict = LoopVerdict.strict.has(finding.pattern)
  ): void {
    const { count } = finding
    const isBlocked = count >= blockOf(this.#mode, isStrict, block)
    const isTold = count >= nudge && (count < block || count % block < 1)
    if (this.finding === undefined ? !isBlocked && !isTold : this.isBlocked || !isBlocked) return
    this.finding = finding
    this.isBlocked = isBlocked
  }
}

/** The count from which evidence blocks. The modes are defined only here. */
const blockOf = (mode: Mode, isStrict: boolean, block: number): number => {
  if (mode === "tell") return Infinity
  return isStrict ? block : mode === "soft" ? 2 * block : Infinity
}

/** Records the result of a call. */
export const observe = (
  detector: LoopDetector,
  state: LoopState.State,
  observation: Observation
): LoopState.State => record(detector, state, observation.turn, evidence(detector, observation))

/** Returns what {@link record} needs of a result: a few hashes, as JSON. `"pause"` for a tool that lets time pass. */
export const evidence = (detector: LoopDetector, observation: Observation): Evidence => {
  const { tool, result, failed } = observation
  const named = detector.toolOf(tool)
  const nature = natureOf(named, observation)
  if (nature === "pause") return "pause"
  const asked = Fingerprint.ofArguments(observation.arguments)
  const { hash, noise, shape, words } = Fingerprint.ofResult(result, asked.words)
  return {
    id: idOf(named, observation, asked.hash),
    tool: named.id,
    frame: asked.frame,
    outcome: hash,
    noise,
    shape,
    words,
    failed: failed || Failure.is(result),
    reads: nature === "read",
    waits: Nature.isPausing(asked.words)
  }
}

/** Records the evidence of a call, as {@link observe} does. */
export const record = (
  detector: LoopDetector,
  state: LoopState.State,
  turn: number,
  evidence: Evidence
): LoopState.State => {
  const current = turn === state.turn ? state : detector.settled(state)
  return evidence === "pause" ? LoopState.pause(current, turn) : LoopState.add(current, turn, evidence)
}

/** Records a call that did not run. */
export const refused = (detector: LoopDetector, state: LoopState.State, call: Call): LoopState.State => {
  const { mode, failures, findings } = detector.options
  return LoopState.refused(state, call.turn, detector.toolOf(call.tool).id, (row) =>
    blockOf(mode, false, (row.failed ? failures : findings).block)
  )
}

/** Checks the text of an answer so far. */
export const text = ({ options }: LoopDetector, answer: string): Verdict => {
  const { nudge, block } = options.text
  const found = TextLoop.at(answer, nudge)
  if (found === undefined) return LoopVerdict.ok
  const finding: Finding = { pattern: "text", tool: undefined, count: found.times }
  const isOver = found.times >= blockOf(options.mode, true, block)
  return LoopVerdict.make(isOver ? "Stop" : "Nudge", finding, options.wording)
}

const natureOf = ({ own, nature }: Named, { hints }: Call): ToolNature | undefined =>
  (hints && Nature.ofHints(hints)) ?? own?.nature ?? nature

/** Identifies a call by the tool and its arguments, or by the result of the host's `identity`. */
const idOf = ({ id, own }: Named, { tool, arguments: args }: Call, hash?: number): number => {
  const identity = own?.identity
  const asked =
    identity === undefined ? (hash ?? Fingerprint.hashOf(args)) : Identity.of(tool, identity(args))
  return Hash.both(id, asked)
}
