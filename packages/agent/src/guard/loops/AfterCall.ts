/**
 * What becomes of the state of a loop detector when a call has ended.
 *
 * What the call brought is `Gain`'s to say; here it is counted: calls in a row, rows of a tool, errors, checks, files.
 * Pure.
 */
import * as Acts from "./Acts.ts"
import * as Asking from "./Asking.ts"
import * as Cycle from "./Cycle.ts"
import type { FileEdit } from "./FileEdit.ts"
import * as FileEdits from "./FileEdit.ts"
import * as FileHistory from "./FileHistory.ts"
import * as Fingerprint from "./Fingerprint.ts"
import * as Gain from "./Gain.ts"
import type { Expected, Row, Seen, State } from "./LoopState.ts"
import * as LoopState from "./LoopState.ts"
import * as Memory from "./Memory.ts"
import * as Progress from "./Progress.ts"
import * as Nature from "./ToolNature.ts"
import type { ToolNature } from "./ToolNature.ts"
import * as WordSet from "./WordSet.ts"

/** A call that ran. */
export interface Ran {
  readonly turn: number
  readonly tool: string
  readonly arguments: unknown
  readonly result: unknown
  readonly failed: boolean
}

/** `identity`: what makes it the call that it is. `edit`: what it did to a file. */
export const after = (
  state: State,
  ran: Ran,
  nature: ToolNature,
  identity: unknown,
  edit: FileEdit | undefined
): State => {
  const { tool: name, turn, failed } = ran
  const asked = LoopState.expectedAgain(state, name, identity)
  if (LoopState.isTwin(state, turn, asked)) return state
  const { toolId, args, seen: earlier } = asked
  const evaluates = Nature.evaluates(name)
  // Before anything is lent: what is read here may run code of its own.
  const command = Nature.commandFor(name, ran.arguments)
  const advances = nature === "advance" && !evaluates
  const how = { advances, looks: nature === "read", failed }
  const result = Fingerprint.ofResult(ran.result, asked, state.known, how)
  const subject = subjectOf(asked.subject, nature, result)
  const { known } = state
  const pausesFirst = (args.waits && nature === "read") || Nature.waits(name) || Nature.pausesFirst(command)
  const paused = state.paused || pausesFirst || (state.turnPaused && turn === state.turn)
  const ownCalls = asked.tool?.calls ?? 0
  const ago = state.calls - (earlier?.calls ?? 0)
  const own = ownCalls - (earlier?.own ?? 0)
  const call: Call = {
    asked,
    name,
    list: subject === "next" || subject === "later" ? Asking.alike(asked.near, args) : undefined,
    nature,
    evaluates,
    subject,
    failed,
    edit,
    result,
    known,
    paused,
    earlier,
    ago,
    own,
    searches: (failed || result.negative) && Nature.searches(command),
    flaps: earlier !== undefined && earlier.recoveries >= mostRecoveries && isUntouched(state, earlier),
    redone:
      earlier === undefined || earlier.deeds !== state.deeds ? 0 : Acts.again(state.acted, earlier.calls),
    stirred: earlier !== undefined && (earlier.stirs !== state.stirs || earlier.news !== state.news)
  }
  const gain = Gain.of(call)
  // What is read on and on may tell of errors: it is a log.
  const isLog = nature === "read" && gain.isNew && !gain.teaches && !gain.failed
  const trouble = gain.troubled && !isLog ? troubleOf(state, call) : noTrouble
  const less = lessOf(state, trouble.before, result)
  const isAgain = earlier !== undefined || subject === "known" || subject === "again"
  const isAnother = nature === "act" || (nature === "read" && gain.sameWords && !gain.isNew)
  const breeds = isAgain && isAnother && !gain.told && result.madeKept > 0
  const met = withMet(call, gain, breeds)
  const isThought = nature === "thought"
  const files = isThought
    ? state
    : edit !== undefined && !gain.failed
      ? filesAfterEdit(state, edit)
      : filesAfterLook(state, call, gain)
  const next: State = {
    calls: state.calls + 1,
    turn,
    last: asked.id,
    inTurn: turn === state.turn ? withOne(state.inTurn, state.last) : noCalls,
    news: newsAfter(state, gain),
    lessons: lessonsAfter(state, call, gain),
    stirs: stirsAfter(state, gain),
    deeds: deedsAfter(state, call, gain),
    stale: isThought ? state.stale : staleAfter(state, call, gain),
    thoughts: isThought ? state.thoughts + 1 : 0,
    refusals: gain.teaches ? 0 : state.refusals,
    refusedIn: state.refusedIn,
    seen: Memory.set(state.seen, asked.id, seenAfter(state, call, gain, trouble.key)),
    bred: state.bred || breeds,
    known: met,
    acted: actedAfter(state, call, gain),
    tools: Memory.set(state.tools, toolId, {
      calls: ownCalls + 1,
      forms: Asking.add(args, trouble.key, asked.near, WordSet.countOf(met)),
      row: isThought ? asked.tool?.row : rowAfter(state, call, gain, less?.goesOn === true)
    }),
    troubles: isThought ? state.troubles : troublesAfter(state, call, gain, trouble, less),
    files: files.files,
    fruitless: files.fruitless,
    cycle: isThought ? state.cycle : Cycle.add(state.cycle, itemOf(state, call, gain)),
    unchecked: files.unchecked,
    looked: files.looked,
    paused: false,
    turnPaused: state.paused || (state.turnPaused && turn === state.turn)
  }
  Fingerprint.giveBack(result)
  return next
}

