/**
 * Detects an agent that repeats itself: the same call with the same outcome, a cycle of such calls, the same failure.
 *
 * **Evidence.** Strict evidence blocks and stops: the same call with the same outcome (`identical`, `poll`), the same
 * failure of the same call (`identical`), whole laps of identical calls (`cycle`). Soft evidence only nudges the
 * model: the same failure (`same_failure`) or the same outcome (`same_finding`) of different calls, and laps whose
 * outcomes differ in numbers. The same failure also blocks when nudges were ignored and nothing new came. The option
 * `mode` changes this, and `repetition` says whether an answer that repeats itself (`text`) is cut. Times, durations
 * and generated ids in results do not count as differences.
 *
 * **Ladder.** `before` decides about a call: `Ok`, `Nudge` (run it and tell the model), `Block` (do not run it and
 * tell the model why) or `Stop` (it was blocked too often). `observe` records the result of a call, `refused` a call
 * that did not run. Equal calls of one turn count once. The order in which calls of a turn end does not matter.
 *
 * **Composition.** Pure: a state goes in, a state comes out. A state is JSON of at most 8 KB; {@link State} is its
 * schema. `SafetyGuard` asks the detector before a tool runs; `outlast guard` replays traces with it.
 *
 * **What it does not do.** It does not know what a text means. An agent that reads new pages about the wrong topic makes
 * progress here, and so do agents that talk to each other in new words; only limits end such a run.
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

/** Schema of what a state keeps of one result: hashes, or the milliseconds of a pause. */
export const Evidence = Schema.Union([LoopState.Done, Schema.Number])
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
  /** Time of the result in milliseconds, from any start. Default: the last point in time in the result. */
  readonly at?: number | undefined
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
  const named = new Map<string, Named>()
  const toolOf = (name: string): Named => {
    const known = named.get(name)
    if (known !== undefined) return known
    // A name comes from the model: it may be that of a method of objects, and their number is unlimited.
    const own = Object.hasOwn(options.tools, name) ? options.tools[name] : undefined
    const tool = { id: Hash.ofText(name), nature: Nature.ofName(name), own }
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

/** Number of names that are cached. */
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
  const found: Array<Found> = []
  if (seen !== undefined) {
    const isRisky = nature === "act" && call.hints?.idempotentHint !== true && seen.failures === 0
    const isPoll = !isRisky && (seen.waits || seen.changes >= minChanges)
    const usual = isPoll ? options.waits : isRisky ? options.acts : options.reads
    const counts = ladder === undefined ? usual : Ladders.ladderOf(tool, usual, ladder)
    const weight = isPoll && !isOverdue(seen) ? "soft" : "strict"
    found.push({ pattern: isPoll ? "poll" : "identical", count: seen.same, counts, weight })
    if (ladder === undefined && !seen.waits) {
      found.push({ pattern: "identical", count: seen.failures, counts: options.failures, weight: "strict" })
    }
    if (ladder === undefined) found.push(...cycles(options.cycle, state, id))
  }
  // A tool with its own ladder follows only that ladder.
  const known = ladder === undefined ? LoopState.finding(state, named.id) : undefined
  if (known !== undefined) {
    const pattern = known.failed ? "same_failure" : "same_finding"
    const weight = isIgnored(state, known, options.findings) ? "ignored" : "soft"
    found.push({ pattern, count: known.times, counts: options.findings, weight })
  }
  const blocks = found.find(
    ({ count, counts, weight }) => count >= counts.block * factors[options.mode][weight]
  )
  const worst = blocks ?? found.find(nudges)
  if (worst === undefined) return LoopVerdict.ok
  const { pattern, count, period } = worst
  // The model has not yet read the refusals of this turn.
  const isTold = state.refusals >= options.refusals && state.refusedIn !== call.turn
  const step = blocks === undefined ? "Nudge" : isTold ? "Stop" : "Block"
  const finding = { pattern, tool, count, ...(period === undefined ? {} : { period }) }
  return LoopVerdict.make(step, finding, options.wording)
}

/** A finding before it is judged. `ignored`: the model was told of it, and went on. */
interface Found extends Omit<Finding, "tool"> {
  readonly counts: Ladder
  readonly weight: "strict" | "ignored" | "soft"
}

