/**
 * What a loop detector remembers of a run, and what it expects of a call. What becomes of it is `AfterCall`'s to say.
 *
 * It counts what brings nothing: the same call again ({@link Seen}), a tool that finds nothing new whatever it is asked
 * ({@link Row}), an error that stays the same ({@link Trouble}), files whose edits lead nowhere, and calls in a row.
 * A value, of bounded size; pure.
 */
import type * as Acts from "./Acts.ts"
import * as Asking from "./Asking.ts"
import * as Cycle from "./Cycle.ts"
import type * as FileHistory from "./FileHistory.ts"
import * as Fingerprint from "./Fingerprint.ts"
import { Identity } from "./Identity.ts"
import * as Memory from "./Memory.ts"
import type * as Progress from "./Progress.ts"
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
  /** Its last result, to the word, and the words of it, and whether its numbers had moved. */
  readonly said: number
  readonly letters: number
  readonly moved: boolean
  /** Asked again, it has brought something else before. */
  readonly lively: boolean
  readonly progress: Progress.Progress
  /** Times in a row that it brought nothing new, and nothing new came between, the first included. */
  readonly same: number
  /** Of these the last that had, to the word, the same outcome. */
  readonly exact: number
  /** Times that it said the same although something was done about it. */
  readonly unchanged: number
  /** Times in a row that it failed, as the tool says of itself, with the same words and nothing done in between. */
  readonly failures: number
  /** Times that it went well again, with nothing done about it. */
  readonly recoveries: number
  /** Calls of its tool until then. */
  readonly own: number
  /** Values of the state's counters when it was seen last. */
  readonly calls: number
  readonly news: number
  readonly stirs: number
  readonly lessons: number
  readonly deeds: number
}

/** What is remembered of a tool: how it was asked, and what its last calls were. */
export interface Tool {
  /** Calls of it. */
  readonly calls: number
  readonly forms: Asking.Forms
  /** `undefined`: it did nothing but think. */
  readonly row: Row | undefined
}

/** Calls of one tool in a row that brought nothing new, whatever they asked. */
export interface Row {
  readonly times: number
  readonly news: number
  readonly lessons: number
}

/** One error of a tool, whatever it was asked, and whatever went well meanwhile. */
export interface Trouble {
  readonly times: number
  /** The last result that told of it, to the word, and the words of it. */
  readonly said: number
  readonly letters: number
  /** Values of the state's counters when it was seen last. */
  readonly deeds: number
  readonly lessons: number
  /** Whether there is less and less of it, whatever was asked. */
  readonly progress: Progress.Progress
}

export interface Edited extends FileHistory.FileHistory {
  readonly lessons: number
}

export interface State {
  /** Calls observed. Equal ones of a turn are one. */
  readonly calls: number
  readonly turn: number
  /** The last call, and those of its turn before it, at most {@link maxParallel}. */
  readonly last: number
  readonly inTurn: ReadonlyArray<number>
  /** Calls so far that brought something new; of these, that told it; and others after which something goes on. */
  readonly news: number
  readonly lessons: number
  readonly stirs: number
  /** Calls that did something that was not done before, and without an error. */
  readonly deeds: number
  /** Calls in a row without news, in parts where there was a little. */
  readonly stale: number
  /** Thoughts in a row, with nothing done between. */
  readonly thoughts: number
  /** Calls not run since the last lesson. */
  readonly refusals: number
  /** The turn of the last of them: those of one turn are one. */
  readonly refusedIn: number
  readonly seen: Memory.Memory<Seen>
  /** A call that was made before has made something, and its name is among them. */
  readonly bred: boolean
  /** Words, lines and numbers that were met, and the words that each tool was asked about. */
  readonly known: WordSet.WordSet
  readonly acted: Acts.Acts
  readonly tools: Memory.Memory<Tool>
  readonly troubles: Memory.Memory<Trouble>
  readonly files: Memory.Memory<Edited>
  /** The most fruitless edits that any file has had. */
  readonly fruitless: number
  readonly cycle: Cycle.Cycle
  /** Files edited since the last check, at most {@link maxParallel}. */
  readonly unchecked: ReadonlyArray<number>
  /** Something other than an edit was called since the last one. */
  readonly looked: boolean
  /** The last call was a pause: what comes next waits for something, and so do the other calls of its turn. */
  readonly paused: boolean
  readonly turnPaused: boolean
}

/** Calls of one turn that are told apart, beside the last, and files edited between two checks. */
export const maxParallel = 32

