/**
 * What a loop detector remembers of a run, and what becomes of it when a call has ended.
 *
 * It counts what brings nothing: the same call again ({@link Seen}), a tool that finds nothing new whatever it is asked
 * ({@link Row}), an error that stays the same ({@link Trouble}), files whose edits lead nowhere, and calls in a row.
 * What a call brought is `Gain`'s to say. A value, of bounded size; pure.
 */
import * as Asking from "./Asking.ts"
import * as Cycle from "./Cycle.ts"
import type { FileEdit } from "./FileEdit.ts"
import * as FileHistory from "./FileHistory.ts"
import * as Fingerprint from "./Fingerprint.ts"
import * as Gain from "./Gain.ts"
import * as Memory from "./Memory.ts"
import type { Progress } from "./Progress.ts"
import * as Nature from "./ToolNature.ts"
import type { ToolNature } from "./ToolNature.ts"
import * as WordSet from "./WordSet.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** What was seen of one call. */
export interface Seen {
  readonly nature: ToolNature
  readonly waiting: boolean
  /** Time was let pass before it. */
  readonly paused: boolean
  readonly troubled: boolean
  /** What went wrong, as a key of `troubles`; 0 if nothing did. */
  readonly trouble: number
  /** The words of its last result, and whether its numbers had moved. */
  readonly letters: number
  readonly moved: boolean
  /** Asked again, it has brought something else before. */
  readonly lively: boolean
  readonly progress: Progress
  /** Times in a row that it brought nothing new, and nothing new came between, the first included. */
  readonly same: number
  /** Times that it said the same although something was done about it. */
  readonly unchanged: number
  /** Values of the state's counters when it was seen last. */
  readonly calls: number
  readonly news: number
  readonly stirs: number
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
  /** Calls so far that brought something new; of these, that told it; and others after which something goes on. */
  readonly news: number
  readonly lessons: number
  readonly stirs: number
  /** Calls in a row without news, in parts where there was a little. */
  readonly stale: number
  /** Thoughts in a row, with nothing done between. */
  readonly thoughts: number
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

/** Tools that are remembered, in rows of a memory. */
const maxTools = 8

/** `rows`: of what is remembered of calls and files. */
export const initial = (rows: number): State => ({
  calls: 0,
  turn: -1,
  inTurn: [],
  news: 0,
  lessons: 0,
  stirs: 0,
  stale: 0,
  thoughts: 0,
  refusals: 0,
  seen: Memory.make(rows),
  known: WordSet.none(),
  asking: Memory.make(Math.min(rows, maxTools)),
  acted: [],
  rows: Memory.make(Math.min(rows, maxTools)),
  troubles: Memory.make(Math.min(rows, maxTools)),
  files: Memory.make(rows),
  cycle: Cycle.none,
  unchecked: [],
  looked: true,
  paused: false
})

/** A call that has ended. */
export interface Ended {
  readonly turn: number
  readonly tool: string
  readonly nature: ToolNature
  readonly failed: boolean
  readonly edit: FileEdit | undefined
  /** The arguments by which it is known, and its result. */
  readonly identity: unknown
  readonly result: unknown
}

// -----------------------------------------------------------------------------
// Before a call
// -----------------------------------------------------------------------------

/** A call as it is looked up. */
export interface Asked extends Fingerprint.OfArguments {
  readonly tool: number
  readonly id: number
}

export const askedOf = (tool: string, identity: unknown): Asked =>
  asking(tool, Fingerprint.ofArguments(identity))

const asking = (
  tool: string,
  { hash, leaves, words, subjects, question, questionHash }: Fingerprint.OfArguments
): Asked => {
  const toolId = Fingerprint.ofText(tool)
  return {
    hash,
    leaves,
    words,
    subjects,
    question,
    questionHash,
    tool: toolId,
    id: Fingerprint.pair(toolId, hash)
  }
}

/** Its twin of the same turn was there before. */
export const isTwin = (state: State, turn: number, { id }: Asked): boolean =>
  turn === state.turn && state.inTurn.includes(id)

/** What is expected of a call, going by those before it. */
export interface Expected {
  readonly seen: Seen | undefined
  readonly subject: Asking.Subject
  /** How it went wrong, or one like it did; 0 if none did. */
  readonly trouble: number
  /** How often that was. */
  readonly troubled: number
}

export const expected = (state: State, asked: Asked): Expected => {
  const seen = Memory.get(state.seen, asked.id)
  if (seen !== undefined) {
    const { trouble } = seen
    return { seen, subject: "known", trouble, troubled: timesOf(state, trouble) }
  }
  const near = Asking.look(state.asking, asked.tool, asked)
  const trouble = Asking.troubleOf(near)
  const subject = Asking.subjectOf(near, state.known, asked.tool, asked)
  return { seen, subject, trouble, troubled: timesOf(state, trouble) }
}

const timesOf = (state: State, trouble: number): number =>
  trouble === 0 ? 0 : (Memory.get(state.troubles, trouble)?.times ?? 0)

/** It was not run. Whatever the tool is asked next may go better: where it had `most` in a row, it has one more chance. */
export const refused = (
  state: State,
  asked: Asked,
  most: { readonly findings: number; readonly failures: number }
): State => ({
  ...state,
  refusals: state.refusals + 1,
  rows: oneLess(state.rows, asked.tool, most.findings),
  troubles: oneLess(state.troubles, expected(state, asked).trouble, most.failures)
})

const oneLess = <A extends { readonly times: number }>(
  memory: Memory.Memory<A>,
  key: number,
  most: number
): Memory.Memory<A> => {
  const before = Memory.get(memory, key)
  return before === undefined || before.times < most
    ? memory
    : Memory.set(memory, key, { ...before, times: before.times - 1 })
}

// -----------------------------------------------------------------------------
// After a call
// -----------------------------------------------------------------------------

export const after = (state: State, ended: Ended): State => {
  const { tool, turn, nature, edit } = ended
  const asked = asking(tool, Fingerprint.ofArgumentsAgain(ended.identity))
  if (isTwin(state, turn, asked)) return state
  const result = Fingerprint.ofResult(ended.result, {
    known: state.known,
    tool: asked.tool,
    advances: nature === "advance"
  })
  const earlier = Memory.get(state.seen, asked.id)
  const evaluates = Nature.evaluates(tool)
  const near = Asking.look(state.asking, asked.tool, asked)
  const subject = earlier === undefined ? Asking.subjectOf(near, state.known, asked.tool, asked) : "known"
  const gain = Gain.of({
    nature,
    evaluates,
    subject,
    failed: ended.failed,
    edit,
    result,
    known: state.known,
    paused: state.paused,
    earlier,
    ago: state.calls - (earlier?.calls ?? 0)
  })
  const call: Call = { asked, name: tool, nature, evaluates, subject, edit, result, gain, earlier }
  const trouble = gain.troubled
    ? Fingerprint.pair(asked.tool, result.trouble === 0 ? result.letters : result.trouble)
    : 0
  const isThought = nature === "thought"
  const inTurn = turn === state.turn ? state.inTurn : []
  const news = state.news + (gain.isNew ? 1 : 0)
  const lessons = state.lessons + (gain.teaches && (edit === undefined || gain.failed) ? 1 : 0)
  const stirs = state.stirs + (gain.stirs ? 1 : 0)
  const files = isThought
    ? state
    : edit !== undefined && !gain.failed
      ? filesAfterEdit(state, edit)
      : filesAfterLook(state, call)
  return {
    calls: state.calls + 1,
    turn,
    inTurn: inTurn.length < maxParallel ? [...inTurn, asked.id] : inTurn,
    news,
    lessons,
    stirs,
    stale: isThought ? state.stale : staleAfter(state, call),
    thoughts: isThought ? state.thoughts + 1 : 0,
    refusals: gain.teaches ? 0 : state.refusals,
    seen: Memory.set(state.seen, asked.id, seenAfter(state, call, { news, lessons, stirs, trouble })),
    known: WordSet.add(state.known, met(call)),
    asking: Asking.add(state.asking, asked.tool, asked, trouble, near),
    acted: actedAfter(state, call),
    rows: isThought ? state.rows : rowsAfter(state, call),
    troubles: isThought ? state.troubles : troublesAfter(state, call, trouble),
    files: files.files,
    cycle: isThought ? state.cycle : Cycle.add(state.cycle, itemOf(state, call)),
    unchecked: files.unchecked,
    looked: files.looked,
    paused: false
  }
}

interface Call {
  readonly asked: Asked
  readonly name: string
  readonly nature: ToolNature
  readonly evaluates: boolean
  readonly subject: Asking.Subject
  readonly edit: FileEdit | undefined
  readonly result: Fingerprint.OfResult
  readonly gain: Gain.Gain
  readonly earlier: Seen | undefined
}

/** It was made before, and brought nothing. */
const repeats = ({ earlier, gain }: Call): boolean => earlier !== undefined && !gain.isNew && !gain.tries

/** Nothing new has come since it was made before, and nothing goes on. */
const isQuiet = (state: State, { earlier }: Call): boolean =>
  earlier !== undefined && earlier.news === state.news && earlier.stirs === state.stirs

const seenAfter = (
  state: State,
  call: Call,
  { news, lessons, stirs, trouble }: Pick<Seen, "news" | "lessons" | "stirs" | "trouble">
): Seen => {
  const { nature, gain, earlier, result } = call
  const isSame = earlier !== undefined && repeats(call) && isQuiet(state, call)
  return {
    nature,
    waiting: gain.waiting,
    paused: state.paused,
    troubled: gain.troubled,
    trouble,
    letters: result.letters,
    moved: gain.moved,
    lively: earlier !== undefined && (earlier.lively || gain.isNew || gain.tries),
    progress: gain.progress,
    same: isSame ? earlier.same + (gain.moved ? 0.5 : 1) : 1,
    unchanged: unchangedAfter(state, call),
    calls: state.calls,
    news,
    stirs,
    lessons
  }
}

/** A check that says the same although something was done about it: it failed before, or it is about the same thing. */
const unchangedAfter = (state: State, call: Call): number => {
  const { earlier, gain, nature } = call
  if (earlier === undefined || gain.isNew || !(gain.sameWords || repeats(call))) return 0
  const done = nature === "read" ? actedUpon(state, earlier, call) * (gain.waiting ? 0.5 : 1) : 0
  if (done > 0) return earlier.unchanged + done
  if (!gain.troubled) return 0
  if (isQuiet(state, call)) return earlier.unchanged
  return earlier.unchanged + (earlier.lessons === state.lessons ? 1 : 0.5)
}

/** What was done since with the thing that a check asks about, or, where it asks about nothing, with tools like it. */
const actedUpon = (state: State, earlier: Seen, call: Call): number => {
  const since = state.acted.filter((act) => act.calls > earlier.calls)
  if (since.length === 0) return 0
  const words = call.asked.leaves.flat()
  if (since.some((act) => act.words.some((word) => words.includes(word)))) return 1
  const family = words.length === 0 ? Nature.family(call.name) : ""
  return family !== "" && since.some((act) => act.family === family) ? 0.75 : 0
}

const actedAfter = (state: State, { name, nature, evaluates, gain, asked }: Call): State["acted"] =>
  nature === "read" || nature === "thought" || gain.failed || evaluates
    ? state.acted
    : [
        ...state.acted.slice(1 - maxActed),
        { calls: state.calls, family: Nature.family(name), words: asked.leaves.flat().slice(0, maxActed) }
      ]

/** All that was met; the most of it is known. What was asked when something went wrong is no part of the error. */
const met = ({ asked, result, gain }: Call): ReadonlyArray<number> => {
  const { tool, words, subjects, leaves } = asked
  const all: Array<number> = [result.hash | 0]
  for (const word of result.freshWords) all.push(word)
  for (const word of result.fresh) all.push(word)
  for (const word of words) all.push(word)
  for (const leaf of leaves) for (const word of leaf) all.push(Asking.askedWord(tool, word))
  if (gain.troubled) for (const word of subjects) all.push(Fingerprint.argument(tool, word))
  return all
}

const staleAfter = (state: State, { earlier, gain }: Call): number => {
  if (gain.isNew) return 0
  if (gain.tries) return Math.max(0, state.stale - 1)
  if (gain.passes || (gain.measures && !gain.failed)) return state.stale + 0.25
  const goesOn = gain.waiting || gain.moved || (earlier !== undefined && earlier.stirs !== state.stirs)
  return state.stale + (goesOn ? 0.5 : 1)
}

/** What a call that brought nothing new adds to the row of its tool; 0 where it says nothing about it. */
const weightOf = ({ nature, subject, result, gain, earlier }: Call): number => {
  if (gain.troubled) return 0.5
  // What a click brought, if it says more than that it was done, is one page among several.
  if (nature === "poke") return result.words >= Gain.sentence ? 0.5 : 0
  if (nature === "act" && !gain.answers) return 0
  // A yes says little.
  if (result.words < Gain.minAnswer && !result.negative) return 0.25
  // Where a tool is not known to look, and finds nothing, its question may have been another before.
  if (gain.passes) return subject === "other" || (nature === "act" && result.emptyList) ? 0.5 : 0.1
  return result.waiting || gain.moved || earlier?.lively === true ? 0.5 : 1
}

/** A row goes on while other tools bring something, more slowly; it begins anew when they tell something. */
const rowsAfter = (state: State, call: Call): State["rows"] => {
  const { asked, gain, result, earlier } = call
  const { tool } = asked
  const row = Memory.get(state.rows, tool)
  const weight = weightOf(call)
  // An action that gets on in a list may still find the same of everything.
  const isNew = gain.teaches || (gain.isNew && !gain.answers)
  const then = (times: number): State["rows"] =>
    Memory.set(state.rows, tool, {
      times,
      news: state.news + (isNew ? 1 : 0),
      lessons: state.lessons + (gain.teaches ? 1 : 0)
    })
  if (isNew || row === undefined) return then(result.negative && weight > 0 ? 1 : 0)
  if ((gain.tries && !gain.troubled) || weight === 0) return state.rows
  if (row.lessons !== state.lessons) return then(result.negative ? row.times + weight * 0.5 : 1)
  const quiet = earlier === undefined ? row.news === state.news : isQuiet(state, call)
  return then(row.times + weight * (quiet ? 1 : 0.25))
}

/** An error goes on being the same while other things are learned, at half the pace. */
const troublesAfter = (state: State, { earlier, gain }: Call, trouble: number): State["troubles"] => {
  const lessons = state.lessons + (gain.teaches ? 1 : 0)
  if (gain.recovers && earlier !== undefined && earlier.trouble !== 0) {
    return Memory.set(state.troubles, earlier.trouble, { times: 0, lessons })
  }
  if (trouble === 0) return state.troubles
  const before = Memory.get(state.troubles, trouble)
  if (before === undefined || gain.told) return Memory.set(state.troubles, trouble, { times: 1, lessons })
  const step = gain.teaches ? 0 : before.lessons === state.lessons && !gain.waiting ? 1 : 0.75
  return Memory.set(state.troubles, trouble, { times: before.times + step, lessons })
}

const itemOf = (state: State, { asked, subject, edit, result, gain }: Call): Cycle.Item => {
  const { tool, id } = asked
  const saysLittle = !gain.troubled && !result.negative && result.words < Gain.sentence
  return {
    tool,
    call: id,
    outcome: Fingerprint.pair(
      // What says little is told by what was asked; and what moves is never the same.
      subject !== "known" || saysLittle ? id : tool,
      gain.moved || gain.measures ? state.calls : edit !== undefined ? id : result.letters
    ),
    said: result.hash,
    waiting: gain.waiting
  }
}

type Files = Pick<State, "files" | "unchecked" | "looked">

const filesAfterEdit = (state: State, edit: FileEdit): Files => {
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
const filesAfterLook = (state: State, call: Call): Files => {
  const { files, unchecked } = state
  const { earlier, nature, gain } = call
  const isCheck = earlier !== undefined && nature !== "read" && unchecked.length > 0
  // What is measured anew is no failure as before.
  const repeated = repeats(call) && !gain.moved
  if (!isCheck || (repeated && !gain.troubled)) return { files, unchecked, looked: true }
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