/** An error: its key among those that are remembered, and what is remembered of it. */
interface Trouble {
  /** 0: there is none. */
  readonly key: number
  readonly before: LoopState.Trouble | undefined
}

const noTrouble: Trouble = { key: 0, before: undefined }

/**
 * Which error it is. It is read without what was asked, and that may be other words of it each time: what says the same
 * as an error that calls of the tool have had, to the word, is that one.
 */
const troubleOf = (state: State, { asked, earlier, result }: Call): Trouble => {
  let key = Fingerprint.both(asked.toolId, result.trouble === 0 ? result.letters : result.trouble)
  let before = Memory.get(state.troubles, key)
  if (before !== undefined && saysSame(before, result)) return { key, before }
  const { forms } = asked.near
  for (let i = earlier === undefined ? 0 : -1; i < forms.length; i++) {
    const other = (i < 0 ? earlier : forms[i])?.trouble ?? 0
    const found = other === 0 ? undefined : Memory.get(state.troubles, other)
    if (found === undefined || found.times <= (before?.times ?? 0) || !saysSame(found, result)) continue
    key = other
    before = found
  }
  return { key, before }
}

const saysSame = ({ said, letters }: LoopState.Trouble, result: Fingerprint.OfResult): boolean =>
  said === result.hash || letters === result.letters

/** What is looked at later, and has nothing new, is what was looked at before: if it says anything. */
const subjectOf = (
  subject: Asking.Subject,
  nature: ToolNature,
  result: Fingerprint.OfResult
): Asking.Subject => {
  if (subject !== "later") return subject
  const { freshWords, freshNumbers, freshLines, freshVolatile } = result
  const isNew = freshWords + freshNumbers + freshLines + freshVolatile > 0
  const says = result.negative || result.hasEmptyList || result.words + result.numbersInAll >= minSaying
  return (nature === "read" || nature === "act") && says && !isNew && !isPart(result) ? "known" : "later"
}

/** Page 5 of 17, whatever is on it. */
const isPart = ({ counted, numbers: [first = 0, whole = 0] }: Fingerprint.OfResult): boolean =>
  (counted & 1) === 1 && first < whole

/** Words and numbers: "20 items" is of every page. */
const minSaying = 4

const noCalls: ReadonlyArray<number> = []

/** With one more, while there is room. */
const withOne = (list: ReadonlyArray<number>, one: number): ReadonlyArray<number> =>
  list.length === 0 ? [one] : list.length < LoopState.maxParallel ? [...list, one] : list

interface Call extends Gain.Ended {
  readonly asked: Expected
  readonly name: string
  readonly earlier: Seen | undefined
  /** The calls that it goes on with, if it asks for the next thing of a list. */
  readonly list: Asking.Form | undefined
}

/** It goes on without being told where to: to the next line of a program, to the next page, to the next rows. */
const goesByItself = ({ nature, evaluates, asked }: Call): boolean =>
  nature === "advance" && (evaluates || asked.args.leaves.length === 0)

