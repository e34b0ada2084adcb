/**
 * Compiles and runs the code blocks of the pages against the packed packages. `npm run pages` checks all of them, and
 * `npm run pages -- docs/do/failover.md` one page. Part of `npm run publint`.
 *
 * A `ts` block is a program with all its imports. A comment right before the fence says otherwise:
 *
 * - `<!-- continues -->`: the block goes on where the one above it ends.
 * - `<!-- not run: the reason -->`: the program compiles, and is not run. Its continuations have only `continues`.
 *
 * A program runs in a process of its own, in an empty folder, with the keys below. Requests to Anthropic, OpenAI and Google go to
 * `FakeProvider`, which answers each with one sentence. A program passes if it ends by itself, without an error.
 */
import { execFile, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { FakeProvider } from "@outlast/testing"
import { unpackInto } from "./pack.ts"
import { notYet, pages, programsOf } from "./pages/blocks.ts"

const root = join(import.meta.dirname, "..")
const home = join(root, ".cache", "pages")
const asked = process.argv.slice(2)
for (const page of [...asked, ...notYet])
  if (!pages.includes(page)) throw new Error(`There is no page ${page}.`)

unpackInto(home)
const programs = (asked.length > 0 ? asked : pages).flatMap(programsOf).map((program) => {
  const file = `${program.page.replace(/\.md$/, "")}-${program.line}.ts`
  mkdirSync(join(home, dirname(file)), { recursive: true })
  writeFileSync(join(home, file), program.code)
  return { ...program, file }
})
writeFileSync(
  join(home, "tsconfig.json"),
  JSON.stringify({
    compilerOptions: {
      module: "nodenext",
      target: "es2024",
      lib: ["es2024", "esnext.disposable"],
      moduleDetection: "force",
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      types: ["node"]
    },
    files: programs.map(({ file }) => file)
  })
)

/** What is wrong with each page. */
const problems = new Map<string, Array<string>>()
const report = (page: string, text: string) => problems.set(page, [...(problems.get(page) ?? []), text])

const tsc = spawnSync(join(root, "node_modules", ".bin", "tsc"), ["-p", home, "--pretty", "false"], {
  cwd: home,
  encoding: "utf8",
  maxBuffer: 2 ** 26
})
for (const message of tsc.stdout.split(/\n(?! )/).filter((line) => line !== "")) {
  const [, file, line = "", text = ""] = /^(.+?\.ts)\((\d+),\d+\): ([\s\S]*)$/.exec(message) ?? []
  const page = programs.find((program) => program.file === file)?.page
  // Without a program, the compiler itself or the packages are at fault.
  if (page === undefined) throw new Error(message)
  report(page, `${page}:${line}: ${text}`)
}
if (tsc.status !== 0 && problems.size === 0) throw new Error(`tsc ends with ${tsc.status}. ${tsc.stderr}`)

await using server = await FakeProvider.start({
  plan: { answers: () => ({ text: "The Nile flows north." }) }
})
const env = {
  PATH: process.env["PATH"],
  NO_COLOR: "1",
  ANTHROPIC_API_KEY: "any",
  ANTHROPIC_API_KEY_2: "any-2",
  OPENAI_API_KEY: "any",
  GOOGLE_GENERATIVE_AI_API_KEY: "any",
  OUTLAST_PAGES_PROVIDERS: JSON.stringify({
    "https://api.anthropic.com/v1": server.baseUrl("anthropic"),
    "https://api.openai.com/v1": server.baseUrl("openai"),
    "https://generativelanguage.googleapis.com/v1beta": server.baseUrl("google")
  })
}
const preload = join(import.meta.dirname, "pages", "providers.mjs")
let runs = 0
for (const { page, line, file, isRun } of programs) {
  if (!isRun || problems.has(page)) continue
  runs++
  try {
    await promisify(execFile)(process.execPath, ["--import", preload, join(home, file)], {
      cwd: mkdtempSync(join(home, "run-")),
      env,
      timeout: 60_000
    })
  } catch (error) {
    report(page, `${page}:${line}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

for (const [page, found] of problems) {
  if (notYet.includes(page) && !asked.includes(page)) continue
  for (const line of found) console.error(line)
  process.exitCode = 1
}
for (const page of asked.length > 0 ? asked : notYet) {
  if (!notYet.includes(page) || problems.has(page)) continue
  console.error(`${page} passes: remove it from \`notYet\` in scripts/pages/blocks.ts.`)
  process.exitCode = 1
}
if (process.exitCode !== 1) {
  console.log(
    `${programs.length} programs of the pages, ${runs} of them were run, ${notYet.length} pages are not ready.`
  )
}
