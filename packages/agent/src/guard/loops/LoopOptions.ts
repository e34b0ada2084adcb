/**
 * What a loop detector is set to: how often is too often, per pattern and per tool. Checked when it is made.
 *
 * A {@link Ladder} says at which count the model is told (`nudge`), and from which the call does not run (`block`).
 * Counts are of what has already happened: with `block: 3` the fourth identical call does not run.
 */
import * as Check from "@outlast/resilience/Options"
import * as LoopVerdict from "./LoopVerdict.ts"
import type { ToolNature } from "./ToolNature.ts"

/**
 * What evidence may do.
 *
 * - `strict`: strict evidence blocks and stops, soft evidence only tells the model. Strict is the same call with the same
 *   outcome (`identical`, `poll`), whole laps of the same calls (`cycle`), and an answer that repeats itself (`text`).
 * - `soft`: soft evidence blocks, too, at twice its count.
 * - `tell`: all evidence only tells the model.
 */
export type Mode = "strict" | "soft" | "tell"

export interface Ladder {
  /** From this count the model is told. At most `block`; equal to it: not told before. */
  readonly nudge: number
  /**
   * From this count the call does not run. Where the {@link Mode} lets the evidence only tell, the model is told again
   * at this count and its multiples.
   */
  readonly block: number
}

export interface ToolOptions {
  /** What kind of tool it is. Default: told by its name. */
  readonly nature?: ToolNature | undefined
  /** Its own ladder for calls whose outcome is known. Default, and of what is not given: that of its nature, see {@link Input}. */
  readonly same?: Partial<Ladder> | undefined
  /**
   * What makes two calls of it the same, as JSON: texts, numbers, lists and plain objects, whose order of fields does not
   * count, and what has a `toJSON`. It is compared exactly, times and ids too: two calls differ where it differs. At most
   * 100,000 values. A promise, a map or an instance of another class is an `InvalidOption` when the tool is called.
   * Default: the arguments without their volatile parts.
   */
  readonly identity?: ((args: unknown) => unknown) | undefined
}

export interface LoopOptions {
  readonly mode: Mode
  /** Times that the same call of a tool that acts had a known outcome, nothing new in between. */
  readonly acts: Ladder
  /** The same of a tool that only reads, and of a call that failed for now: refused, timed out. */
  readonly reads: Ladder
  /** The same of a call that waits for something (pending, queued), and of one that goes on by itself. */
  readonly waits: Ladder
  /** Rounds of a cycle of two to sixteen calls. One that waits is due the rounds of `waits`. */
  readonly cycle: Ladder
  /**
   * Times that a tool failed with the same words, whatever its arguments: soft evidence. Times that one call failed so,
   * with nothing done in between: strict evidence, of the pattern `identical`.
   */
  readonly failures: Ladder
  /** Times that a tool found the same nothing, or the same, with other arguments. */
  readonly findings: Ladder
  /** Times that the same check failed in the same way after something was changed. */
  readonly checks: Ladder
  /** Edits of one file that got nowhere. */
  readonly edits: Ladder
  /** Calls in a row, of whatever kind, that brought nothing new. */
  readonly stale: Ladder
  /** Calls that were not run, with nothing learned since, before the run stops. */
  readonly refusals: number
  /**
   * Times that the end of an answer may repeat, within its last 16,000 characters. A part of less than 24 characters
   * counts by what it fills; of less than 2,000, where it differs in its numbers or has no word.
   */
  readonly text: Ladder
  /**
   * Rows of what is remembered of calls and of files, of eight entries each; a power of two, at most 4,096. 32: the last
   * 256 calls. Of tools and errors the last 128 are remembered.
   */
  readonly rows: number
  /** What the model is told of a finding. Default: `LoopDetector.wording`, in English. */
  readonly wording: LoopVerdict.Wording
  /** By the tool's name. */
  readonly tools: Readonly<Record<string, ToolOptions>>
}

