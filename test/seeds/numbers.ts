/**
 * Shows that the tests of the presets hold their numbers: changes each number of a preset in turn and runs the tests. A
 * number whose change no test notices is printed.
 *
 * `npm run conformance:numbers -- [NAME...]`, for example `Codebuddy`. It edits the sources and
 * restores them, so it refuses to run on files with uncommitted changes. Takes several seconds for each number.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"

const folder = "packages/agent/src/presets/"
const preset = (name: string): ReadonlyArray<string> => [
  `packages/agent/test/presets/${name}.test.ts`,
  `test/seeds/${name.toLowerCase()}.test.ts`
]
/** The tests of each module. */
const testsOf: Readonly<Record<string, ReadonlyArray<string>>> = {
  Backoffs: ["packages/agent/test/presets/Backoffs.test.ts"],
  Claw0: preset("Claw0"),
  Codebuddy: preset("Codebuddy"),
  Decision037: preset("Decision037"),
  Decision037Settings: preset("Decision037"),
  Nexo: preset("Nexo"),
  S11: preset("S11")
}
const wanted = process.argv.slice(2)
const names = wanted.length === 0 ? Object.keys(testsOf) : wanted

/** A number, or one at the beginning of a duration in words. Underscores group digits. */
const number =
  /(?<![\w.$"'])(\d[\d_]*(?:\.\d+)?)(?![\w"'])|(?<=")(\d[\d_]*)(?= (?:milli|second|minute|hour))/g

/** Numbers in comments and in sentences are not behaviour. */
const isCode = (line: string): boolean => !/^\s*(\*|\/\/|\/\*|["'`].*["'`],?$)|^import|deviations/.test(line)

interface Place {
  readonly line: number
  readonly from: number
  readonly text: string
}

const placesIn = (source: string): ReadonlyArray<Place> =>
  source
    .split("\n")
    .flatMap((text, line) =>
      isCode(text)
        ? [...text.matchAll(number)].map((found) => ({ line, from: found.index, text: found[0] }))
        : []
    )

const changed = (source: string, { line, from, text }: Place): string => {
  const lines = source.split("\n")
  const old = lines[line] ?? ""
  const value = Number(text.replaceAll("_", ""))
  const other = value > 0 && value < 1 ? value / 2 : value + 1
  lines[line] = `${old.slice(0, from)}${other}${old.slice(from + text.length)}`
  return lines.join("\n")
}

const testsPass = (name: string): boolean => {
  const tests = testsOf[name]
  if (tests === undefined) throw new Error(`${name} is none of ${Object.keys(testsOf).join(", ")}.`)
  const args = ["node_modules/vitest/vitest.mjs", "run", ...tests, "--bail=1", "--no-isolate"]
  return spawnSync(process.execPath, args, { stdio: "ignore" }).status === 0
}

let survived = 0
let total = 0
for (const name of names) {
  const file = `${folder}${name}.ts`
  if (execFileSync("git", ["status", "--porcelain", file], { encoding: "utf8" }) !== "") {
    throw new Error(`${file} has uncommitted changes.`)
  }
  const source = readFileSync(file, "utf8")
  try {
    for (const place of placesIn(source)) {
      total++
      writeFileSync(file, changed(source, place))
      if (!testsPass(name)) continue
      survived++
      console.log(`${file}:${place.line + 1}: no test notices a change of ${place.text}`)
    }
  } finally {
    writeFileSync(file, source)
  }
}
console.log(`${total - survived} of ${total} numbers are held by a test`)
if (survived > 0) process.exitCode = 1
