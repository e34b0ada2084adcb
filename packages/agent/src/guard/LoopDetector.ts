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
import * as Cycle from "./Cycle.ts"
import type { KnownEdit } from "./FileEdit.ts"
import * as FileEdit from "./FileEdit.ts"
import * as FileHistory from "./FileHistory.ts"
import * as Fingerprint from "./Fingerprint.ts"
import type { Input, Ladder, LoopOptions, ToolOptions } from "./LoopOptions.ts"
import * as Ladders from "./LoopOptions.ts"
import type { Finding, Pattern } from "./LoopVerdict.ts"
import * as LoopVerdict from "./LoopVerdict.ts"
import type { Verdict } from "./LoopVerdict.ts"
import * as Memory from "./Memory.ts"
import * as TextLoop from "./TextLoop.ts"
import type { ToolNature } from "./ToolNature.ts"
import * as Nature from "./ToolNature.ts"

export type { Input as Options, Ladder, ToolOptions } from "./LoopOptions.ts"
export type { Finding, Kind, Pattern, Step, Verdict, Wording } from "./LoopVerdict.ts"

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

/** What was seen of one call. */
interface Seen {
  readonly nature: ToolNature
  readonly waiting: boolean
  readonly failed: boolean
  /** Its last results, newest first, at most {@link maxResults}. */
  readonly results: ReadonlyArray<number>
  /** Its last result without numbers of lines, their sum, and how many they are. */
  readonly placeless: number
  readonly lines: number
  readonly places: number
  /** Times in a row that its outcome was known and nothing new came between, the first included. */
  readonly same: number
  /** Times that it failed as before although something was changed. */
  readonly unchanged: number
  /** Values of the state's counters when it was seen last. */
  readonly news: number
  readonly lessons: number
}

/** Outcomes of one tool that were the same, whatever the arguments. */
interface Row {
  readonly gist: number
  readonly failed: boolean
  readonly times: number
  readonly lessons: number
}

interface Edited extends FileHistory.FileHistory {
  readonly lessons: number
}

export interface State {
  /** Calls observed. Equal ones of a turn are one. */
  readonly calls: number
  readonly turn: number
  /** Calls of this turn, at most {@link maxParallel}. */
  readonly inTurn: ReadonlyArray<number>
  /** New outcomes so far. */
  readonly news: number
  /** New outcomes that told something: an edit that went well tells nothing. */
  readonly lessons: number
  /** Calls in a row without news; those that wait count half. */
  readonly stale: number
  /** Calls not run since the last lesson. */
  readonly refusals: number
  readonly seen: Memory.Memory<Seen>
  /** What was told, by the tool and in which words; and where it found nothing. */
  readonly gists: Memory.Memory<true>
  readonly rows: Memory.Memory<Row>
  readonly files: Memory.Memory<Edited>
  readonly cycle: Cycle.Cycle
  /** Files edited since the last check, at most {@link maxParallel}. */
  readonly unchecked: ReadonlyArray<number>
  /** Something other than an edit was called since the last one. */
  readonly looked: boolean
  /** The last call was a pause: what comes next waits for something. */
  readonly paused: boolean
}

/** Calls of one turn that are told apart, and files edited between two checks. */
export const maxParallel = 32

/** Results of a call that are known again. */
export const maxResults = 8

/** Findings of fewer words are not compared: "ok" is the same everywhere. */
const minFinding = 8

/** An action's result of fewer words tells nothing: "ok", "file saved". */
const minTold = 4

export const initial = ({ options: { rows } }: LoopDetector): State => ({
  calls: 0,
  turn: -1,
  inTurn: [],
  news: 0,
  lessons: 0,
  stale: 0,
  refusals: 0,
  seen: Memory.make(rows),
  gists: Memory.make(rows),
  rows: Memory.make(Math.min(rows, 8)),
  files: Memory.make(rows),
  cycle: Cycle.none,
  unchecked: [],
  looked: true,
  paused: false
})

