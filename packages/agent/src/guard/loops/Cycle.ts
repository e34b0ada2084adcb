/**
 * Whether a sequence repeats itself: A-B-A-B, and longer ones up to {@link longest}.
 *
 * For each period it counts how many items in a row were the same as the item one period before. So an item costs one
 * comparison a period, whatever the length of the sequence. Pure; of bounded size.
 *
 * **What it does not do.** A period of one is no cycle: repetition is counted elsewhere.
 */

/** Numbers of 32 bits: they are compared with all those before. */
export interface Item {
  /** Who was asked. */
  readonly tool: number
  /** What was asked, to the word. */
  readonly call: number
  /** Who was asked and what came of it, but for details. */
  readonly outcome: number
  /** What came of it, to the word. */
  readonly said: number
  readonly waiting: boolean
}

/** Two rings: the last item stands at `last`, the one before it one place back. */
export interface Cycle {
  readonly last: number
  readonly items: ReadonlyArray<Item | undefined>
  /** Their outcomes: what is compared. 0 where there is none. */
  readonly outcomes: ReadonlyArray<number>
  /** At `p - 2`: items in a row that equal the item `p` before. */
  readonly runs: ReadonlyArray<number>
}

/** The longest period that is seen; a power of two. */
export const longest = 16

const noRuns: ReadonlyArray<number> = new Array<number>(longest - 1).fill(0)

export const none: Cycle = {
  last: longest - 1,
  items: new Array<undefined>(longest).fill(undefined),
  outcomes: new Array<number>(longest).fill(0),
  runs: noRuns
}

/** With one more item. */
export const add = (cycle: Cycle, item: Item): Cycle => {
  const at = back(cycle.last, -1)
  const items = cycle.items.slice()
  items[at] = item
  const outcomes = cycle.outcomes.slice()
  outcomes[at] = item.outcome
  return { last: at, items, outcomes, runs: runsAfter(cycle, item.outcome) }
}

const runsAfter = ({ last, outcomes, runs }: Cycle, outcome: number): ReadonlyArray<number> => {
  let after: Array<number> | undefined
  for (let i = 0; i < runs.length; i++) {
    if (outcomes[back(last, i + 1)] !== outcome) continue
    // Most outcomes are new, and end every run.
    after ??= noRuns.slice()
    after[i] = (runs[i] ?? 0) + 1
  }
  return after ?? noRuns
}

/** The place so many items back. */
const back = (last: number, items: number): number => (last - items) & (longest - 1)

export interface Round {
  readonly period: number
  /** How often it was gone through, in parts too. */
  readonly rounds: number
  /** Something in it waits for something else: each time with the same answer, not with one that goes to and fro. */
  readonly waiting: boolean
}

/** The shortest cycle that a call of this tool would go on with, of those gone through at least `least` times. */
export const goingOn = (cycle: Cycle, tool: number, least: number): Round | undefined => {
  const { last, items, runs } = cycle
  if (runs === noRuns) return undefined
  for (let i = 0; i < runs.length; i++) {
    const run = runs[i] ?? 0
    const period = i + 2
    const rounds = run / period + 1
    if (run === 0 || rounds < least || items[back(last, period - 1)]?.tool !== tool) continue
    const round: Array<Item> = []
    for (let n = 0; n < period; n++) {
      const item = items[back(last, n)]
      if (item !== undefined) round.push(item)
    }
    // The same thing again and again has every period.
    if (round.every(({ call }) => call === round[0]?.call)) continue
    return { period, rounds, waiting: round.some((item) => item.waiting && !alternates(round, item)) }
  }
  return undefined
}

/** What goes on comes to an end, and not back to where it was. */
const alternates = (round: ReadonlyArray<Item>, { call, said }: Item): boolean =>
  round.some((other) => other.call === call && other.said !== said)
