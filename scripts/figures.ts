/**
 * Prints each figure of `docs/internals/figures.md` beside what its command says now.
 *
 * `npm run figures` runs the commands that take at most three minutes, `--all` all of them, `--only NAME` those of one
 * section. Times and ratios depend on the machine, and on what else it does.
 */
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"
import type { Figure, Section } from "./figures/page.ts"
import { page, sections } from "./figures/page.ts"

const root = join(import.meta.dirname, "..")
const short = 3
const { values } = parseArgs({ options: { only: { type: "string" }, all: { type: "boolean" } } })

/** A row of a bench with `--json`. */
interface Row {
  readonly name: string
  readonly ns: number
  readonly ratio: number
}

const units: Readonly<Record<string, number>> = { µs: 1e3, ms: 1e6, s: 1e9 }

/** A row in the unit in which the page says the figure: a time, or else the ratio. */
const shown = ({ ns, ratio }: Row, { says }: Figure): string => {
  const unit = says.split(" ").at(-1) ?? ""
  const size = units[unit]
  return size === undefined ? `${ratio.toFixed(2)} ×` : `${(ns / size).toPrecision(3)} ${unit}`
}

/** Runs the command of a section. Returns what its output says about a figure. */
const outputOf = ({ command }: Section): ((figure: Figure) => string | undefined) => {
  const { status, stdout, stderr } = spawnSync("npm", ["--silent", ...command], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 2 ** 28,
    env: { ...process.env, NO_COLOR: "1" }
  })
  if (stdout.trim() === "") {
    process.exitCode = 1
    const why = stderr.split("\n").find((line) => line.includes("Error")) ?? stderr.trim()
    return () => `the command ended with ${status}. ${why}`
  }
  if (command.includes("--json")) {
    // The output of a bench.
    const { rows }: { readonly rows: ReadonlyArray<Row> } = JSON.parse(stdout)
    return (figure) => {
      const row = rows.find(({ name }) => name === figure.row)
      return row && shown(row, figure)
    }
  }
  const lines = stdout.split("\n").map((line) => line.replace(/\s+/g, " ").trim())
  return ({ row }) => lines.find((line) => row.split(" … ").every((part) => line.includes(part)))
}

const chosen = sections().filter(({ name }) => values.only === undefined || name === values.only)
if (chosen.length === 0) {
  console.error(
    `${page} has no section "${values.only}". There are: ${sections()
      .map(({ name }) => name)
      .join(", ")}.`
  )
  process.exitCode = 1
}
for (const section of chosen) {
  console.log(`\n${section.name}: npm ${section.command.join(" ")}\n  ${section.measured}`)
  if (section.minutes > short && values.all !== true && values.only === undefined) {
    console.log(`  skipped: it takes ${section.minutes} minutes. --all or --only ${section.name} runs it.`)
    continue
  }
  const now = outputOf(section)
  for (const figure of section.figures) {
    const found = now(figure)
    if (found === undefined) process.exitCode = 1
    console.log(`  ${figure.what}\n    page: ${figure.says}\n    now:  ${found ?? `no row "${figure.row}"`}`)
  }
}
