/** What the tests of the loop detector's parts have in common. */
import { assert } from "@effect/vitest"
import { LoopDetector } from "@outlast/agent"
import * as Fingerprint from "@outlast/agent/guard/loops/Fingerprint"
import * as Gain from "@outlast/agent/guard/loops/Gain"
import * as ToolNature from "@outlast/agent/guard/loops/ToolNature"
import * as WordSet from "@outlast/agent/guard/loops/WordSet"

export interface Reading {
  readonly args?: unknown
  readonly known?: WordSet.WordSet
  readonly tool?: number
  readonly advances?: boolean
  readonly looks?: boolean
  readonly failed?: boolean
}

/** A result, read against arguments and what was met. */
export const read = (result: unknown, reading: Reading = {}): Fingerprint.OfResult => {
  const { args = {}, known = WordSet.none(), tool = 1, advances = false } = reading
  const { looks = false, failed = false } = reading
  const asked = { toolId: tool, args: Fingerprint.ofArguments(args) }
  return Fingerprint.ofResult(result, asked, known, { advances, looks, failed })
}

/** What a result is said to bring, as a value. */
export const factsOf = (result: Fingerprint.OfResult) => ({
  hash: result.hash,
  letters: result.letters,
  all: result.all,
  words: result.words,
  freshWords: result.freshWords,
  freshNumbers: result.freshNumbers,
  freshAmounts: result.freshAmounts,
  freshIds: result.freshIds,
  freshVolatile: result.freshVolatile,
  made: [...result.made.subarray(0, result.madeKept)],
  freshLines: result.freshLines,
  lines: result.lines,
  fresh: [...result.fresh.subarray(0, result.freshKept)],
  numbers: result.numbers,
  counted: result.counted,
  numbersInAll: result.numbersInAll,
  place: result.place,
  places: result.places,
  troubled: result.troubled,
  trouble: result.trouble,
  beginsTroubled: result.beginsTroubled,
  undone: result.undone,
  taken: result.taken,
  waiting: result.waiting,
  pending: result.pending,
  negative: result.negative,
  emptyList: result.emptyList,
  hasEmptyList: result.hasEmptyList
})

/** What is known when a result was met. */
export const met = (known: WordSet.WordSet, result: Fingerprint.OfResult): WordSet.WordSet =>
  WordSet.add(known, [...result.fresh.subarray(0, result.freshKept), result.hash])

export interface Told extends Partial<Omit<Gain.Ended, "earlier" | "result" | "known">> {
  readonly args?: unknown
  readonly result: unknown
  /** Results that other calls had. */
  readonly met?: ReadonlyArray<unknown>
  /** Results that the same call had, oldest first. */
  readonly earlier?: ReadonlyArray<unknown>
}

/** What a call brings, that was made as often as it has earlier results. */
export const gainOf = (told: Told): Gain.Gain => {
  const { args = {}, result, met: others = [], earlier: before = [], ...rest } = told
  const {
    nature = "read",
    subject = "known",
    failed = false,
    edit,
    paused = false,
    ago = 1,
    own = 1,
    stirred = true
  } = rest
  const about = {
    nature,
    subject,
    failed,
    edit,
    paused,
    ago,
    own,
    stirred,
    flaps: false,
    redone: 0,
    evaluates: rest.evaluates ?? false,
    searches: rest.searches ?? false
  }
  const reading = (known: WordSet.WordSet) => ({ args, known, advances: nature === "advance" })
  let known = WordSet.none()
  for (const other of others) known = met(known, read(other, reading(known)))
  let earlier: Gain.Earlier | undefined
  for (const text of before) {
    const seen = read(text, reading(known))
    const gain = Gain.of({ ...about, result: seen, known, earlier })
    earlier = { troubled: gain.troubled, letters: seen.letters, progress: gain.progress }
    known = met(known, seen)
  }
  return Gain.of({ ...about, result: read(result, reading(known)), known, earlier })
}

/** Whether a call lets time pass before it does what it does. */
export const pausesFirst = (tool: string, args: unknown): boolean =>
  ToolNature.waits(tool) || ToolNature.pausesFirst(ToolNature.commandFor(tool, args))

/** Numbers that look like chance, the same each time. */
export const random = (seed: number): ((below: number) => number) => {
  let x = seed | 0
  return (below) => {
    x = (Math.imul(x, 1_103_515_245) + 12_345) | 0
    return (x >>> 8) % below
  }
}

/** Words of letters that are all different, for a few million. */
const wordOf = (n: number): string => {
  let word = ""
  for (let rest = n + 26 ** 4; rest > 0; rest = Math.floor(rest / 26))
    word += String.fromCharCode(97 + (rest % 26))
  return `${word}x`
}

export const words = (from: number, count: number): string =>
  Array.from({ length: count }, (_, i) => wordOf(from + i) + (i % 12 === 11 ? "\n" : "")).join(" ")

/** Soft evidence blocks at twice its count: here at the counts that are the defaults. */
export const soft = {
  mode: "soft",
  failures: { block: 3 },
  findings: { block: 3 },
  checks: { block: 2 },
  edits: { block: 2 },
  stale: { block: 6 }
} as const satisfies LoopDetector.Options

const detector = LoopDetector.make(soft)

/** `turn`: default one of its own. */
type Step = Omit<LoopDetector.Observation, "turn"> & { readonly turn?: number }

export const ran = (tool: string, args: unknown, result: unknown, failed = false): Step => ({
  tool,
  arguments: args,
  result,
  failed
})

/** Index of the first call that would not have run. */
const stoppedAt = (steps: ReadonlyArray<Step>, of = detector): number | undefined => {
  let state = LoopDetector.initial(of)
  for (const [turn, step] of steps.entries()) {
    const { _tag } = LoopDetector.before(of, state, { turn, ...step })
    if (_tag === "Block" || _tag === "Stop") return turn
    state = LoopDetector.observe(of, state, { turn, ...step })
  }
  return undefined
}
export const rounds = (count: number, round: (i: number) => ReadonlyArray<Step>): ReadonlyArray<Step> =>
  Array.from({ length: count }, (_, i) => round(i)).flat()
/** At the latest before this call. */
export const isStopped = (steps: ReadonlyArray<Step>, by: number) => {
  const at = stoppedAt(steps)
  assert.isDefined(at)
  assert.isAtMost(at ?? Infinity, by)
}
export const runsOn = (steps: ReadonlyArray<Step>, of?: LoopDetector.LoopDetector) =>
  assert.isUndefined(stoppedAt(steps, of))