/** Of a list several things went well: that others do not is what is found out. */
const isMixed = (list: Asking.Form | undefined): boolean => list !== undefined && list.well >= Asking.several

/** It was made before, and brought nothing. */
const repeats = ({ earlier }: Call, gain: Gain.Gain): boolean =>
  earlier !== undefined && !gain.isNew && !gain.tries

/** Nothing new has come since it was made before, and nothing goes on. */
const isQuiet = (state: State, { earlier }: Call): boolean =>
  earlier !== undefined && earlier.news === state.news && earlier.stirs === state.stirs

const newsAfter = (state: State, gain: Gain.Gain): number => state.news + (gain.isNew ? 1 : 0)

/** What an edit shows of a file is no lesson. */
const lessonsAfter = (state: State, { edit }: Call, gain: Gain.Gain): number =>
  state.lessons + (gain.teaches && (edit === undefined || gain.failed) ? 1 : 0)

const stirsAfter = (state: State, gain: Gain.Gain): number => state.stirs + (gain.stirs ? 1 : 0)

/** Things done that were not done before, without an error. */
const deedsAfter = (state: State, { nature }: Call, gain: Gain.Gain): number =>
  state.deeds + (nature === "act" && !gain.troubled && (gain.isNew || gain.tries) ? 1 : 0)

const seenAfter = (state: State, call: Call, gain: Gain.Gain, trouble: number): Seen => {
  const { nature, earlier, result } = call
  const isSame = earlier !== undefined && repeats(call, gain) && isQuiet(state, call)
  return {
    // What takes things out of the way takes others when it is made again.
    nature: nature === "act" && result.taken ? "advance" : nature,
    waiting: gain.waiting,
    paused: call.paused,
    troubled: gain.troubled,
    trouble,
    said: result.hash,
    letters: result.letters,
    moved: gain.moved,
    lively: earlier !== undefined && (earlier.lively || gain.isNew || gain.tries),
    progress: gain.progress,
    same: isSame ? earlier.same + (result.taken ? 0.25 : gain.moved ? 0.5 : 1) : 1,
    exact: isSame && earlier.said === result.hash ? earlier.exact + 1 : 1,
    unchanged: unchangedAfter(state, call, gain),
    failures: !gain.fails
      ? 0
      : earlier?.said === result.hash && isUntouched(state, earlier)
        ? earlier.failures + 1
        : 1,
    recoveries:
      (earlier?.recoveries ?? 0) +
      (gain.recovers && earlier !== undefined && isUntouched(state, earlier) ? 1 : 0),
    own: call.asked.tool?.calls ?? 0,
    calls: state.calls,
    news: newsAfter(state, gain),
    stirs: stirsAfter(state, gain),
    lessons: lessonsAfter(state, call, gain),
    deeds: deedsAfter(state, call, gain)
  }
}

/** A check that says the same although something was done about it: it failed before, or it is about the same thing. */
const unchangedAfter = (state: State, call: Call, gain: Gain.Gain): number => {
  const { earlier, nature } = call
  if (earlier === undefined || gain.isNew || !(gain.sameWords || (gain.isKnown && !gain.tries))) return 0
  // What is read again after an edit has what was written in another place.
  const isAnother = !gain.isKnown && !gain.troubled && !gain.waiting && call.result.freshNumbers === 0
  if (isAnother && call.result.words >= Gain.content) return earlier.unchanged
  // What is measured after each of several steps, and is another each time.
  if (gain.moved && gain.measures && !gain.troubled && earlier.news !== state.news) return 0
  // All is well, and the run gets on.
  const isFine = !gain.troubled && (earlier.lessons !== state.lessons || earlier.news !== state.news)
  const weight = isFine ? 0.25 : gain.waiting ? 0.5 : 1
  // What waits for a thing that was acted upon is no look at it.
  const done =
    nature === "read" && !Nature.waits(call.name)
      ? Acts.upon(state.acted, earlier.calls, call.name, call.asked.args.leaves) * weight
      : 0
  if (done > 0) return earlier.unchanged + done
  if (!gain.troubled) return 0
  if (isQuiet(state, call)) return earlier.unchanged
  return earlier.unchanged + (earlier.lessons === state.lessons && !gain.moved ? 1 : 0.5)
}

