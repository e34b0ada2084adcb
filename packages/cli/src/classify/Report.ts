/** Prints a score as Markdown tables, which are readable in a terminal and can be pasted into a document. */
import type { Comparison } from "./Comparison.ts"
import type { Accuracy, Miss, Score } from "./Score.ts"
import { seenLabels } from "./Score.ts"

type Cells = ReadonlyArray<string>

/** A table with padded columns. The first column is text; the others are numbers unless `texts` lists them. */
const table = (head: Cells, rows: ReadonlyArray<Cells>, texts: ReadonlyArray<number> = [0]): Cells => {
  const width = head.map((cell, column) =>
    Math.max(3, ...[cell, ...rows.map((row) => row[column] ?? "")].map((text) => text.length))
  )
  const isText = (column: number) => texts.includes(column)
  const line = (cells: Cells) =>
    `| ${cells.map((cell, column) => (isText(column) ? cell.padEnd(width[column] ?? 0) : cell.padStart(width[column] ?? 0))).join(" | ")} |`
  const rule = `| ${width.map((size, column) => (isText(column) ? "-".repeat(size) : `${"-".repeat(size - 1)}:`)).join(" | ")} |`
  return [line(head), rule, ...rows.map(line)]
}

const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)} %`

const share = ({ cases, strict, lenient }: Accuracy): Cells => [
  percent(strict, cases),
  percent(lenient, cases)
]

/** Accuracy overall and by provider, waits, confusion, and every miss with its evidence. */
export const score = (score: Score, misses: ReadonlyArray<Miss>): Cells => [
  ...accuracy(score),
  "",
  ...waits(score),
  ...decisions(score),
  "",
  "Labels (rows) and verdicts (columns, in the same order):",
  "",
  ...confusion(score),
  "",
  misses.length === 0 ? "No misses." : `Misses (${misses.length}):`,
  ...misses.map(miss)
]

export const accuracy = ({ overall, providers }: Score): Cells =>
  table(
    ["provider", "cases", "strict", "lenient"],
    [
      ["all", String(overall.cases), ...share(overall)],
      ...providers.map((row) => [row.provider, String(row.cases), ...share(row)])
    ]
  )

const waits = ({ waits: { right, wrong, madeUp } }: Score): Cells => [
  `Waits: ${right} of ${right + wrong} read as labelled; ${madeUp} read where none is labelled.`
]

const decisions = ({ decisions: { beside, alone }, overall: { cases } }: Score): Cells => [
  `Decisions: ${percent(beside, cases)} right beside another key and target, ${percent(alone, cases)} right alone.`
]

/** Columns are numbered like the rows, because fourteen names would not fit side by side. */
const confusion = (score: Score): Cells => {
  const labels = seenLabels(score)
  return table(
    ["", ...labels.map((_, index) => String(index + 1))],
    labels.map((expected, index) => [
      `${String(index + 1).padStart(2)} ${expected}`,
      ...labels.map((got) => {
        const times = score.confusion[expected]?.[got]
        return times === undefined ? "" : String(times)
      })
    ])
  )
}

const miss = (missed: Miss): string => {
  const { id, expected, alt, got, retryAfterMs } = missed
  const { rule, signal, matched, depth } = got.evidence
  const label = missed.reasonMissed
    ? `${expected}${alt.length === 0 ? "" : ` (or ${alt.join(", ")})`}, got ${got.reason}`
    : expected
  const wait = missed.waitMissed ? `; wait ${ms(retryAfterMs)}, got ${ms(got.retryAfterMs)}` : ""
  const seen = matched === null ? "" : ` ${JSON.stringify(matched)}`
  const { wrongly, right } = missed
  const does =
    wrongly === undefined ? "" : `; does ${wrongly.beside}, alone ${wrongly.alone}, not ${right.join(" or ")}`
  return `  ${id ?? "(no id)"}: ${label}${wait}${does} [${rule}: ${signal}${seen}, depth ${depth}]`
}

const ms = (wait: number | null): string => (wait === null ? "none" : `${wait} ms`)

/** Compares simpler rules with the classifier. */
export const comparison = (rows: Comparison): Cells =>
  table(
    ["rule", "tells apart", "strict", "lenient", "ours, strict", "ours, lenient"],
    rows.map(({ name, vocabulary, rule, ours }) => [name, vocabulary, ...share(rule), ...share(ours)]),
    [0, 1]
  )
