/**
 * Whether a sequence repeats itself: A-B-A-B, and longer ones up to {@link longest}.
 *
 * For each period it counts how many items in a row were the same as the item one period before. So an item costs one
 * comparison a period, whatever the length of the sequence. Pure; of bounded size.
 *
 * **What it does not do.** A period of one is no cycle: repetition is counted elsewhere.
 */

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
  readonly items: ReadonlyArray<Item>
  /** Their outcomes: what is compared. */
  readonly outcomes: ReadonlyArray<number>
  /** At `p - 2`: items in a row that equal the item `p` before. */
  readonly runs: ReadonlyArray<number>
}

/** The longest period that is seen; a power of two. */
export const longest = 16

const noItem: Item = {
  tool: Number.NaN,
  call: Number.NaN,
  outcome: Number.NaN,
  said: Number.NaN,
  waiting: false
}
const noRuns: ReadonlyArray<number> = new Array<number>(longest - 1).fill(0)

export const none: Cycle = {
  last: longest - 1,
  items: Array.from({ length: longest }, () => noItem),
  outcomes: new Array<number>(longest).fill(Number.NaN),
  runs: noRuns
}

/** With one more item. */
export const add = ({ last, items, outcomes, runs }: Cycle, item: Item): Cycle => {
  const at = back(last, -1)
  return {
    last: at,
    items: items.with(at, item),
    outcomes: outcomes.with(at, item.outcome),
    runs: runsAfter(last, outcomes, runs, item.outcome)
  }
}

const runsAfter = (
  last: number,
  outcomes: ReadonlyArray<number>,
  runs: ReadonlyArray<number>,
  outcome: number
): ReadonlyArray<number> =>
  // Most outcomes are new, and end every run.
  outcomes.indexOf(outcome) < 0
    ? noRuns
    : runs.map((run, i) => (outcomes[back(last, i + 1)] === outcome ? run + 1 : 0))

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
    const round = Array.from({ length: period }, (_, n) => items[back(last, n)] ?? noItem)
    // The same thing again and again has every period.
    if (round.every(({ call }) => call === round[0]?.call)) continue
    return { period, rounds, waiting: round.some((item) => item.waiting && !alternates(round, item)) }
  }
  return undefined
}

/** What goes on comes to an end, and not back to where it was. */
const alternates = (round: ReadonlyArray<Item>, { call, said }: Item): boolean =>
  round.some((other) => other.call === call && other.said !== said)
