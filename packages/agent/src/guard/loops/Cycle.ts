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

/** A table that is only ever added to, and how much of it counts: as a value it is pure. */
export interface Cycle {
  readonly table: Table
  readonly count: number
  /** At `p - 2`: items in a row that equal the item `p` before. */
  readonly runs: ReadonlyArray<number>
}

interface Table {
  readonly items: Array<Item | undefined>
  /** Their outcomes: what is compared. */
  readonly outcomes: Int32Array
  /** Items that were added. */
  last: number
}

/** The longest period that is seen. */
export const longest = 16

/** Items of a table: a full one is left for another with the last of them, enough for three laps of any period. */
const most = 256
const kept = 3 * longest

const noRuns: ReadonlyArray<number> = new Array<number>(longest - 1).fill(0)

const tableOf = (): Table => ({ items: new Array(most), outcomes: new Int32Array(most), last: 0 })

export const none = (): Cycle => ({ table: tableOf(), count: 0, runs: noRuns })

/** With one more item. */
export const add = (cycle: Cycle, item: Item): Cycle => {
  const { table, count, runs } = cycle
  const after = runsAfter(table.outcomes, count, runs, item.outcome)
  // Another cycle has gone on with it, or it is full.
  const own = table.last !== count || count >= most ? copied(cycle) : table
  enter(own, item)
  return { table: own, count: own.last, runs: after }
}

const enter = (table: Table, item: Item): void => {
  table.outcomes[table.last] = item.outcome
  table.items[table.last++] = item
}

const copied = (cycle: Cycle): Table => {
  const table = tableOf()
  for (const item of lastOf(cycle, kept)) enter(table, item)
  return table
}

const runsAfter = (
  outcomes: Int32Array,
  count: number,
  runs: ReadonlyArray<number>,
  outcome: number
): ReadonlyArray<number> => {
  let after: Array<number> | undefined
  const periods = Math.min(longest, count)
  for (let period = 2; period <= periods; period++) {
    if (outcomes[count - period] !== outcome) continue
    // Most outcomes are new, and end every run.
    after ??= noRuns.slice()
    after[period - 2] = (runs[period - 2] ?? 0) + 1
  }
  return after ?? noRuns
}

/** The last items, newest last. */
export const lastOf = ({ table: { items }, count }: Cycle, most: number): ReadonlyArray<Item> =>
  items.slice(Math.max(0, count - most), count).filter((item) => item !== undefined)

export interface Round {
  readonly period: number
  /** How often it was gone through, in parts too. */
  readonly rounds: number
  /** The same of laps of the same calls with, to the word, the same outcomes; 0 where this call is another. */
  readonly exact: number
  /** Something in it waits for something else: each time with the same answer, not with one that goes to and fro. */
  readonly waiting: boolean
}

/**
 * The shortest cycle that this call of this tool would go on with, of those gone through at least `least` times. One of
 * the same calls comes before one of the same outcomes.
 */
export const goingOn = (cycle: Cycle, tool: number, call: number, least: number): Round | undefined => {
  const { table, count, runs } = cycle
  if (runs === noRuns) return undefined
  let found: Round | undefined
  for (let i = 0; i < runs.length; i++) {
    const run = runs[i] ?? 0
    const period = i + 2
    const rounds = run / period + 1
    if (run === 0 || rounds < least || table.items[count - period]?.tool !== tool) continue
    const round = lastOf(cycle, period)
    // The same thing again and again has every period, and so has the same answer to many questions.
    const [first] = round
    if (round.every(({ call }) => call === first?.call)) continue
    if (round.every(({ outcome }) => outcome === first?.outcome)) continue
    const exact = exactRounds(table.items, count, period, run, call)
    if (found !== undefined && exact < least) continue
    const waiting = round.some((item) => item.waiting && !alternates(round, item))
    found = { period, rounds, exact, waiting }
    if (exact >= least) return found
  }
  return found
}

/** Of `run` items that had the same outcome as those a period before, the last that were the same to the word. */
const exactRounds = (
  items: ReadonlyArray<Item | undefined>,
  count: number,
  period: number,
  run: number,
  call: number
): number => {
  if (items[count - period]?.call !== call) return 0
  let same = 0
  while (same < run) {
    const item = items[count - 1 - same]
    const before = items[count - 1 - same - period]
    if (item === undefined || item.call !== before?.call || item.said !== before.said) break
    same++
  }
  return same / period + 1
}

/** What goes on comes to an end, and not back to where it was. */
const alternates = (round: ReadonlyArray<Item>, { call, said }: Item): boolean =>
  round.some((other) => other.call === call && other.said !== said)
