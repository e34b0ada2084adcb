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
import * as Asking from "./Asking.ts"
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
import * as Progress from "./Progress.ts"
import * as TextLoop from "./TextLoop.ts"
import type { ToolNature } from "./ToolNature.ts"
import * as Nature from "./ToolNature.ts"
import * as WordSet from "./WordSet.ts"

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
  /** Time was let pass before it. */
  readonly paused: boolean
  readonly failed: boolean
  /** What went wrong, as a key of {@link State.troubles}; 0 if nothing did. */
  readonly trouble: number
  /** The words of its last result, and whether its numbers had moved. */
  readonly letters: number
  readonly moved: boolean
  /** Asked again, it has brought something else before. */
  readonly lively: boolean
  /** Where its numbers go. */
  readonly progress: Progress.Progress
  /** Times in a row that it brought nothing new, and nothing new came between, the first included. */
  readonly same: number
  /** Times that it failed as before although something was changed. */
  readonly unchanged: number
  /** Values of the state's counters when it was seen last. */
  readonly calls: number
  readonly news: number
  readonly tries: number
  readonly lessons: number
}

/** Calls of one tool in a row that brought nothing new, whatever they asked. */
interface Row {
  readonly times: number
  readonly news: number
  readonly lessons: number
}

/** One error of a tool, whatever it was asked, and whatever went well meanwhile. */
interface Trouble {
  readonly times: number
  readonly lessons: number
}

interface Edited extends FileHistory.FileHistory {
  readonly lessons: number
}

/** Something done. */
interface Act {
  readonly calls: number
  readonly family: string
  readonly words: ReadonlyArray<number>
}

