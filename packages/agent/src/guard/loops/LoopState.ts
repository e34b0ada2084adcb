/**
 * What a loop detector remembers of a run: a plain JSON value of bounded size, described by {@link State}.
 *
 * The calls of a turn run at the same time. They are kept in `running` until the next turn begins and are then taken in
 * together, so the order in which they end does not count. Pure.
 */
import { Schema } from "effect"
import * as Fingerprint from "./Fingerprint.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** A call that ran, in hashes; see `Fingerprint`. */
const Done = Schema.Struct({
  /** Tool and arguments. */
  id: Schema.Number,
  tool: Schema.Number,
  frame: Schema.Number,
  outcome: Schema.Number,
  noise: Schema.Number,
  shape: Schema.Number,
  words: Schema.Array(Schema.Number),
  failed: Schema.Boolean,
  /** The tool is known to change nothing. */
  reads: Schema.Boolean,
  /** Its arguments let time pass. */
  waits: Schema.Boolean
})
export type Done = typeof Done.Type

/** What is known of one call. */
const Seen = Schema.Struct({
  id: Schema.Number,
  outcome: Schema.Number,
  noise: Schema.Number,
  /** Times in a row that it had this outcome; halved by each later turn with news elsewhere. */
  same: Schema.Number,
  /** Times in a row that it failed with this outcome; halved by each later turn in which something else was done. */
  failures: Schema.Number,
  /** Times that its outcome changed. */
  changes: Schema.Number,
  /** Time passes between its outcomes: time was let pass, or a volatile value changed. */
  waits: Schema.Boolean,
  /** Counters of the state when it ran last. */
  news: Schema.Number,
  deeds: Schema.Number
})
type Seen = typeof Seen.Type

/** An outcome of the last calls, whatever they asked. */
const Known = Schema.Struct({
  /** The tool that had it last. */
  tool: Schema.Number,
  frame: Schema.Number,
  outcome: Schema.Number,
  shape: Schema.Number,
  words: Schema.Array(Schema.Number),
  failed: Schema.Boolean,
  times: Schema.Number
})
export type Known = typeof Known.Type

/** Number of the turn, and the call, outcome and shape of a call in it. */
const Past = Schema.Tuple([Schema.Number, Schema.Number, Schema.Number, Schema.Number])

/** Encodes a state as JSON, to go on with it later. */
export const State = Schema.Struct({
  /** Calls so far; equal ones of a turn are one. */
  calls: Schema.Number,
  /** Turns with calls so far. */
  turns: Schema.Number,
  /** The turn of the calls in `running`. */
  turn: Schema.Number,
  /** By id. */
  running: Schema.Array(Done),
  /** Time was let pass since the calls that are counted. */
  paused: Schema.Boolean,
  /** Turns that brought something new, and turns in which something new was done. */
  news: Schema.Number,
  deeds: Schema.Number,
  /** Oldest first. */
  seen: Schema.Array(Seen),
  known: Schema.Array(Known),
  past: Schema.Array(Past),
  /** Turns with a refused call since something new came, and the last of these turns. */
  refusals: Schema.Number,
  refusedIn: Schema.Number
})
export type State = typeof State.Type

/** Rows that are kept: 8 KB as JSON. */
const maxSeen = 24
const maxKnown = 8
const maxPast = 24
/** Calls of one turn that are taken in together. */
const maxRunning = 12

export const initial: State = {
  calls: 0,
  turns: 0,
  turn: -1,
  running: [],
  paused: false,
  news: 0,
  deeds: 0,
  seen: [],
  known: [],
  past: [],
  refusals: 0,
  refusedIn: -1
}

// -----------------------------------------------------------------------------
// After a call
// -----------------------------------------------------------------------------