/** OpenRouter's guard blocks at 3 and stops at 6, OpenHands' at 4 equal results, 3 equal errors and 6 alternations. */
export const defaults: LoopOptions = {
  mode: "strict",
  acts: { nudge: 2, block: 3 },
  reads: { nudge: 3, block: 5 },
  waits: { nudge: 5, block: 8 },
  cycle: { nudge: 2, block: 2.5 },
  failures: { nudge: 4, block: 6 },
  findings: { nudge: 4, block: 6 },
  checks: { nudge: 3, block: 4 },
  edits: { nudge: 3, block: 4 },
  stale: { nudge: 8, block: 12 },
  refusals: 3,
  text: { nudge: 4, block: 6 },
  rows: 32,
  wording: LoopVerdict.wording,
  tools: {}
}

type Ladders = {
  readonly [K in keyof LoopOptions as LoopOptions[K] extends Ladder ? K : never]: Partial<Ladder>
}

/**
 * What may be given: a ladder in part, too. The other number is then the usual one, unless it must give way: a `nudge`
 * above the usual `block` is a `block` too, a `block` below the usual `nudge` is a `nudge` too, and nobody is told
 * before.
 */
export type Input = Partial<Ladders> & Partial<Omit<LoopOptions, keyof Ladders>>

/** The options with the defaults. Throws an `InvalidOption` for an unknown field and for a value that is not allowed. */
export const make = (given: Input | Mode = {}): LoopOptions => {
  const input: Input = typeof given === "string" ? { mode: given } : given
  Check.fields<Input>(module, input, checks)
  const ladder = (name: keyof Ladders): Ladder => ladderOf(name, defaults[name], input[name])
  const { refusals = defaults.refusals, rows = defaults.rows, tools = defaults.tools } = input
  Check.check((rows & (rows - 1)) === 0, module, "rows", rows, "a power of two")
  for (const [name, { same }] of Object.entries(tools)) ladderOf(`tools.${name}.same`, defaults.waits, same)
  return {
    mode: input.mode ?? defaults.mode,
    acts: ladder("acts"),
    reads: ladder("reads"),
    waits: ladder("waits"),
    cycle: ladder("cycle"),
    failures: ladder("failures"),
    findings: ladder("findings"),
    checks: ladder("checks"),
    edits: ladder("edits"),
    stale: ladder("stale"),
    refusals,
    text: ladder("text"),
    rows,
    wording: input.wording ?? defaults.wording,
    tools
  }
}

const module = "LoopDetector"

const { is } = Check

const ladderCheck = is.object<Partial<Ladder>>({
  nudge: is.number({ min: 1 }),
  block: is.number({ min: 1 })
})

const checks: Check.Checks<Input> = {
  mode: is.oneOf("strict", "soft", "tell"),
  acts: ladderCheck,
  reads: ladderCheck,
  waits: ladderCheck,
  cycle: ladderCheck,
  failures: ladderCheck,
  findings: ladderCheck,
  checks: ladderCheck,
  edits: ladderCheck,
  stale: ladderCheck,
  refusals: is.integer({ min: 1 }),
  text: ladderCheck,
  rows: is.integer({ min: 1, max: 4_096 }),
  wording: is.fn("(step, evidence) => string"),
  tools: is.record(
    is.object<ToolOptions>({
      nature: is.oneOf("read", "act", "poke", "thought", "pause", "advance"),
      same: ladderCheck,
      identity: is.fn("(args) => unknown")
    }),
    "a record of options by the tool's name"
  )
}

/** What is not given gives way to what is. Whether it is accepted depends on nothing else than what is given. */
export const ladderOf = (name: string, usual: Ladder, given: Partial<Ladder> = {}): Ladder => {
  const { nudge, block } = given
  if (nudge !== undefined) {
    const most = block ?? nudge
    Check.check(nudge <= most, module, `${name}.nudge`, nudge, `at most ${name}.block, which is ${most}`)
  }
  return {
    nudge: nudge ?? Math.min(usual.nudge, block ?? usual.block),
    block: block ?? Math.max(usual.block, nudge ?? 0)
  }
}
