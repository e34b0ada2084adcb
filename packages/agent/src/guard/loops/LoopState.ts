/**
 * State of a loop detector: a plain JSON value of bounded size, described by {@link State}.
 *
 * Calls of one turn run concurrently. They stay in `running` until the next turn begins and are then counted
 * together, so the order in which they end does not matter. Pure.
 */
import { Schema } from "effect"
import * as Fingerprint from "./Fingerprint.ts"

/** A completed call as hashes; see `Fingerprint`. */
export const Done = Schema.Struct({
  /** Hash of the tool and its arguments. */
  id: Schema.Number,
  tool: Schema.Number,
  ...Fingerprint.Outcome.fields,
  failed: Schema.Boolean,
  /** True when the tool is known to change nothing. */
  reads: Schema.Boolean,
  /** Milliseconds that the call lets pass, e.g. `sleep 60`. */
  pause: Schema.Number,
  /** True for a failure that may pass by itself. */
  mayPass: Schema.Boolean
})
export type Done = typeof Done.Type

/** History of one call. */
const Seen = Schema.Struct({
  id: Schema.Number,
  outcome: Schema.Number,
  noise: Schema.Number,
  /** Consecutive calls with this outcome. Halved by each later turn with news elsewhere. */
  same: Schema.Number,
  /** Consecutive failures with this outcome. Halved by each later turn in which something else was done. */
  failures: Schema.Number,
  /** Number of times that the outcome changed. */
  changes: Schema.Number,
  /** True when time passes between outcomes: by a pause, or because a volatile value changed. */
  waits: Schema.Boolean,
  /** Milliseconds since the first of these calls, and before the outcome last changed. */
  waited: Schema.Number,
  usual: Schema.Number,
  at: Schema.Number,
  /** Values of the state's counters at the last call. */
  paused: Schema.Number,
  news: Schema.Number,
  deeds: Schema.Number
})
export type Seen = typeof Seen.Type

/** An outcome of recent calls, independent of their arguments. */
const Known = Schema.Struct({
  /** The last tool with this outcome. */
  tool: Schema.Number,
  outcome: Schema.Number,
  words: Schema.Array(Schema.Number),
  failed: Schema.Boolean,
  times: Schema.Number
})
export type Known = typeof Known.Type

/** Number of the turn, then id, outcome and shape of the call, and the pauses until then. */
const Past = Schema.Tuple([Schema.Number, Schema.Number, Schema.Number, Schema.Number, Schema.Number])

/** Schema of a state, to store it as JSON and continue later. */
export const State = Schema.Struct({
  /** Number of calls. Equal calls of one turn count once. */
  calls: Schema.Number,
  /** Number of turns with calls. */
  turns: Schema.Number,
  /** Turn of the calls in `running`. */
  turn: Schema.Number,
  /** Calls of the current turn, sorted by id. */
  running: Schema.Array(Done),
  /** Milliseconds of all pauses. */
  paused: Schema.Number,
  /** Number of turns since the last news, without waits. */
  stale: Schema.Number,
  /** Number of turns that brought something new, and of turns in which something new was done. */
  news: Schema.Number,
  deeds: Schema.Number,
  /** All rows, oldest first. */
  seen: Schema.Array(Seen),
  known: Schema.Array(Known),
  past: Schema.Array(Past),
  /** Turns with a refused call since the last news, and the last of these turns. */
  refusals: Schema.Number,
  refusedIn: Schema.Number
})
export type State = typeof State.Type

/** Maximum number of rows. Together at most 8 KB as JSON. */
const maxSeen = 24
const maxKnown = 8
const maxPast = 24
/** Maximum number of calls that are counted together. */
const maxRunning = 12

export const initial: State = {
  calls: 0,
  turns: 0,
  turn: -1,
  running: [],
  paused: 0,
  stale: 0,
  news: 0,
  deeds: 0,
  seen: [],
  known: [],
  past: [],
  refusals: 0,
  refusedIn: -1
}

/** Records a completed call. Equal calls of one turn are merged. */
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

/** One of two equal calls of a turn, independent of their order. */
const merged = (a: Done, b: Done): Done => (JSON.stringify(a) < JSON.stringify(b) ? b : a)

/** Records a pause of some milliseconds. */
export const pause = (state: State, turn: number, millis: number): State => {
  const before = turn === state.turn ? state : { ...settled(state), turn }
  return { ...before, paused: before.paused + millis }
}