/** Rows of the memory of tools: one that was not called in the last 128 calls is forgotten. */
const maxTools = 16

/** Rows of the memory of errors: one that is not among the last 128 that were met is forgotten. */
const maxTroubles = 16

/** `rows`: of what is remembered of calls and files. */
export const initial = (rows: number): State => ({
  calls: 0,
  turn: -1,
  last: 0,
  inTurn: [],
  news: 0,
  lessons: 0,
  stirs: 0,
  deeds: 0,
  stale: 0,
  thoughts: 0,
  refusals: 0,
  refusedIn: -1,
  seen: Memory.make(rows),
  bred: false,
  known: WordSet.none(),
  acted: [],
  tools: Memory.make(maxTools),
  troubles: Memory.make(Math.min(rows, maxTroubles)),
  files: Memory.make(rows),
  fruitless: 0,
  cycle: Cycle.none(),
  unchecked: [],
  looked: true,
  paused: false,
  turnPaused: false
})

// -----------------------------------------------------------------------------
// Before a call
// -----------------------------------------------------------------------------

/** A call as it is looked up: what is expected of it, going by those before it. */
export interface Expected {
  /** Of its tool, of itself, and of its arguments. */
  readonly toolId: number
  readonly id: number
  readonly args: Fingerprint.OfArguments
  readonly tool: Tool | undefined
  readonly seen: Seen | undefined
  readonly near: Asking.Look
  readonly subject: Asking.Subject
}

/** `identity`: the arguments, or what the host says of them, as an {@link Identity}. */
export const expected = (state: State, tool: string, identity: unknown): Expected => {
  // Reading may throw: a getter, a proxy.
  lastFound = undefined
  const toolId = Nature.idOf(tool)
  const isExact = identity instanceof Identity
  const args = Fingerprint.ofArguments(isExact ? identity.value : identity)
  const id = Fingerprint.both(toolId, isExact ? identity.hash : args.hash)
  const seen = Memory.get(state.seen, id)
  const known = Memory.get(state.tools, toolId)
  const near = Asking.look(known?.forms ?? Asking.noForms, args)
  const subject = seen === undefined ? Asking.subjectOf(near, state.known, toolId, args, state.bred) : "known"
  lastFound = { toolId, id, args, tool: known, seen, near, subject, of: state, name: tool, identity }
  return lastFound
}

/** The same of a call that has ended: mostly it was the last that was looked up. It is not to change meanwhile. */
export const expectedAgain = (state: State, tool: string, identity: unknown): Expected => {
  const last = lastFound
  const isLast = last?.identity === identity && last?.of === state && last.name === tool
  const found = isLast ? last : expected(state, tool, identity)
  lastFound = undefined
  return found
}

let lastFound: Found | undefined

/** What was expected, of which call, and in which state. */
interface Found extends Expected {
  readonly of: State
  readonly name: string
  readonly identity: unknown
}

/** Its twin of the same turn was there before. */
export const isTwin = (state: State, turn: number, { id }: Expected): boolean =>
  turn === state.turn && (state.last === id || state.inTurn.includes(id))

/** How it went wrong, or one like it did; 0 if none did. */
const troubleOf = ({ seen, near }: Expected): number =>
  seen === undefined ? Asking.troubleOf(near) : seen.trouble

/** How often that was. */
export const troubled = (state: State, call: Expected): number => timesOf(state, troubleOf(call))

const timesOf = (state: State, trouble: number): number =>
  trouble === 0 ? 0 : (Memory.get(state.troubles, trouble)?.times ?? 0)

/** It was not run. Whatever the tool is asked next may go better: where it had `most` in a row, it has one more chance. */
export const refused = (
  state: State,
  turn: number,
  call: Expected,
  most: { readonly findings: number; readonly failures: number }
): State => {
  const { toolId, tool } = call
  const key = troubleOf(call)
  const row = oneLess(tool?.row, most.findings)
  const trouble = oneLess(Memory.get(state.troubles, key), most.failures)
  return {
    ...state,
    refusals: state.refusals + (state.refusedIn === turn ? 0 : 1),
    refusedIn: turn,
    tools:
      tool === undefined || row === tool.row
        ? state.tools
        : Memory.set(state.tools, toolId, { calls: tool.calls, forms: tool.forms, row }),
    troubles: trouble === undefined ? state.troubles : Memory.set(state.troubles, key, trouble)
  }
}

const oneLess = <A extends { readonly times: number }>(counted: A | undefined, most: number): A | undefined =>
  counted === undefined || counted.times < most ? counted : { ...counted, times: counted.times - 1 }