/** Nothing was done since. */
const isUntouched = ({ acted, deeds }: State, earlier: Seen): boolean =>
  earlier.deeds === deeds && !Acts.any(acted, earlier.calls)

/** So often something may go well again by itself. */
const mostRecoveries = 2

const actedAfter = (
  state: State,
  { name, nature, evaluates, asked }: Call,
  gain: Gain.Gain
): State["acted"] =>
  nature === "read" || nature === "thought" || gain.failed || evaluates
    ? state.acted
    : Acts.add(state.acted, {
        calls: state.calls,
        id: asked.id,
        isDeed: nature === "act",
        family: Nature.family(name),
        leaves: asked.args.leaves
      })

/** With all that was met. What was asked when something went wrong is no part of the error. */
const withMet = (
  { asked, earlier, result, known }: Call,
  gain: Gain.Gain,
  breeds: boolean
): WordSet.WordSet => {
  const { toolId: tool } = asked
  const { prose, subjects, leaves } = asked.args
  const adding = WordSet.begin(known)
  WordSet.addTo(adding, result.hash)
  WordSet.addAll(adding, result.fresh, result.freshKept)
  // What was asked before, to the word, is known.
  if (earlier === undefined) {
    WordSet.addAll(adding, subjects, subjects.length)
    WordSet.addAll(adding, prose, prose.length)
    for (const leaf of leaves) for (const word of leaf) WordSet.addTo(adding, Asking.askedWord(tool, word))
  }
  if (breeds) {
    for (let i = 0; i < result.madeKept; i++)
      WordSet.addTo(adding, Asking.bornWord(Asking.unitOf(result.made[i] ?? 0)))
  }
  if (gain.troubled) for (const word of subjects) WordSet.addTo(adding, Fingerprint.argument(tool, word))
  return WordSet.end(known, adding)
}

const staleAfter = (state: State, call: Call, gain: Gain.Gain): number => {
  const { earlier, result } = call
  if (gain.isNew) return 0
  if (gain.tries) return Math.max(0, state.stale - 1)
  if (result.taken) return state.stale + 0.25
  if (gain.passes || (gain.measures && !gain.failed)) return state.stale + (gain.waiting ? 0 : 0.25)
  // It is not what it was, though it is known: the next server has the new address.
  if (gain.waiting && earlier !== undefined && earlier.said !== result.hash) return state.stale / 2
  const goesOn =
    gain.waiting ||
    gain.moved ||
    call.nature === "advance" ||
    (earlier !== undefined && earlier.stirs !== state.stirs)
  return state.stale + (goesOn ? 0.5 : 1)
}

/** A shell was to look for something else in the same files, and found nothing. */
const isSearch = ({ searches, result, asked }: Call): boolean =>
  searches && result.negative && asked.near.form?.leaves[0]?.at(-1) === asked.args.leaves[0]?.at(-1)

/** To the word what was there before, whatever was looked at: a wall, or nothing special about any. */
const isSamePage = ({ nature, evaluates, result }: Call, gain: Gain.Gain): boolean =>
  nature === "read" &&
  !evaluates &&
  gain.passes &&
  gain.isKnown &&
  !result.negative &&
  result.words >= Gain.sentence

/** What a call that brought nothing new adds to the row of its tool; 0 where it says nothing about it. */
const weightOf = (call: Call, gain: Gain.Gain): number => {
  const { nature, subject, result, earlier, list } = call
  // It took as many others.
  if (result.taken) return 0.1
  // The same long answer to other questions.
  const isSame = gain.isKnown && !gain.waiting
  const isRephrased = earlier === undefined && subject !== "next"
  if (isSame && nature === "read" && result.words >= Gain.content) return 1
  // The same answer to a question in other words.
  if (
    isSame &&
    nature === "act" &&
    isRephrased &&
    result.words >= (call.evaluates ? Gain.content : Gain.sentence)
  )
    return 1
  if (gain.troubled) return isMixed(list) ? 0.1 : 0.5
  // What a click brought, if it says more than that it was done, is one page among several.
  if (nature === "poke") return result.words >= Gain.sentence ? 0.5 : 0
  if (nature === "act" && !gain.answers) return 0
  // Times that something took are what a benchmark tells.
  if (nature === "act" && result.freshVolatile >= Asking.several) return 0.25
  // Where a tool is not known to look, and finds nothing, its question may have been another before.
  if (isSamePage(call, gain)) return 0.2
  if (gain.passes) return subject === "other" || isSearch(call) ? 0.5 : 0.1
  // A yes says little, and so does the line of a program that comes round again.
  if ((result.words < Gain.minAnswer && !result.negative) || goesByItself(call)) return 0.25
  if (gain.waiting && gain.moved) return 0.25
  // What was not done before may be done for all the same.
  const isFirst = nature === "act" && earlier === undefined
  return gain.waiting || gain.moved || isFirst || earlier?.lively === true ? 0.5 : 1
}