/** What to do with a call, on the assumption that it will bring what it brought before. */
export const before = (detector: LoopDetector, state: State, call: Call): Verdict => {
  const { options } = detector
  const nature = natureOf(detector, call)
  if (nature === "pause") return LoopVerdict.ok
  const toolId = Fingerprint.ofText(call.tool)
  const id = Fingerprint.pair(toolId, Fingerprint.ofArguments(identified(detector, call)))
  // Its twin of the same turn has been allowed.
  if (call.turn === state.turn && state.inTurn.includes(id)) return LoopVerdict.ok
  let worst: Verdict = LoopVerdict.ok
  const judge = (pattern: Pattern, count: number, ladder: Ladder, period?: number, path?: string): void => {
    if (count < ladder.nudge || worst._tag === "Block" || worst._tag === "Stop") return
    const isBlocked = count >= ladder.block
    if (!isBlocked && worst._tag === "Nudge") return
    const tag = !isBlocked ? "Nudge" : state.refusals >= options.refusals ? "Stop" : "Block"
    const place = { ...(period === undefined ? {} : { period }), ...(path === undefined ? {} : { path }) }
    worst = LoopVerdict.make(tag, { pattern, tool: call.tool, count, ...place }, options.wording)
  }

  const seen = Memory.get(state.seen, id)
  if (seen !== undefined) {
    if (seen.news === state.news) {
      judge(seen.waiting ? "poll" : "identical", seen.same, ladderOf(detector, call.tool, seen))
    }
    judge("unchanged_check", seen.unchanged, options.checks)
    // A tool with a ladder of its own has its own patience.
    const own = detector.tools.get(call.tool)?.same
    if (nature !== "thought" && own === undefined) judge("stale", state.stale, options.stale)
  }
  const round = Cycle.goingOn(state.cycle, id, options.cycle.nudge)
  if (round !== undefined && seen?.news === state.news) {
    const { period, rounds, waiting } = round
    const ladder = waiting ? options.waits : options.cycle
    // Two rounds of two are too few to tell.
    if ((rounds - 1) * period >= minCycle) judge("cycle", rounds, ladder, period)
  }
  const row = Memory.get(state.rows, toolId)
  if (row !== undefined) {
    const failed = row.failed
    judge(failed ? "same_failure" : "same_finding", row.times, failed ? options.failures : options.findings)
  }
  const path = nature === "act" ? FileEdit.pathOf(call.arguments) : undefined
  if (path !== undefined) {
    const file = Memory.get(state.files, Fingerprint.ofText(path))
    if (file !== undefined) judge("edits", file.fruitless, options.edits, undefined, path)
  }
  return worst
}

/** Equal outcomes that make a cycle, at least. */
const minCycle = 4