export interface State {
  /** Calls observed. Equal ones of a turn are one. */
  readonly calls: number
  readonly turn: number
  /** Calls of this turn, at most {@link maxParallel}. */
  readonly inTurn: ReadonlyArray<number>
  /** Calls so far that brought something new; that told something new; that only tried something new. */
  readonly news: number
  readonly lessons: number
  readonly tries: number
  /** Calls in a row without news, in parts where there was a little. */
  readonly stale: number
  /** Calls not run since the last lesson. */
  readonly refusals: number
  readonly seen: Memory.Memory<Seen>
  /** Words, lines and numbers that were met, and what each tool was asked about. */
  readonly known: WordSet.WordSet
  readonly asking: Asking.Asking
  /** The last things done, at most {@link maxActed}. */
  readonly acted: ReadonlyArray<Act>
  readonly rows: Memory.Memory<Row>
  readonly troubles: Memory.Memory<Trouble>
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

/** Things done that are remembered, and words of each. */
const maxActed = 8

export const initial = ({ options: { rows } }: LoopDetector): State => ({
  calls: 0,
  turn: -1,
  inTurn: [],
  news: 0,
  lessons: 0,
  tries: 0,
  stale: 0,
  refusals: 0,
  seen: Memory.make(rows),
  known: WordSet.none,
  asking: Memory.make(Math.min(rows, 8)),
  acted: [],
  rows: Memory.make(Math.min(rows, 8)),
  troubles: Memory.make(Math.min(rows, 8)),
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
  const asked = Fingerprint.ofArguments(identified(detector, call))
  const id = Fingerprint.pair(toolId, asked.hash)
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
  }
  const row = Memory.get(state.rows, toolId)
  const isNext = seen === undefined && Asking.subjectOf(state.asking, state.known, toolId, asked) !== "known"
  // A tool with a ladder of its own has its own patience.
  const own = detector.tools.get(call.tool)?.same
  const recurs = seen !== undefined || (row !== undefined && row.times > 0)
  if (!isNext && nature !== "thought" && own === undefined && recurs) {
    judge("stale", state.stale, options.stale)
  }
  if (!isNext) {
    const round = Cycle.goingOn(state.cycle, toolId, options.cycle.nudge)
    if (round !== undefined) {
      const { period, rounds, waiting } = round
      const ladder = waiting ? options.waits : options.cycle
      // Two rounds of two are too few to tell.
      if ((rounds - 1) * period >= minCycle) judge("cycle", rounds, ladder, period)
    }
  }
  if (own === undefined) {
    if (row !== undefined) judge("same_finding", row.times, options.findings)
    const trouble = troubleOf(state, seen, toolId, asked)
    const times = trouble === 0 ? 0 : (Memory.get(state.troubles, trouble)?.times ?? 0)
    judge("same_failure", times, options.failures)
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

/** One new word in so many makes a result new; fewer are a detail. */
const detail = 20

/** Names of new things that make a list new. */
const several = 3

/** One new number in so many. */
const few = 5

/** A result of so many words has a content of its own: two things would not share it. */
const content = 25

/** A result of so many words says something. */
const sentence = 12

/** What an evaluation of fewer words answers is no finding. */
const minAnswer = 3

/** What the state is after a call ran. */
export const observe = (detector: LoopDetector, state: State, observation: Observation): State => {
  const { tool, turn } = observation
  const nature = natureOf(detector, observation)
  if (nature === "pause") return state.paused ? state : { ...state, paused: true }
  const toolId = Fingerprint.ofText(tool)
  const args = identified(detector, observation)
  const { asked, result } = Fingerprint.ofCall(args, observation.result, {
    known: state.known,
    tool: toolId,
    advances: nature === "advance"
  })
  const id = Fingerprint.pair(toolId, asked.hash)
  const inTurn = turn === state.turn ? state.inTurn : []
  if (inTurn.includes(id)) return state
  const earlier = Memory.get(state.seen, id)
  const subject = earlier === undefined ? Asking.subjectOf(state.asking, state.known, toolId, asked) : "known"
  const isNext = subject !== "known"
  // Of a tool that looks, a no is what it found.
  const failed = observation.failed || (result.undone && nature !== "read")
  const troubled = failed || result.troubled
  const waiting = result.waiting || state.paused
  const edit =
    observation.edit !== undefined
      ? FileEdit.ofKnown(observation.edit)
      : nature === "act"
        ? FileEdit.of(tool, observation.arguments)
        : undefined

  // What it brought.
  const sameWords = earlier?.letters === result.letters
  const numbers =
    earlier === undefined
      ? undefined
      : Progress.step(earlier.progress, result, {
          calls: state.calls - earlier.calls,
          same: sameWords,
          troubled: troubled && earlier.failed
        })
  const mostlyNumbers = result.numbersInAll * 4 >= result.words
  const isUnseen = !WordSet.has(state.known, result.hash | 0)
  const moved =
    numbers !== undefined && ((numbers.moved && result.freshNumbers > 0) || (mostlyNumbers && isUnseen))
  const told = result.freshWords.length * detail >= result.words && result.freshWords.length > 0
  const isThought = nature === "thought"
  const recovers = earlier?.failed === true && !troubled && isUnseen
  const teaches = !isThought && (told || recovers || numbers?.goesOn === true)
  const answers =
    nature === "act" &&
    (result.emptyList ||
      result.words >= content ||
      (result.words >= sentence && !isUnseen) ||
      (result.words >= minAnswer && Nature.evaluates(tool)))
  const counts =
    result.freshNumbers > 0 &&
    result.freshNumbers * few >= result.numbersInAll &&
    (mostlyNumbers || (isNext && result.freshNumbers >= several))
  const goesThrough =
    (nature === "read" && isNext && (counts || result.freshVolatile > several)) ||
    (!troubled &&
      ((isNext && nature === "act" && edit === undefined && !result.emptyList && result.words < content) ||
        (counts && isNext && nature !== "poke") ||
        (result.freshIds >= several && nature !== "poke") ||
        (nature === "advance" &&
          isUnseen &&
          (numbers === undefined ||
            numbers.moved ||
            !sameWords ||
            result.freshNumbers * 2 > result.numbersInAll))))
  /** It is off the list; but no two things have so much in common. */
  const passes =
    isNext &&
    !failed &&
    nature !== "poke" &&
    (result.negative || result.words < (nature === "read" ? sentence : content))
  const isNew = teaches || (goesThrough && !isThought)
  const triesNew =
    !isNew &&
    !isThought &&
    (result.freshWords.length > 0 ||
      (result.freshLines > 0 &&
        (earlier !== undefined ||
          (result.freshLines * 2 >= result.lines && !result.negative && !troubled))) ||
      (counts && earlier === undefined && nature !== "poke") ||
      (passes && !result.negative && isUnseen) ||
      (nature === "act" &&
        !failed &&
        (earlier === undefined
          ? !answers
          : !Nature.evaluates(tool) &&
            ((result.freshNumbers > 0 && !sameWords) || (moved && mostlyNumbers)))))

  const news = isNew ? state.news + 1 : state.news
  const lessons = teaches && (edit === undefined || failed) ? state.lessons + 1 : state.lessons
  // Something has stirred: what else is asked again may well be asked again.
  const stirs = triesNew || (!isNew && !isThought && !failed && (moved || passes))
  const tries = stirs ? state.tries + 1 : state.tries
  const quiet = earlier !== undefined && earlier.news === state.news && earlier.tries === state.tries
  const step = moved ? 0.5 : 1
  const repeated = earlier !== undefined && !isNew && !triesNew
  const trouble = troubled
    ? Fingerprint.pair(toolId, result.trouble === 0 ? result.letters : result.trouble)
    : 0
  const seen: Seen = {
    nature,
    waiting,
    paused: state.paused,
    failed: troubled,
    trouble,
    letters: result.letters,
    moved,
    lively: earlier !== undefined && (earlier.lively || isNew || triesNew),
    progress: told || numbers === undefined ? Progress.begin(result) : numbers.progress,
    same: repeated && quiet ? earlier.same + step : 1,
    unchanged: unchangedAfter(state, earlier, {
      repeated: repeated || (!isNew && sameWords),
      troubled,
      quiet,
      actedUpon:
        nature === "read" && earlier !== undefined ? actedUpon(state, earlier, tool, wordsOf(asked)) : 0
    }),
    calls: state.calls,
    news,
    tries,
    lessons
  }
  const item: Cycle.Item = {
    tool: toolId,
    call: id,
    outcome: Fingerprint.pair(
      // What says little is told by what was asked.
      !isNext && (troubled || result.negative || result.words >= sentence) ? toolId : id,
      moved || counts ? state.calls : edit !== undefined ? id : result.letters
    ),
    said: result.hash,
    waiting
  }
  const files = isThought
    ? state
    : edit !== undefined && !failed
      ? filesAfterEdit(state, edit)
      : filesAfterLook(state, nature, earlier, repeated, troubled)
  return {
    calls: state.calls + 1,
    turn,
    inTurn: inTurn.length < maxParallel ? [...inTurn, id] : inTurn,
    news,
    lessons,
    tries,
    stale: isThought
      ? state.stale
      : isNew
        ? 0
        : staleAfter(state.stale, {
            triesNew,
            passes,
            failed,
            counts,
            waiting: waiting || moved || (earlier !== undefined && earlier.tries !== state.tries)
          }),
    refusals: teaches ? 0 : state.refusals,
    seen: Memory.set(state.seen, id, seen),
    known: WordSet.add(state.known, met(state.known, toolId, asked, result)),
    acted:
      nature === "read" || isThought || failed || Nature.evaluates(tool)
        ? state.acted
        : [
            ...state.acted.slice(1 - maxActed),
            { calls: state.calls, family: Nature.family(tool), words: wordsOf(asked).slice(0, maxActed) }
          ],
    asking: Asking.add(state.asking, toolId, asked, trouble),
    rows: isThought
      ? state.rows
      : rowsAfter(state, toolId, {
          isNew: teaches || (isNew && !answers),
          triesNew: triesNew && !troubled,
          teaches,
          weight: troubled ? 0.5 : weightOf(nature, { ...result, answers, passes, subject, waiting, moved }),
          negative: result.negative,
          quiet: earlier === undefined ? undefined : quiet
        }),
    troubles: isThought
      ? state.troubles
      : troublesAfter(state, earlier, { trouble, recovers, told, teaches, waiting }),
    files: files.files,
    cycle: isThought ? state.cycle : Cycle.add(state.cycle, item),
    unchecked: files.unchecked,
    looked: files.looked,
    paused: false
  }
}

const wordsOf = ({ leaves }: Fingerprint.OfArguments): ReadonlyArray<number> =>
  leaves.length === 1 ? (leaves[0] ?? []) : leaves.flat()

/** What was not known before. */
const met = (
  known: WordSet.WordSet,
  toolId: number,
  { leaves, words: asked }: Fingerprint.OfArguments,
  { freshWords, fresh, hash }: Fingerprint.OfResult
): ReadonlyArray<number> => {
  const all = [...freshWords, ...fresh, hash | 0]
  for (const word of asked) {
    if (!WordSet.has(known, word)) all.push(word)
    const argument = Fingerprint.argument(toolId, word)
    if (!WordSet.has(known, argument)) all.push(argument)
  }
  for (const words of leaves) {
    for (const word of words) {
      const askedWord = Asking.askedWord(toolId, word)
      if (!WordSet.has(known, askedWord)) all.push(askedWord)
    }
  }
  return all
}

interface Checked {
  readonly repeated: boolean
  readonly troubled: boolean
  readonly quiet: boolean
  /** How much it speaks against it that something was done since. */
  readonly actedUpon: number
}

/** A check that says the same although something was done about it: it failed before, or it is about the same thing. */
const unchangedAfter = (state: State, earlier: Seen | undefined, of: Checked): number => {
  if (earlier === undefined || !of.repeated) return 0
  if (of.actedUpon > 0) return earlier.unchanged + of.actedUpon
  if (!of.troubled) return 0
  return of.quiet ? earlier.unchanged : earlier.unchanged + (earlier.lessons === state.lessons ? 1 : 0.5)
}

/** What was done since with the thing that a check asks about, or, where it asks about nothing, with tools like it. */
const actedUpon = (state: State, earlier: Seen, tool: string, words: ReadonlyArray<number>): number => {
  const since = state.acted.filter((act) => act.calls > earlier.calls)
  if (since.some((act) => act.words.some((word) => words.includes(word)))) return 0.75
  const family = words.length === 0 ? Nature.family(tool) : ""
  return family !== "" && since.some((act) => act.family === family) ? 0.5 : 0
}

interface Little {
  readonly triesNew: boolean
  readonly passes: boolean
  readonly failed: boolean
  readonly counts: boolean
  /** Something stirs. */
  readonly waiting: boolean
}

const staleAfter = (stale: number, { triesNew, passes, failed, counts, waiting }: Little): number =>
  triesNew ? Math.max(0, stale - 1) : stale + (passes || (counts && !failed) ? 0.25 : waiting ? 0.5 : 1)

interface Weighed extends Fingerprint.OfResult {
  readonly passes: boolean
  readonly subject: Asking.Subject
  readonly moved: boolean
  /** It answers what one wanted to know. */
  readonly answers: boolean
}

/** What a call that brought nothing new adds to the row of its tool; 0 where it says nothing about it. */
const weightOf = (nature: ToolNature, of: Weighed): number => {
  if (nature === "poke" || (nature === "act" && !of.answers)) return 0
  // A yes says little.
  if (of.words < minAnswer && !of.negative) return 0.25
  // Where a tool is not known to look, and finds nothing, its question may have been another before.
  if (of.passes) return of.subject === "other" || (nature === "act" && of.emptyList) ? 0.5 : 0.1
  return of.waiting || of.moved ? 0.5 : 1
}

/** What the state is after a call was not run. */
export const refused = (detector: LoopDetector, state: State, call: Call): State => {
  const { failures, findings } = detector.options
  const toolId = Fingerprint.ofText(call.tool)
  const asked = Fingerprint.ofArguments(identified(detector, call))
  const seen = Memory.get(state.seen, Fingerprint.pair(toolId, asked.hash))
  return {
    ...state,
    refusals: state.refusals + 1,
    // Whatever the tool is asked next may go better: it has one more chance.
    rows: oneLess(state.rows, toolId, findings.block),
    troubles: oneLess(state.troubles, troubleOf(state, seen, toolId, asked), failures.block)
  }
}

const oneLess = <A extends { readonly times: number }>(
  memory: Memory.Memory<A>,
  key: number,
  block: number
): Memory.Memory<A> => {
  const before = Memory.get(memory, key)
  return before === undefined || before.times < block
    ? memory
    : Memory.set(memory, key, { ...before, times: before.times - 1 })
}

/** What is expected to go wrong with a call: what did with it, or with one like it. */
const troubleOf = (
  state: State,
  seen: Seen | undefined,
  toolId: number,
  asked: Fingerprint.OfArguments
): number => seen?.trouble ?? Asking.troubleOf(state.asking, toolId, asked)

/** What to do about an answer, of which this is the text so far. It may be asked as it grows. */
export const text = ({ options }: LoopDetector, answer: string): Verdict => {
  const { nudge, block } = options.text
  const found = TextLoop.at(answer, nudge)
  if (found === undefined) return LoopVerdict.ok
  const finding: Finding = { pattern: "text", tool: undefined, count: found.times }
  return LoopVerdict.make(found.times >= block ? "Stop" : "Nudge", finding, options.wording)
}

interface Outcome {
  readonly isNew: boolean
  readonly triesNew: boolean
  readonly teaches: boolean
  readonly weight: number
  readonly negative: boolean
  /** Of a call that was made before: nothing new since. */
  readonly quiet: boolean | undefined
}

/** A row goes on while other tools bring something, more slowly; it begins anew when they tell something. */
const rowsAfter = (state: State, toolId: number, outcome: Outcome): Memory.Memory<Row> => {
  const { isNew, triesNew, teaches, weight, negative, quiet } = outcome
  const row = Memory.get(state.rows, toolId)
  const after = (times: number): Memory.Memory<Row> =>
    Memory.set(state.rows, toolId, {
      times,
      news: state.news + (isNew ? 1 : 0),
      lessons: state.lessons + (teaches ? 1 : 0)
    })
  if (isNew || row === undefined) return after(negative && weight > 0 ? 1 : 0)
  if (triesNew || weight === 0) return state.rows
  if (row.lessons !== state.lessons) return after(negative ? row.times + weight * 0.5 : 1)
  return after(row.times + weight * ((quiet ?? row.news === state.news) ? 1 : 0.25))
}

interface Ended {
  readonly trouble: number
  readonly recovers: boolean
  readonly told: boolean
  readonly teaches: boolean
  readonly waiting: boolean
}

/** An error goes on being the same while other things are learned, at half the pace. */
const troublesAfter = (
  state: State,
  earlier: Seen | undefined,
  { trouble, recovers, told, teaches, waiting }: Ended
): Memory.Memory<Trouble> => {
  const lessons = state.lessons + (teaches ? 1 : 0)
  if (recovers && earlier !== undefined && earlier.trouble !== 0) {
    return Memory.set(state.troubles, earlier.trouble, { times: 0, lessons })
  }
  if (trouble === 0) return state.troubles
  const before = Memory.get(state.troubles, trouble)
  if (before === undefined || told) return Memory.set(state.troubles, trouble, { times: 1, lessons })
  const step = teaches ? 0 : before.lessons === state.lessons && !waiting ? 1 : 0.5
  return Memory.set(state.troubles, trouble, { times: before.times + step, lessons })
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
    (seen.waiting && (seen.paused || !seen.failed)) ||
    seen.moved ||
    (seen.lively && !seen.failed) ||
    seen.nature === "advance"
      ? options.waits
      : seen.waiting || seen.nature === "read" || seen.nature === "thought"
        ? options.reads
        : options.acts
  const own = tools.get(tool)?.same
  return own === undefined ? usual : Ladders.ladderOf(tool, usual, own)
}
