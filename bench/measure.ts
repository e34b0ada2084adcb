/**
 * Times contenders side by side: in one process, round by round in turn, so that noise of the machine affects all.
 * The figures go to a {@link Report}: printed as tables, or kept as the rows of one JSON object.
 */
import { cpus } from "node:os"

export interface Contender {
  readonly name: string
  /** Makes `calls` calls one after the other. */
  readonly run: (calls: number) => Promise<void>
  /** Runs before and after each round, outside the measured time. */
  readonly before?: (() => Promise<void>) | undefined
  readonly after?: (() => Promise<void>) | undefined
  /** Multiplies the calls of a round, for a contender too fast for the clock. Default 1. */
  readonly times?: number | undefined
}

export interface Options {
  readonly rounds: number
  /** Calls of each contender in a round. */
  readonly calls: number
  /** Units per call, such as the parts of a stream. Default 1. */
  readonly unitsPerCall?: number | undefined
}

/** Microseconds of CPU time per unit, over the rounds. The contenders do no I/O, so CPU time is their full cost. */
export interface Figure {
  readonly name: string
  readonly median: number
  readonly min: number
  readonly max: number
  /** The median of the rounds' ratios to the first contender. */
  readonly ratio: number
  /** The figures of all rounds in order, for comparisons round by round. */
  readonly rounds?: ReadonlyArray<number> | undefined
}

/** Rounds that only warm up. */
const warmUp = 3

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const upper = sorted[sorted.length >> 1] ?? NaN
  const lower = sorted[(sorted.length - 1) >> 1] ?? NaN
  return (lower + upper) / 2
}

const time = async ({ before, run, after, times = 1 }: Contender, callsOfAll: number): Promise<number> => {
  const calls = callsOfAll * times
  await before?.()
  const start = process.threadCpuUsage()
  await run(calls)
  const { user, system } = process.threadCpuUsage(start)
  await after?.()
  return (user + system) / calls
}

/** The figures of the contenders in order. The first is the baseline. */
export const measure = async (
  contenders: readonly [Contender, ...Array<Contender>],
  { rounds, calls, unitsPerCall = 1 }: Options
): Promise<ReadonlyArray<Figure>> => {
  const times = contenders.map((): Array<number> => [])
  for (let round = -warmUp; round < rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      // Each round begins with another contender, so that the order gives no advantage.
      const index = (turn + round + warmUp) % contenders.length
      const contender = contenders[index] ?? contenders[0]
      const elapsed = await time(contender, calls)
      if (round >= 0) times[index]?.push(elapsed / unitsPerCall)
    }
  }
  const base = times[0] ?? []
  return contenders.map(({ name }, index) => {
    const own = times[index] ?? []
    const ratio = median(own.map((value, round) => value / (base[round] ?? NaN)))
    return { name, median: median(own), min: Math.min(...own), max: Math.max(...own), ratio, rounds: own }
  })
}

export interface Comparison {
  /** The median of the rounds' ratios. */
  readonly ratio: number
  /** 19 of 20 measurements have the true median between these two. */
  readonly low: number
  readonly high: number
}

/** Compares two contenders of one measurement round by round, so that a busy machine slows both. */
export const compared = (of: Figure, to: Figure): Comparison => {
  const base = to.rounds ?? []
  const ratios = (of.rounds ?? [])
    .map((value, round) => value / (base[round] ?? NaN))
    .toSorted((a, b) => a - b)
  // The ranks come from the binomial distribution, so nothing is assumed about that of the noise.
  const rank = Math.max(0, Math.floor(ratios.length / 2 - 0.98 * Math.sqrt(ratios.length)))
  return { ratio: median(ratios), low: ratios[rank] ?? NaN, high: ratios.at(-1 - rank) ?? NaN }
}

/** The output of a bench. */
export interface Report {
  /** A line that explains; nothing in JSON. */
  readonly say: (line: string) => void
  /** The figures under a title. With a target, marks the ratios above it. */
  readonly table: (title: string, figures: ReadonlyArray<Figure>, target?: number) => void
}

/** A figure in JSON. */
export interface Row {
  /** The title of its table without the unit, and its own name. */
  readonly name: string
  /** The median of a unit, in nanoseconds of CPU time. */
  readonly ns: number
  /** The ratio to the first row of the table, unless its title says otherwise. */
  readonly ratio: number
  /** (max - min) / median of the rounds. */
  readonly spread: number
}

/** Keeps the figures as rows. */
export const rowsInto = (rows: Array<Row>): Report => ({
  say: () => {},
  table: (title, figures) => {
    for (const { name, median, min, max, ratio } of figures) {
      rows.push({
        name: `${title.replace(/, µs(?: per \w+)?/, "")}: ${name}`,
        ns: Math.round(median * 10_000) / 10,
        ratio: Math.round(ratio * 1_000) / 1_000,
        spread: median === 0 ? 0 : Math.round(((max - min) / median) * 1_000) / 1_000
      })
    }
  }
})

/** The machine of the measurement. */
export const machine = (): { readonly cores: number; readonly model: string; readonly node: string } => ({
  cores: cpus().length,
  model: cpus()[0]?.model.trim() ?? "unknown",
  node: process.version
})

/** Prints the figures as tables. */
export const printed: Report = {
  say: (line) => console.log(line),
  table: (title, figures, target = Infinity) => {
    const width = Math.max(...figures.map(({ name }) => name.length))
    const cell = (value: number, digits: number) => value.toFixed(digits).padStart(9)
    console.log(`\n${title}`)
    console.log(
      `  ${"".padEnd(width)}${["median µs", "min", "max", "ratio"].map((head) => head.padStart(10)).join("")}`
    )
    for (const { name, median, min, max, ratio } of figures) {
      const numbers = [cell(median, 2), cell(min, 2), cell(max, 2), cell(ratio, 2)].join(" ")
      console.log(`  ${name.padEnd(width)} ${numbers}${ratio > target ? `  above ${target}` : ""}`)
    }
  }
}