/** Takes in a call that ran. Equal calls of a turn are one. */
export const add = (state: State, turn: number, done: Done): State => {
  const twin = turn === state.turn ? state.running.find(({ id }) => id === done.id) : undefined
  if (twin !== undefined) {
    const both = merged(twin, done)
    return { ...state, running: state.running.map((other) => (other === twin ? both : other)) }
  }
  const isFull = state.running.length >= maxRunning
  const before = turn === state.turn && !isFull ? state : settled(state)
  const running = before.running.length === 0 ? [done] : [...before.running, done].sort((a, b) => a.id - b.id)
  return { ...before, calls: before.calls + 1, turn, running }
}

/** Two equal calls of a turn as one, whichever ended first. */
const merged = (a: Done, b: Done): Done => ({
  ...a,
  outcome: Math.max(a.outcome, b.outcome),
  noise: Math.max(a.noise, b.noise),
  shape: Math.max(a.shape, b.shape),
  words: [...new Set([...a.words, ...b.words])].sort((x, y) => x - y).slice(0, Fingerprint.maxWords),
  failed: a.failed || b.failed
})

/** Takes in that time was let pass. */
export const pause = (state: State, turn: number): State =>
  turn !== state.turn
    ? { ...settled(state), turn, paused: true }
    : state.paused
      ? state
      : { ...state, paused: true }

/** The state with the calls of the last turn counted. */
export const settled = (state: State): State => {
  const { running } = state
  if (running.length === 0) return state
  const { calls } = state
  let { known } = state
  let isNews = false
  let isDeed = false
  const before = running.map(({ id }) => seenOf(state, id))
  for (const [i, done] of running.entries()) {
    const seen = before[i]
    const place = placeOf(known, done)
    const isSame = seen?.outcome === done.outcome
    // An answer such as `ok` may be that of something new that was done.
    if (seen === undefined ? place < 0 || !(done.failed || done.reads) : !isSame) isNews = true
    if (seen === undefined && !done.reads && !done.failed) isDeed = true
    known = knowing(known, place, done, seen !== undefined, state.paused)
  }
  const news = state.news + (isNews ? 1 : 0)
  const deeds = state.deeds + (isDeed ? 1 : 0)
  const turns = state.turns + 1
  const seen = rest(state.seen, maxSeen - running.length, before)
  const past = rest(state.past, maxPast - running.length, none)
  for (const [i, { id, outcome, noise, shape, failed, waits }] of running.entries()) {
    const old = before[i]
    const same = old?.outcome === outcome ? old : undefined
    seen.push({
      id,
      outcome,
      noise,
      same: 1 + (same === undefined ? 0 : halved(same.same, state.news - same.news)),
      failures: failed ? 1 + (same === undefined ? 0 : halved(same.failures, state.deeds - same.deeds)) : 0,
      changes: old === undefined ? 0 : old.changes + (same === undefined ? 1 : 0),
      waits: waits || state.paused || (same !== undefined && same.noise !== noise),
      news,
      deeds
    })
    past.push([turns, id, outcome, shape])
  }
  const { turn, refusedIn } = state
  const refusals = isNews ? 0 : state.refusals
  return {
    calls,
    turns,
    turn,
    running: none,
    paused: false,
    news,
    deeds,
    seen,
    known,
    past,
    refusals,
    refusedIn
  }
}

const none: ReadonlyArray<never> = []

/** The last rows, without some of them. */
const rest = <A>(rows: ReadonlyArray<A>, most: number, without: ReadonlyArray<A | undefined>): Array<A> => {
  const isAny = without.some((row) => row !== undefined)
  const kept = isAny ? rows.filter((row) => !without.includes(row)) : rows
  return kept.slice(Math.max(0, kept.length - most))
}

/** What is left of a count after halvings; nothing after many. */
const halved = (count: number, times: number): number => (times > 8 ? 0 : count / 2 ** times)

const seenOf = ({ seen }: State, id: number): Seen | undefined => seen.find((row) => row.id === id)

/** Share of words that two failures have in common to be the same one. */
const alike = 0.6

/** What a known outcome loses when another one comes, and what it gains when another call had it. */
const fade = 0.5
const gain = 0.25