/** What the state is after a call ran. */
export const observe = (detector: LoopDetector, state: State, observation: Observation): State => {
  const { tool, turn } = observation
  const nature = natureOf(detector, observation)
  if (nature === "pause") return state.paused ? state : { ...state, paused: true }
  const toolId = Fingerprint.ofText(tool)
  const { asked, result } = Fingerprint.ofCall(
    identified(detector, observation),
    observation.result,
    nature === "advance"
  )
  const id = Fingerprint.pair(toolId, asked)
  const inTurn = turn === state.turn ? state.inTurn : []
  if (inTurn.includes(id)) return state
  // Of a tool that looks, a no is what it found.
  const failed = observation.failed || (result.undone && nature !== "read")
  const troubled = failed || result.troubled
  const said = nature === "advance" ? result.gist : result.hash

  // What others of this tool have brought, told apart by what it says for itself.
  const tells =
    failed || result.emptyList || (nature === "read" && (result.words >= minFinding || result.negative))
  const gist = Fingerprint.pair(toolId, result.gist)
  const toldBefore = Memory.has(state.gists, gist)
  const earlier = Memory.get(state.seen, id)
  const repeated = earlier !== undefined && earlier.results.includes(said)
  // What is edited moves what stands below: the same failure a line further down is the same failure.
  const moved = troubled && !repeated && earlier !== undefined && hasMoved(earlier, result)
  const known = moved || (tells ? toldBefore : repeated)
  const edit =
    observation.edit !== undefined
      ? FileEdit.ofKnown(observation.edit)
      : nature === "act"
        ? FileEdit.of(tool, observation.arguments)
        : undefined
  const hasWords = tells || (result.words >= minTold && !toldBefore)
  const isNew = !known && nature !== "thought" && (nature !== "poke" || hasWords)
  const teaches = isNew && hasWords && (edit === undefined || failed)
  const news = isNew ? state.news + 1 : state.news
  const lessons = teaches ? state.lessons + 1 : state.lessons
  const weight = (since: number): number => (state.lessons === since ? 1 : 0.5)
  const quiet = earlier?.news === state.news
  const waiting = result.waiting || state.paused
  const seen: Seen = {
    nature,
    waiting,
    failed: troubled,
    results: resultsAfter(earlier, said),
    placeless: result.placeless,
    lines: result.lines,
    places: result.places,
    same: repeated && quiet ? (earlier?.same ?? 0) + 1 : 1,
    unchanged:
      earlier === undefined || !(repeated || moved) || !troubled
        ? 0
        : quiet
          ? earlier.unchanged
          : earlier.unchanged + weight(earlier.lessons),
    news,
    lessons
  }
  const isThought = nature === "thought"
  // A file in which nothing was found is off the list: whoever goes through all of them gets somewhere.
  const path = tells && !failed && result.negative ? FileEdit.pathOf(observation.arguments) : undefined
  const place = path === undefined ? undefined : Fingerprint.pair(toolId, Fingerprint.ofText(path))
  const isNewPlace = place !== undefined && !Memory.has(state.gists, place)
  const gists = toldBefore ? state.gists : Memory.set(state.gists, gist, true)
  const item: Cycle.Item = { call: id, outcome: Fingerprint.pair(id, said), waiting }
  const files = isThought
    ? state
    : edit !== undefined && !failed
      ? filesAfterEdit(state, edit)
      : filesAfterLook(state, nature, earlier, repeated || moved, troubled)
  return {
    calls: state.calls + 1,
    turn,
    inTurn: inTurn.length < maxParallel ? [...inTurn, id] : inTurn,
    news,
    lessons,
    stale: isThought ? state.stale : isNew ? 0 : state.stale + (waiting ? 0.5 : 1),
    refusals: teaches ? 0 : state.refusals,
    seen: Memory.set(state.seen, id, seen),
    gists: isNewPlace ? Memory.set(gists, place, true) : gists,
    rows: isThought ? state.rows : rowsAfter(state, toolId, { gist, failed, tells, isNew, isNewPlace }),
    files: files.files,
    cycle: isThought ? state.cycle : Cycle.add(state.cycle, item),
    unchecked: files.unchecked,
    looked: files.looked,
    paused: false
  }
}

/** What the state is after a call was not run. */
export const refused = (detector: LoopDetector, state: State, call: Call): State => {
  const toolId = Fingerprint.ofText(call.tool)
  const row = Memory.get(state.rows, toolId)
  const { failures, findings } = detector.options
  const refusedFor = row !== undefined && row.times >= (row.failed ? failures : findings).block
  return {
    ...state,
    refusals: state.refusals + 1,
    // Whatever the tool is asked next may go better: it has one more chance.
    rows: refusedFor ? Memory.set(state.rows, toolId, { ...row, times: row.times - 1 }) : state.rows
  }
}

/** What to do about an answer, of which this is the text so far. It may be asked as it grows. */
export const text = ({ options }: LoopDetector, answer: string): Verdict => {
  const { nudge, block } = options.text
  const found = TextLoop.at(answer, nudge)
  if (found === undefined) return LoopVerdict.ok
  const finding: Finding = { pattern: "text", tool: undefined, count: found.times }
  return LoopVerdict.make(found.times >= block ? "Stop" : "Nudge", finding, options.wording)
}

/** Lines that a place may move between two equal failures; further away is another one. */
const near = 3

const hasMoved = (
  { failed, placeless, lines, places }: Seen,
  result: Pick<Fingerprint.OfResult, "placeless" | "lines" | "places">
): boolean =>
  failed &&
  places > 0 &&
  places === result.places &&
  placeless === result.placeless &&
  Math.abs(result.lines - lines) <= near * places

