/** Times contenders side by side: in one process, round by round in turn, so that the machine's moods hit all. */

export interface Contender {
  readonly name: string
  /** Does `calls` calls one after the other. */
  readonly run: (calls: number) => Promise<void>
}

export interface Options {
  readonly rounds: number
  /** Calls of each contender in a round. */
  readonly calls: number
  /** What a call is divided into: a stream into its parts. Default 1. */
  readonly unitsPerCall?: number | undefined
}

/** Microseconds of CPU time per unit, over the rounds. The contenders do no I/O: they cost nothing else. */
export interface Figure {
  readonly name: string
  readonly median: number
  readonly min: number
  readonly max: number
  /** The median of the rounds' ratios to the first contender. */
  readonly ratio: number
}

/** Rounds that only warm up. */
const warmUp = 3

const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const upper = sorted[sorted.length >> 1] ?? NaN
  const lower = sorted[(sorted.length - 1) >> 1] ?? NaN
  return (lower + upper) / 2
}

const time = async ({ run }: Contender, calls: number): Promise<number> => {
  globalThis.gc?.()
  const start = process.threadCpuUsage()
  await run(calls)
  const { user, system } = process.threadCpuUsage(start)
  return (user + system) / calls
}

/** The figures of the contenders, in their order; the first is what the others are compared with. */
export const measure = async (
  contenders: readonly [Contender, ...Array<Contender>],
  { rounds, calls, unitsPerCall = 1 }: Options
): Promise<ReadonlyArray<Figure>> => {
  const times = contenders.map((): Array<number> => [])
  for (let round = -warmUp; round < rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      // Each round begins with another one: going first or last is no advantage.
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
    return { name, median: median(own), min: Math.min(...own), max: Math.max(...own), ratio }
  })
}

/** Prints the figures as a table under a title. With a target, says which ratios are above it. */
export const print = (title: string, figures: ReadonlyArray<Figure>, target: number): void => {
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
