/**
 * `npm run conformance`: runs the tests of every promise and prints seed, promise, result and counts. With `--json` a
 * list of `{ id, test, status, why }`. Ends with 1 when a promise is broken.
 *
 * `--report FILE`, any number of times, reads the results from JSON reports of vitest and runs nothing.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { parseArgs } from "node:util"
import type { Ran } from "./Conformance.ts"
import * as Conformance from "./Conformance.ts"
import { seeds } from "./seeds.ts"

const { values } = parseArgs({
  options: { json: { type: "boolean" }, report: { type: "string", multiple: true } }
})
const root = process.cwd()

/** The fields that are read of a JSON report of vitest. */
interface Report {
  readonly testResults: ReadonlyArray<{
    readonly name: string
    readonly assertionResults: ReadonlyArray<{
      readonly ancestorTitles: ReadonlyArray<string>
      readonly title: string
      readonly status: string
    }>
  }>
}

const ranIn = (file: string): ReadonlyArray<Ran> => {
  // The reporter of vitest writes this form.
  const report = JSON.parse(readFileSync(file, "utf8")) as Report
  return report.testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.map(({ ancestorTitles, title, status }) => ({
      file: relative(root, name),
      path: [...ancestorTitles, title].join(" > "),
      passed: status === "passed"
    }))
  )
}

const runTests = (): ReadonlyArray<Ran> => {
  const folder = mkdtempSync(join(tmpdir(), "outlast-conformance-"))
  const file = join(folder, "report.json")
  try {
    const files = [...Conformance.filesOf(seeds), Conformance.folder]
    const args = [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--reporter=json",
      `--outputFile=${file}`,
      ...files
    ]
    spawnSync(process.execPath, args, { cwd: root, stdio: ["ignore", "ignore", "inherit"] })
    return ranIn(file)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const verdicts = Conformance.judge(
  seeds,
  values.report === undefined ? runTests() : values.report.flatMap(ranIn)
)
const counts = Conformance.countsOf(verdicts)

if (values.json === true) {
  const list = verdicts.map(({ id, test, status, why }) => ({ id, test, status, why: why ?? "" }))
  console.log(JSON.stringify(list, undefined, 2))
} else {
  for (const { seed, name } of seeds) {
    const own = verdicts.filter((verdict) => verdict.seed === seed)
    console.log(`\n${seed} ${name}`)
    for (const { id, status, promise, why } of own) {
      console.log(`  ${status.padEnd(12)} ${id}: ${promise}${why === undefined ? "" : ` (${why})`}`)
    }
  }
  const said = Object.entries(counts).map(([status, count]) => `${count} ${status}`)
  console.log(`\n${verdicts.length} promises: ${said.join(", ")}`)
}
if (counts.broken > 0) process.exitCode = 1