/** Factors of the count from which evidence blocks. The modes are defined only here. */
const factors: Readonly<Record<Mode, Readonly<Record<Found["weight"], number>>>> = {
  strict: { strict: 1, ignored: 1.5, soft: Infinity },
  soft: { strict: 1, ignored: 1.5, soft: 2 },
  tell: { strict: Infinity, ignored: Infinity, soft: Infinity }
}

/** Evidence that does not block nudges again at multiples of `block`. */
const nudges = ({ count, counts: { nudge, block } }: Found): boolean =>
  count >= nudge && (count < block || count % block < 1)

/** True for a failure that many turns without any news have met. A short text is no evidence. */
const isIgnored = ({ stale }: LoopState.State, row: LoopState.Known, { block }: Ladder): boolean =>
  row.failed && stale >= block * factors.strict.ignored && row.words.length >= minWords

const minWords = 3

/** True when a wait has taken too long, its polls follow each other too fast, or their time is not known. */
const isOverdue = ({ same, waited, usual }: LoopState.Seen): boolean =>
  waited < Math.max(1, same - 1) * cadence || waited >= Math.max(patience, 2 * usual)

/** Milliseconds: of a wait in which nothing changes (a run of CI takes minutes), and between two of its polls. */
const patience = 600_000
const cadence = 15_000

const cycles = (counts: Ladder, state: LoopState.State, id: number): ReadonlyArray<Found> => {
  const exact = LoopState.cycle(state, id, counts.nudge)
  const cycle = exact ?? LoopState.cycle(state, id, counts.block, true)
  if (cycle === undefined) return []
  const { period, laps, waits } = cycle
  const block = Math.max(counts.block, Math.min(shortLaps, shortCalls / period))
  const weight = exact === undefined || waits ? "soft" : "strict"
  return [{ pattern: "cycle", count: laps, period, counts: { ...counts, block }, weight }]
}

/** Number of outcome changes from which a call is a poll. A single change may be an accident. */
const minChanges = 2

/** A short cycle blocks at this number of laps or of calls, whichever comes first. */
const shortLaps = 3
const shortCalls = 9

/** Records the result of a call. */
export const observe = (
  detector: LoopDetector,
  state: LoopState.State,
  observation: Observation
): LoopState.State => record(detector, state, observation.turn, evidence(detector, observation))

/** Returns what {@link record} needs of a result, as JSON: a few hashes, or the milliseconds of a tool that lets time pass. */
export const evidence = (detector: LoopDetector, observation: Observation): Evidence => {
  const { tool, result, failed } = observation
  const named = detector.toolOf(tool)
  const nature = natureOf(named, observation)
  const asked = Fingerprint.ofArguments(observation.arguments, nature === "pause")
  if (nature === "pause") return asked.pause
  const reads = nature === "read"
  const outcome = Fingerprint.ofResult(result, asked.words, reads)
  const isFailed = failed || Failure.is(result)
  return {
    id: idOf(named, observation, asked.hash),
    tool: named.id,
    ...outcome,
    at: observation.at ?? outcome.at,
    failed: isFailed,
    reads,
    pause: asked.pause,
    mayPass: isFailed && Failure.isPassing(result)
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
  return typeof evidence === "number"
    ? LoopState.pause(current, turn, evidence)
    : LoopState.add(current, turn, evidence)
}

/** Records a call that did not run. */
export const refused = (detector: LoopDetector, given: LoopState.State, call: Call): LoopState.State => {
  const { mode, findings } = detector.options
  const state = call.turn === given.turn ? given : detector.settled(given)
  return LoopState.refused(
    state,
    call.turn,
    detector.toolOf(call.tool).id,
    (row) => findings.block * factors[mode][isIgnored(state, row, findings) ? "ignored" : "soft"]
  )
}

/** State of an answer, before its first character. {@link read} adds to it. */
export const noText: TextLoop.TextLoop = TextLoop.initial

/** Reads the next characters of an answer or of its thinking, as they stream. */
export const read: (answer: TextLoop.TextLoop, delta: string) => TextLoop.TextLoop = TextLoop.read

/** Checks an answer so far. */
export const text = ({ options }: LoopDetector, { repeated: count }: TextLoop.TextLoop): Verdict => {
  const { nudge, block } = options.text
  if (count < nudge) return LoopVerdict.ok
  const finding: Finding = { pattern: "text", tool: undefined, count: Math.floor(count) }
  const isOver = options.repetition === "cut" && count >= block * factors[options.mode].strict
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
