/** How the demo prints: the colours and the width of the terminal. */
import { Config, Effect, Option, Stdio, Terminal } from "effect"

export interface Screen {
  /** Columns of a line, from {@link narrowest} to {@link widest}. */
  readonly columns: number
  // ANSI colours, or none.
  readonly dim: (text: string) => string
  readonly good: (text: string) => string
  readonly bad: (text: string) => string
  readonly strong: (text: string) => string
}

/** A line with more columns is hard to read. This is also the width of what is not a terminal. */
export const widest = 80
/** With fewer columns there is no room for a word beside the time. */
const narrowest = 40

const code = (n: number) => (text: string) => `\u001b[${n}m${text}\u001b[0m`
export const plain = (text: string): string => text

const coloured = { dim: code(2), good: code(32), bad: code(31), strong: code(1) }
const uncoloured = { dim: plain, good: plain, bad: plain, strong: plain }

/** The screen of standard output. `NO_COLOR` turns colours off, and `COLUMNS` sets another width. */
export const make = Effect.gen(function* () {
  const isTerminal = yield* (yield* Stdio.Stdio).stdoutIsTerminal
  const noColor = Option.getOrElse(yield* Config.option(Config.String("NO_COLOR")), () => "")
  // A text that is not a number of columns is as good as none.
  const given = yield* Effect.option(Config.Int("COLUMNS"))
  const columns = Option.getOrElse(given, () => 0) || (yield* (yield* Terminal.Terminal).columns) || widest
  return {
    columns: Math.min(widest, Math.max(narrowest, columns)),
    ...(isTerminal && noColor === "" ? coloured : uncoloured)
  } satisfies Screen
})

/** Breaks a text into lines of at most `columns`, between words. Lines that continue are indented by two. */
export const wrapped = (text: string, columns: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let rest = text
  for (let room = columns; rest.length > room; room = columns - 2) {
    const at = rest.lastIndexOf(" ", room)
    // A word that is longer than the line is broken.
    const end = rest.slice(0, Math.max(0, at)).trim() === "" ? room : at
    lines.push(rest.slice(0, end).trimEnd())
    rest = rest.slice(end).trimStart()
  }
  return [...lines, rest].map((line, i) => (i === 0 ? line : `  ${line}`))
}