/** A row goes on while other tools bring something, more slowly; it begins anew when they tell something. */
const rowAfter = (state: State, call: Call, gain: Gain.Gain, isLess: boolean): Row => {
  const row = call.asked.tool?.row
  const weight = isLess ? 0 : weightOf(call, gain)
  // An action that gets on in a list may still find the same of everything.
  const isNew = gain.teaches || (gain.isNew && !gain.answers)
  if (!isNew && row !== undefined) {
    if (gain.tries && !gain.troubled) return row.times < 1 ? row : { ...row, times: row.times - 1 }
    // A list may be long: that nothing is special about its items does not end it.
    if (weight === 0 || (weight < 0.5 && row.times >= mostOfList && !isSamePage(call, gain))) return row
  }
  return {
    times:
      isNew || row === undefined
        ? call.result.negative && weight > 0
          ? 1
          : 0
        : timesAfter(state, call, gain, row, weight),
    news: state.news + (isNew ? 1 : 0),
    lessons: state.lessons + (gain.teaches ? 1 : 0)
  }
}

/** What is told of the items of a list adds up to this, and no more. */
const mostOfList = 4.5

const timesAfter = (state: State, call: Call, gain: Gain.Gain, row: Row, weight: number): number => {
  const { earlier, result } = call
  if (row.lessons !== state.lessons) return result.negative ? row.times + weight * 0.5 : 1
  const quiet = earlier === undefined ? row.news === state.news : isQuiet(state, call)
  return row.times + weight * (quiet ? 1 : gain.troubled ? 0.25 : 0.125)
}

const linesOf = ({ lines, place, places, pending }: Fingerprint.OfResult): Progress.Numbers => ({
  lines,
  place,
  places,
  pending,
  numbers: noCalls,
  counted: 0,
  numbersInAll: 0
})

const anyCall: Progress.Since = {
  calls: 0,
  own: 0,
  same: true,
  troubled: true,
  stirred: false,
  redone: 0,
  fresh: false
}

/** An error goes on being the same while other things are learned, more slowly. */
const troublesAfter = (
  state: State,
  { earlier, stirred, list, result }: Call,
  gain: Gain.Gain,
  { key, before }: Trouble,
  less: Progress.Step | undefined
): State["troubles"] => {
  const lessons = state.lessons + (gain.teaches ? 1 : 0)
  const { deeds } = state
  const { hash: said, letters } = result
  // Each test that was added failed at first, and then went well.
  const isMended = earlier?.troubled === true && !gain.troubled && (gain.recovers || stirred)
  const mended = isMended && earlier.trouble !== 0 ? Memory.get(state.troubles, earlier.trouble) : undefined
  if (isMended && mended !== undefined) {
    const progress = Progress.begin(result)
    return Memory.set(state.troubles, earlier.trouble, { ...mended, times: 0, deeds, lessons, progress })
  }
  if (key === 0) return state.troubles
  // Of a list the one before went well, or several did.
  const isAfterOne = list !== undefined && list.well > 0 && list.trouble === 0
  if (
    before === undefined ||
    less === undefined ||
    isAfterOne ||
    (gain.told && !gain.failed) ||
    (gain.teaches && gain.waiting)
  ) {
    const progress = Progress.begin(result)
    return Memory.set(state.troubles, key, { times: 1, said, letters, deeds, lessons, progress })
  }
  const step = weightOfError(state, before, { stirred, list, result }, gain, less)
  const times = Math.max(1, before.times + step)
  return Memory.set(state.troubles, key, { times, said, letters, deeds, lessons, progress: less.progress })
}

