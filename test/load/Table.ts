/** Reports of several seeds as one line of a table. */
import type { Report } from "./Report.ts"

/** A line of the table, with the reports of its seeds. */
export interface Line {
  readonly name: string
  readonly reports: ReadonlyArray<Report>
}

interface Column {
  readonly head: string
  readonly cell: (reports: ReadonlyArray<Report>) => string
}

const columns: ReadonlyArray<Column> = [
  { head: "calls", cell: range(({ calls }) => calls, String) },
  { head: "answered", cell: range(({ answered }) => answered, String) },
  {
    head: "requests/call",
    cell: range(
      ({ requestsPerCall }) => requestsPerCall,
      (n) => n.toFixed(2)
    )
  },
  { head: "at most", cell: range(({ maxRequestsPerCall }) => maxRequestsPerCall, String) },
  { head: "wait p50", cell: range(({ waitP50 }) => waitP50, seconds) },
  { head: "wait p99", cell: range(({ waitP99 }) => waitP99, seconds) },
  { head: "longest call", cell: range(({ longest }) => longest, seconds) },
  { head: "peak/s", cell: range(({ peak }) => peak, String) },
  { head: "stall", cell: range(({ stall }) => stall, seconds) },
  { head: "recovery", cell: range(({ recovery }) => recovery, seconds) },
  { head: "failed first", cell: range(({ failedFirst }) => failedFirst, String) },
  { head: "circuits opened", cell: range(({ opened }) => opened, String) },
  { head: "closed", cell: range(({ closed }) => closed, String) },
  { head: "failures to open", cell: range(({ failuresToOpen }) => failuresToOpen, String) }
]

/** From the lowest to the highest of all seeds. */
function range(
  of: (report: Report) => number | undefined,
  shown: (n: number) => string
): (reports: ReadonlyArray<Report>) => string {
  return (reports) => {
    const numbers = reports.flatMap((report) => of(report) ?? [])
    if (numbers.length === 0) return "-"
    const [low, high] = [shown(Math.min(...numbers)), shown(Math.max(...numbers))]
    return low === high ? low : `${low} to ${high}`
  }
}

export function seconds(millis: number): string {
  return millis === Infinity ? "never" : `${(millis / 1_000).toFixed(millis < 10_000 ? 1 : 0)} s`
}

/** The rows of a table, its head first. A column without a value in any line is dropped. */
export const cells = (lines: ReadonlyArray<Line>): ReadonlyArray<ReadonlyArray<string>> => {
  const filled = columns
    .map(({ head, cell }) => [head, ...lines.map(({ reports }) => cell(reports))])
    .filter(([, ...cells]) => cells.some((cell) => cell !== "-" && cell !== "0"))
  return ["", ...lines.map(({ name }) => name)].map((name, i) => [
    name,
    ...filled.map((column) => column[i] ?? "")
  ])
}

/** Columns in line, for a terminal. */
export const plain = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => (row[i] ?? "").length)))
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

export const markdown = ([head = [], ...rows]: ReadonlyArray<ReadonlyArray<string>>): string =>
  [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n")