/** Index of the known outcome that a call had again, or -1. */
const placeOf = (known: ReadonlyArray<Known>, { outcome, shape, frame, words, failed }: Done): number =>
  known.findLastIndex(
    (row) =>
      row.failed === failed &&
      (row.outcome === outcome ||
        (words.length > 0 &&
          ((row.shape === shape && row.frame === frame) ||
            (failed && Fingerprint.similarity(row.words, words) >= alike))))
  )

const knowing = (
  known: ReadonlyArray<Known>,
  place: number,
  { tool, frame, outcome, shape, words, failed, waits }: Done,
  isSeen: boolean,
  paused: boolean
): ReadonlyArray<Known> => {
  const before = known[place]
  // A short answer to another question says little.
  const tells =
    failed ||
    (before?.outcome === outcome &&
      !waits &&
      !paused &&
      (isSeen || before.frame === frame || words.length === Fingerprint.maxWords))
  const times = before === undefined ? 1 : before.times + (tells ? 1 : gain)
  const next: Array<Known> = []
  for (const row of known) {
    if (before !== undefined && row !== before) next.push(row)
    if (before === undefined && row.times > fade) next.push(faded(row))
  }
  if (next.length >= maxKnown) next.shift()
  next.push({ tool, frame, outcome, shape, words, failed, times })
  return next
}

const faded = ({ tool, frame, outcome, shape, words, failed, times }: Known): Known => ({
  tool,
  frame,
  outcome,
  shape,
  words,
  failed,
  times: times - fade
})

// -----------------------------------------------------------------------------
// Before a call
// -----------------------------------------------------------------------------

/** Returns the row of a call with its counts halved by later news. `state` is settled. */
export const expected = (state: State, id: number): Seen | undefined => {
  const seen = seenOf(state, id)
  if (seen === undefined) return undefined
  const same = halved(seen.same, state.news - seen.news)
  return { ...seen, same, failures: halved(seen.failures, state.deeds - seen.deeds) }
}

/** The outcome that a tool had most often. */
export const finding = ({ known }: State, tool: number): Known | undefined => {
  let most: Known | undefined
  for (const row of known) if (row.tool === tool && row.times > (most?.times ?? 0)) most = row
  return most
}

export interface Cycle {
  /** Calls of one lap. */
  readonly period: number
  readonly laps: number
}

/** The cycle of at least so many laps that a call would go on with. With `inShape` outcomes may differ in their numbers. */
export const cycle = ({ past }: State, id: number, atLeast: number, inShape = false): Cycle | undefined => {
  const { length } = past
  const isEqual = (i: number, j: number): boolean => {
    const [a, b] = [past[i], past[j]]
    return a !== undefined && b !== undefined && a[1] === b[1] && (inShape ? a[3] === b[3] : a[2] === b[2])
  }
  // The same call again and again is no cycle.
  if (isEqual(length - 1, length - 2)) return undefined
  for (let period = 2; period * atLeast <= length; period++) {
    let equal = 0
    while (isEqual(length - 1 - equal, length - 1 - equal - period)) equal++
    const laps = (equal + period) / period
    if (laps < atLeast) continue
    // Any call of the turn that comes next.
    const turn = past[length - period]?.[0]
    for (let i = length - period; past[i]?.[0] === turn; i++) if (past[i]?.[1] === id) return { period, laps }
  }
  return undefined
}

/** Takes in that a call was not run. A tool that had an outcome `most` times has one more chance. */
export const refused = (state: State, turn: number, tool: number, most: (row: Known) => number): State => {
  const before = turn === state.turn ? state : { ...settled(state), turn }
  return {
    ...before,
    refusals: before.refusals + (before.refusedIn === turn ? 0 : 1),
    refusedIn: turn,
    known: before.known.map((row) =>
      row.tool === tool && row.times >= most(row) ? { ...row, times: row.times - 1 } : row
    )
  }
}