/** Returns the state with the calls of the last turn counted. */
export const settled = (state: State): State => {
  const { running } = state
  if (running.length === 0) return state
  let { known } = state
  const paused = state.paused + Math.max(...running.map(({ pause }) => pause))
  let isNews = false
  let isDeed = false
  const before = running.map(({ id }) => seenOf(state, id))
  for (const [i, done] of running.entries()) {
    const seen = before[i]
    const place = placeOf(known, done)
    const isSame = seen?.outcome === done.outcome
    // After a deed or a pause, the same outcome is that of another attempt.
    const isAnew = seen !== undefined && (state.deeds > seen.deeds || (!done.failed && paused > seen.paused))
    // A generic answer such as `ok` may belong to something new.
    if (seen === undefined ? place < 0 || !(done.failed || done.reads) : !isSame) isNews = true
    if (seen === undefined && !done.reads && !done.failed) isDeed = true
    known = knowing(known, place, done, seen !== undefined, isAnew)
  }
  const news = state.news + (isNews ? 1 : 0)
  const deeds = state.deeds + (isDeed ? 1 : 0)
  const turns = state.turns + 1
  const others = before.some((row) => row !== undefined)
    ? state.seen.filter((row) => !before.includes(row))
    : state.seen
  const seen = others.slice(running.length - maxSeen)
  const past = state.past.slice(running.length - maxPast)
  for (const [i, { id, outcome, noise, shape, failed, pause, mayPass, at }] of running.entries()) {
    const old = before[i]
    const same = old?.outcome === outcome ? old : undefined
    const passed =
      old !== undefined && at > old.at && old.at > 0 ? at - old.at : paused - (old?.paused ?? paused)
    seen.push({
      id,
      outcome,
      noise,
      same: 1 + (same === undefined ? 0 : halved(same.same, state.news - same.news)),
      failures: failed ? 1 + (same === undefined ? 0 : halved(same.failures, state.deeds - same.deeds)) : 0,
      changes: old === undefined ? 0 : old.changes + (same === undefined ? 1 : 0),
      waits: mayPass || pause > 0 || (same !== undefined && (same.noise !== noise || paused > same.paused)),
      waited: same === undefined ? 0 : same.waited + passed,
      usual: old === undefined ? 0 : same === undefined ? Math.max(old.usual, old.waited) : old.usual,
      at,
      paused,
      news,
      deeds
    })
    past.push([turns, id, outcome, shape, paused])
  }
  const mayPass = paused > state.paused || running.some((done) => done.mayPass)
  return {
    ...state,
    turns,
    running: [],
    paused,
    stale: isNews ? 0 : state.stale + (mayPass ? 0 : 1),
    news,
    deeds,
    seen,
    known,
    past,
    refusals: isNews ? 0 : state.refusals
  }
}

/** A count after a number of halvings; 0 after more than 8. */
const halved = (count: number, times: number): number => (times > 8 ? 0 : count / 2 ** times)

const seenOf = ({ seen }: State, id: number): Seen | undefined => seen.find((row) => row.id === id)

/** Minimum share of common words for two failures to be the same. */
const alike = 0.6

/** Decrease of a known outcome when another one comes, and increase when another call had it. */
const fade = 0.5
const gain = 0.25

/** Index of the known outcome that a call repeats, or -1. */
const placeOf = (known: ReadonlyArray<Known>, { outcome, keys, words, failed }: Done): number =>
  known.findLastIndex(
    (row) =>
      row.failed === failed &&
      (row.outcome === outcome + keys ||
        (failed && words.length > 0 && Fingerprint.similarity(row.words, words) >= alike))
  )

const knowing = (
  known: ReadonlyArray<Known>,
  place: number,
  done: Done,
  isSeen: boolean,
  isWeak: boolean
): ReadonlyArray<Known> => {
  const before = known[place]
  const { tool, words, failed } = done
  const outcome = done.outcome + done.keys
  // A short answer to another question is weak evidence.
  const isSame = before?.outcome === outcome && done.pause === 0 && (isSeen || done.rich)
  const tells = !isWeak && (failed || isSame)
  const times = before === undefined ? 1 : before.times + (tells ? 1 : gain)
  const others =
    before === undefined
      ? known.filter((row) => row.times > fade).map((row) => ({ ...row, times: row.times - fade }))
      : known.filter((row) => row !== before)
  return [...others.slice(1 - maxKnown), { tool, outcome, words, failed, times }]
}

/** Returns the row of a call with its counts halved by later news. `state` must be settled. */
export const expected = (state: State, id: number): Seen | undefined => {
  const seen = seenOf(state, id)
  if (seen === undefined) return undefined
  const same = halved(seen.same, state.news - seen.news)
  return { ...seen, same, failures: halved(seen.failures, state.deeds - seen.deeds) }
}

/** The most frequent outcome of a tool. */
export const finding = ({ known }: State, tool: number): Known | undefined => {
  let most: Known | undefined
  for (const row of known) if (row.tool === tool && row.times > (most?.times ?? 0)) most = row
  return most
}

export interface Cycle {
  /** Calls of one lap. */
  readonly period: number
  readonly laps: number
  /** True when a pause is part of a lap. */
  readonly waits: boolean
}

/** The cycle of at least `atLeast` laps that a call would continue. With `inShape`, outcomes may differ in numbers. */
export const cycle = ({ past }: State, id: number, atLeast: number, inShape = false): Cycle | undefined => {
  const { length } = past
  const isEqual = (i: number, j: number): boolean => {
    const [a, b] = [past[i], past[j]]
    return a !== undefined && b !== undefined && a[1] === b[1] && (inShape ? a[3] === b[3] : a[2] === b[2])
  }
  // A repeated single call is not a cycle.
  if (isEqual(length - 1, length - 2)) return undefined
  for (let period = 2; period * atLeast <= length; period++) {
    let equal = 0
    while (isEqual(length - 1 - equal, length - 1 - equal - period)) equal++
    const laps = (equal + period) / period
    if (laps < atLeast) continue
    // Any call of the turn that comes next in the cycle.
    const [turn] = past[length - period] ?? []
    const waits = past[length - 1]?.[4] !== past[length - 1 - period]?.[4]
    for (let i = length - period; past[i]?.[0] === turn; i++) {
      if (past[i]?.[1] === id) return { period, laps, waits }
    }
  }
  return undefined
}

/** Records a call that did not run. A tool that had an outcome `most` times gets one more chance. */
export const refused = (state: State, turn: number, tool: number, most: (row: Known) => number): State => {
  const before = turn === state.turn ? state : { ...settled(state), turn }
  return {
    ...before,
    refusals: before.refusals + (before.refusedIn === turn ? 0 : 1),
    refusedIn: turn,
    known: before.known.map((row) =>
      row.tool === tool && row.times >= most(row) ? { ...row, times: most(row) - 1 } : row
    )
  }
}