/** What an error counts that was there before; below 0 where there is less of it. */
const weightOfError = (
  state: State,
  before: LoopState.Trouble,
  { stirred, list, result }: Pick<Call, "stirred" | "list" | "result">,
  gain: Gain.Gain,
  less: Progress.Step
): number => {
  if (less.shrinks) return -1
  if (gain.teaches || less.goesOn) return 0
  // One thing after the other is tried, and what comes of it measured: only its end says that it failed.
  if (list !== undefined && gain.measures && result.trouble === 0) return 0.25
  const isElsewhere = (gain.moved || gain.tries) && stirred
  if (isElsewhere || isMixed(list)) return 0.5
  if (before.lessons === state.lessons) return gain.waiting ? 0.75 : 1
  // A cause was found and something done about it: another one may show in the same way.
  return state.deeds > before.deeds ? 0.5 : 0.75
}

/** Of an error that was there before: whether there is less and less of it, whatever was asked. */
const lessOf = (
  state: State,
  before: LoopState.Trouble | undefined,
  result: Fingerprint.OfResult
): Progress.Step | undefined => {
  if (before === undefined) return undefined
  // By its numbers only where something was done since: else they may be what was asked for, or count the calls.
  const isDone = state.unchecked.length > 0 || before.deeds < state.deeds
  const numbers = isDone ? result : linesOf(result)
  return Progress.step(before.progress, numbers, anyCall)
}

const itemOf = (state: State, call: Call, gain: Gain.Gain): Cycle.Item => {
  const { asked, subject, edit, result } = call
  const { toolId: tool, id } = asked
  const saysLittle = !gain.troubled && !result.negative && result.words < Gain.sentence
  return {
    tool,
    call: id,
    outcome: Fingerprint.both(
      // What says little is told by what was asked; and what moves is never the same.
      subject === "again"
        ? tool
        : subject !== "known" || saysLittle || call.earlier !== undefined
          ? id
          : tool,
      gain.moved || gain.measures || result.taken ? state.calls : edit !== undefined ? id : result.letters
    ),
    said: result.hash,
    waiting: gain.waiting
  }
}

type Files = Pick<State, "files" | "fruitless" | "unchecked" | "looked">

const filesAfterEdit = (state: State, edit: FileEdit): Files => {
  const path = FileEdits.idOf(edit.path)
  const earlier = Memory.get(state.files, path)
  const learned = earlier !== undefined && earlier.lessons !== state.lessons
  const { texts, fruitless } = FileHistory.edited(earlier ?? FileHistory.none, edit, state.looked, learned)
  return {
    files: Memory.set(state.files, path, { texts, fruitless, lessons: state.lessons }),
    fruitless: Math.max(state.fruitless, fruitless),
    unchecked: state.unchecked.includes(path) ? state.unchecked : withOne(state.unchecked, path),
    looked: false
  }
}

/** A check is what was called before and acts: a build, a test. It tells whether the edits since changed anything. */
const filesAfterLook = (state: State, call: Call, gain: Gain.Gain): Files => {
  const { files, unchecked } = state
  const { earlier, nature } = call
  const isCheck = earlier !== undefined && nature !== "read" && unchecked.length > 0
  // What is measured anew is no failure as before, and neither is what went well until then.
  const repeated = repeats(call, gain) && !gain.moved
  if (!isCheck || (repeated && !(gain.troubled && earlier.troubled)))
    return state.looked ? state : { files, fruitless: state.fruitless, unchecked, looked: true }
  let after = files
  let most = state.fruitless
  for (const path of unchecked) {
    const file = Memory.get(files, path)
    if (file === undefined) continue
    const weight = earlier.lessons === state.lessons ? 1 : 0.5
    const history = repeated ? FileHistory.unchanged(file, weight) : FileHistory.progressed(file)
    const { texts, fruitless } = history
    most = Math.max(most, fruitless)
    after = Memory.set(after, path, { texts, fruitless, lessons: state.lessons })
  }
  return { files: after, fruitless: most, unchecked: noCalls, looked: true }
}