const resultsAfter = (seen: Seen | undefined, said: number): ReadonlyArray<number> => {
  if (seen === undefined) return [said]
  const { results } = seen
  return results[0] === said
    ? results
    : [said, ...results.filter((result) => result !== said)].slice(0, maxResults)
}

interface Outcome {
  readonly gist: number
  readonly failed: boolean
  readonly tells: boolean
  readonly isNew: boolean
  /** Nothing was found in a file that this tool was not asked about before. */
  readonly isNewPlace: boolean
}

/** What it adds to a row of findings that nothing was found in one more file. */
const newPlace = 0.25

/** A row of equal failures goes on while things are learned elsewhere, at half the pace; one of findings begins anew. */
const rowsAfter = (state: State, toolId: number, outcome: Outcome): Memory.Memory<Row> => {
  const { gist, failed, tells, isNew, isNewPlace } = outcome
  const row = Memory.get(state.rows, toolId)
  const learned = row !== undefined && row.lessons !== state.lessons
  if (!tells) {
    return isNew && row !== undefined
      ? Memory.set(state.rows, toolId, { gist, failed, times: 0, lessons: state.lessons })
      : state.rows
  }
  const lessons = isNew ? state.lessons + 1 : state.lessons
  const times =
    row?.gist !== gist || (learned && !failed) ? 1 : row.times + (isNewPlace ? newPlace : learned ? 0.5 : 1)
  return Memory.set(state.rows, toolId, { gist, failed, times, lessons })
}

type Files = Pick<State, "files" | "unchecked" | "looked">

const filesAfterEdit = (state: State, edit: FileEdit.FileEdit): Files => {
  const path = Fingerprint.ofText(edit.path)
  const earlier = Memory.get(state.files, path)
  const learned = earlier !== undefined && earlier.lessons !== state.lessons
  const history = FileHistory.edited(earlier ?? FileHistory.none, edit, state.looked, learned)
  return {
    files: Memory.set(state.files, path, { ...history, lessons: state.lessons }),
    unchecked:
      state.unchecked.includes(path) || state.unchecked.length >= maxParallel
        ? state.unchecked
        : [...state.unchecked, path],
    looked: false
  }
}

/** A check is what was called before and acts: a build, a test. It tells whether the edits since changed anything. */
const filesAfterLook = (
  state: State,
  nature: ToolNature,
  earlier: Seen | undefined,
  repeated: boolean,
  troubled: boolean
): Files => {
  const { files, unchecked } = state
  const isCheck = earlier !== undefined && nature !== "read" && unchecked.length > 0
  if (!isCheck || (repeated && !troubled)) return { files, unchecked, looked: true }
  let after = files
  for (const path of unchecked) {
    const file = Memory.get(files, path)
    if (file === undefined) continue
    const weight = earlier.lessons === state.lessons ? 1 : 0.5
    const history = repeated ? FileHistory.unchanged(file, weight) : FileHistory.progressed(file)
    after = Memory.set(after, path, { ...history, lessons: state.lessons })
  }
  return { files: after, unchecked: [], looked: true }
}

const natureOf = ({ tools }: LoopDetector, { tool, arguments: args }: Call): ToolNature =>
  tools.get(tool)?.nature ?? Nature.of(tool, args)

/** What makes a call of a tool the one that it is. */
const identified = ({ tools }: LoopDetector, { tool, arguments: args }: Call): unknown => {
  const identity = tools.get(tool)?.identity
  return identity === undefined ? args : identity(args)
}

const ladderOf = ({ options, tools }: LoopDetector, tool: string, seen: Seen): Ladder => {
  const usual =
    (seen.waiting && !seen.failed) || seen.nature === "advance"
      ? options.waits
      : seen.waiting || seen.nature === "read" || seen.nature === "thought"
        ? options.reads
        : options.acts
  const own = tools.get(tool)?.same
  return own === undefined ? usual : Ladders.ladderOf(tool, usual, own)
}
