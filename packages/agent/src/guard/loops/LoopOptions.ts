/**
 * Options of a loop detector: the counts for each pattern, and for single tools. They are checked when they are made.
 *
 * A {@link Ladder} has two counts: the model gets a hint from `nudge` on, and the call does not run from `block` on.
 * Counts are completed calls: with `block: 3` the fourth identical call does not run.
 */
import { Options as Check } from "@outlast/resilience"
import * as LoopVerdict from "./LoopVerdict.ts"
import type { ToolNature } from "./ToolNature.ts"

/**
 * Permitted reactions to evidence.
 *
 * - `strict`: strict evidence blocks and stops, soft evidence nudges the model.
 * - `soft`: soft evidence also blocks, at twice its count.
 * - `tell`: all evidence nudges the model, and nothing is blocked.
 */
export type Mode = "strict" | "soft" | "tell"

export interface Ladder {
  /** Count from which the model is nudged. At most `block`; if equal, there is no nudge before the block. */
  readonly nudge: number
  /**
   * Count from which the call does not run. When the {@link Mode} only allows nudges, the model is nudged again at
   * this count and its multiples.
   */
  readonly block: number
}

export interface ToolOptions {
  /**
   * Nature of the tool. Default: from its annotations, then from the verb in its name. Annotations override this
   * option.
   */
  readonly nature?: ToolNature | undefined
  /** Ladder for the same call with the same outcome. It replaces all other rules about calls of this tool. */
  readonly same?: Partial<Ladder> | undefined
  /**
   * Returns the part of the arguments that identifies a call, as JSON: text, numbers, lists, plain objects, and
   * values with a `toJSON`. It is compared exactly, including times and ids; the order of fields is ignored. At most
   * 100,000 values. A promise, a map or an instance of a class is an `InvalidOption` when the tool is called.
   * Default: the arguments without times.
   */
  readonly identity?: ((args: unknown) => unknown) | undefined
}

export interface LoopOptions {
  readonly mode: Mode
  /** Same call with the same outcome, of a tool that changes something by its annotations or its `nature`. */
  readonly acts: Ladder
  /** Same call with the same outcome, of any other tool. */
  readonly reads: Ladder
  /**
   * Same call with the same outcome, when time passes in between or the outcome has changed twice before. A wait
   * whose polls are at least 15 seconds apart also has 10 minutes, or twice the time after which the outcome changed
   * before; until then it is soft evidence.
   */
  readonly waits: Ladder
  /** Laps of a cycle of 2 to 10 calls. A cycle of 2 or 3 calls blocks after 3 laps at the earliest. */
  readonly cycle: Ladder
  /** Same failure of one call. A failure that may pass (a time limit, a lock, HTTP 503) has the counts of `waits`. */
  readonly failures: Ladder
  /**
   * Same failure or outcome of several calls. A short outcome of another call counts a quarter. A failure also blocks
   * from 1.5 times `block` on, when no call since has brought anything new.
   */
  readonly findings: Ladder
  /** Turns with a blocked call, without anything new since, before the run stops. */
  readonly refusals: number
  /**
   * Characters of an answer, or of its thinking, that repeat what was said twice before. Characters of code, tables and
   * logs count a tenth.
   */
  readonly text: Ladder
  /** What happens to an answer that repeats itself: the model is told with the next call, or the answer is cut. */
  readonly repetition: "tell" | "cut"
  /** Texts for the model. Default: `LoopDetector.wording`, in English. */
  readonly wording: LoopVerdict.Wording
  /** Options of single tools, by the name of the tool. */
  readonly tools: Readonly<Record<string, ToolOptions>>
}

/** Default options. */
export const defaults: LoopOptions = {
  mode: "strict",
  acts: { nudge: 2, block: 3 },
  reads: { nudge: 3, block: 5 },
  waits: { nudge: 5, block: 8 },
  cycle: { nudge: 2, block: 2.25 },
  failures: { nudge: 2, block: 3 },
  findings: { nudge: 4, block: 6 },
  refusals: 3,
  text: { nudge: 500, block: 4_000 },
  repetition: "tell",
  wording: LoopVerdict.wording,
  tools: {}
}

/** The options with counts. */
const ladders = ["acts", "reads", "waits", "cycle", "failures", "findings", "text"] as const
type Ladders = Readonly<Record<(typeof ladders)[number], Partial<Ladder>>>

/**
 * Options with partial ladders. A missing number keeps its default, unless it contradicts the given one. A `nudge`
 * above the default `block` raises `block` to it; a `block` below the default `nudge` lowers `nudge` to it. There is
 * then no nudge before the block.
 */
export type Input = Partial<Ladders> & Partial<Omit<LoopOptions, keyof Ladders>>

/** Resolves the options. Throws an `InvalidOption` for an unknown or invalid option. */
export const make = (given: Input | Mode = {}): LoopOptions => {
  const input: Input = typeof given === "string" ? { mode: given } : given
  Check.fields<Input>(module, input, checks)
  const { tools = defaults.tools } = input
  for (const [name, { same }] of Object.entries(tools)) ladderOf(`tools.${name}.same`, defaults.waits, same)
  const ladder = (name: keyof Ladders) => [name, ladderOf(name, defaults[name], input[name])] as const
  const set = Object.entries(input).filter(([, value]) => value !== undefined)
  return { ...defaults, ...Object.fromEntries([...set, ...ladders.map(ladder)]) }
}

const module = "LoopDetector"

const { is } = Check

const ladderCheck = is.object<Partial<Ladder>>({
  nudge: is.number({ min: 1 }),
  block: is.number({ min: 1 })
})

const checks: Check.Checks<Input> = {
  mode: is.oneOf("strict", "soft", "tell"),
  // `fromEntries` forgets the names.
  ...(Object.fromEntries(ladders.map((name) => [name, ladderCheck])) as Record<keyof Ladders, Check.Check>),
  refusals: is.integer({ min: 1 }),
  repetition: is.oneOf("tell", "cut"),
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

/**
 * Resolves a ladder. A missing number adapts to the given one, so a given number is never rejected because of a
 * default.
 */
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
