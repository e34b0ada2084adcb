/**
 * The options of a loop detector: the counts of each pattern, and of single tools. Checked when they are made.
 *
 * A {@link Ladder} has the count at which the model is told (`nudge`) and the one from which the call does not run
 * (`block`). Counts are of calls that ran: with `block: 3` the fourth identical call does not run.
 */
import { Options as Check } from "@outlast/resilience"
import * as LoopVerdict from "./LoopVerdict.ts"
import type { ToolNature } from "./ToolNature.ts"

/**
 * What evidence may do.
 *
 * - `strict`: strict evidence blocks and stops, soft evidence tells the model.
 * - `soft`: soft evidence blocks too, at twice its count.
 * - `tell`: all evidence tells the model and blocks nothing.
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
  /** Default: its annotations, then the verb in its name. An annotation comes before this option. */
  readonly nature?: ToolNature | undefined
  /** Its ladder for the same call with the same outcome. Other rules about calls do not apply to it then. */
  readonly same?: Partial<Ladder> | undefined
  /**
   * Gives the part of the arguments that identifies a call, as JSON: text, numbers, lists and plain objects, whose order
   * of fields does not count, and values with a `toJSON`. It is compared exactly, times and ids too. At most 100,000
   * values. A promise, a map or an instance of a class is an `InvalidOption` when the tool is called.
   * Default: the arguments without times.
   */
  readonly identity?: ((args: unknown) => unknown) | undefined
}

export interface LoopOptions {
  readonly mode: Mode
  /** The same call with the same outcome, of a tool that changes something by its annotations or its `nature`. */
  readonly acts: Ladder
  /** The same call with the same outcome, of any other tool. */
  readonly reads: Ladder
  /** The same call with the same outcome where time passes in between, or whose outcome changed twice before. */
  readonly waits: Ladder
  /** Laps of a cycle of 2 to 10 calls. A cycle of 2 or 3 calls blocks at 3 laps at the earliest. */
  readonly cycle: Ladder
  /** The same failure: of one call (strict) and of several (soft). */
  readonly failures: Ladder
  /** The same outcome of several calls. A short outcome of another call counts a quarter. */
  readonly findings: Ladder
  /** Turns with a blocked call, with nothing new since, before the run stops. */
  readonly refusals: number
  /**
   * Repetitions of the end of an answer, within its last 16,000 characters. A part of less than 24 characters counts by
   * what it fills; of less than 2,000, where it differs in its numbers or has no word.
   */
  readonly text: Ladder
  /** The text for the model. Default: `LoopDetector.wording`, in English. */
  readonly wording: LoopVerdict.Wording
  /** By the tool's name. */
  readonly tools: Readonly<Record<string, ToolOptions>>
}

/** The default options. */
export const defaults: LoopOptions = {
  mode: "strict",
  acts: { nudge: 2, block: 3 },
  reads: { nudge: 3, block: 5 },
  waits: { nudge: 5, block: 8 },
  cycle: { nudge: 2, block: 2.25 },
  failures: { nudge: 4, block: 6 },
  findings: { nudge: 4, block: 6 },
  refusals: 3,
  text: { nudge: 4, block: 6 },
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
  const { refusals = defaults.refusals, tools = defaults.tools } = input
  for (const [name, { same }] of Object.entries(tools)) ladderOf(`tools.${name}.same`, defaults.waits, same)
  return {
    mode: input.mode ?? defaults.mode,
    acts: ladder("acts"),
    reads: ladder("reads"),
    waits: ladder("waits"),
    cycle: ladder("cycle"),
    failures: ladder("failures"),
    findings: ladder("findings"),
    refusals,
    text: ladder("text"),
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
  refusals: is.integer({ min: 1 }),
  text: ladderCheck,
  wording: is.fn("(step, evidence) => string"),
  tools: is.record(
    is.object<ToolOptions>({
      nature: is.oneOf("read", "act", "pause"),
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
