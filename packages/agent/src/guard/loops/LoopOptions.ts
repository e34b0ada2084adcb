/**
 * What a loop detector is set to: how often is too often, per pattern and per tool. Checked when it is made.
 *
 * A {@link Ladder} says at which count the model is told (`nudge`), and from which the call does not run (`block`).
 * Counts are of what has already happened: with `block: 3` the fourth identical call does not run.
 */
import * as Check from "@outlast/resilience/Options"
import * as Kind from "../../options/Kind.ts"
import * as LoopVerdict from "./LoopVerdict.ts"
import type { ToolNature } from "./ToolNature.ts"

export interface Ladder {
  /** From this count the model is told. At most `block`; equal to it: never told. */
  readonly nudge: number
  /** From this count the call does not run. */
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
  /** Times that the same call of a tool that acts had a known outcome, nothing new in between. */
  readonly acts: Ladder
  /** The same of a tool that only reads, and of a call that failed for now: refused, timed out. */
  readonly reads: Ladder
  /** The same of a call that waits for something (pending, queued), and of one that goes on by itself. */
  readonly waits: Ladder
  /** Rounds of a cycle of two to sixteen calls. One that waits is due the rounds of `waits`. */
  readonly cycle: Ladder
  /** Times that a tool failed with the same words, whatever its arguments. */
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

const { is } = Check

/** Their order is checked where both numbers are known: {@link ladderOf}. */
const ladder = Kind.object<Partial<Ladder>>("{ nudge, block }", {
  nudge: is.number({ min: 1 }),
  block: is.number({ min: 1 })
})

const natures: ReadonlyArray<ToolNature> = ["read", "act", "poke", "thought", "pause", "advance"]

const tool = Kind.object<ToolOptions>("options such as { nature, same, identity }", {
  nature: is.oneOf(...natures),
  same: ladder,
  identity: is.fn("(arguments) => what makes two calls the same")
})

const checks: Check.Checks<Input> = {
  acts: ladder,
  reads: ladder,
  waits: ladder,
  cycle: ladder,
  failures: ladder,
  findings: ladder,
  checks: ladder,
  edits: ladder,
  stale: ladder,
  refusals: is.integer({ min: 1 }),
  text: ladder,
  rows: is.integer({ min: 1, max: 4_096 }),
  wording: is.fn("(step, finding) => text"),
  tools: is.record(tool, "options by the name of a tool")
}

/** The options with the defaults. Throws an `InvalidOption` for an option that is unknown or not allowed. */
export const make = (input: Input = {}): LoopOptions => {
  Check.fields(module, input, checks)
  const ladder = (name: keyof Ladders): Ladder => ladderOf(name, defaults[name], input[name])
  const { refusals = defaults.refusals, rows = defaults.rows, tools = defaults.tools } = input
  Check.check((rows & (rows - 1)) === 0, module, "rows", rows, "a power of two")
  for (const [name, { same }] of Object.entries(tools)) ladderOf(`tools.${name}.same`, defaults.waits, same)
  return {
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

/** What is not given gives way to what is. Whether it is accepted depends on nothing else than what is given. */
export const ladderOf = (name: string, usual: Ladder, given: Partial<Ladder> = {}): Ladder => {
  const { nudge, block } = given
  if (block !== undefined) Check.number(module, `${name}.block`, block, { min: 1 })
  if (nudge !== undefined) {
    Check.number(module, `${name}.nudge`, nudge, { min: 1 })
    const most = block ?? nudge
    Check.check(nudge <= most, module, `${name}.nudge`, nudge, `at most ${name}.block, which is ${most}`)
  }
  return {
    nudge: nudge ?? Math.min(usual.nudge, block ?? usual.block),
    block: block ?? Math.max(usual.block, nudge ?? 0)
  }
}
