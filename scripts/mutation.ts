/**
 * Runs mutation tests: `npm run mutation` the pure machines of `resilience`, `npm run mutation -- NAME…` a group of
 * `tools/mutants.ts`, or one of its files.
 */
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { names, select } from "../tools/mutants.ts"

const root = join(import.meta.dirname, "..")
const stryker = join(root, "tools", "node_modules", ".bin", "stryker")
const asked = process.argv.length > 2 ? process.argv.slice(2) : ["machines"]
const runs = asked.flatMap((name) => {
  const found = select(name)
  if (found.length === 0)
    throw new Error(`No group or file of tools/mutants.ts is named ${name}. The groups: ${names.join(", ")}.`)
  return found
})

for (const run of runs) {
  console.log(`\n== ${run.mutate.join(" ")}`)
  const { status } = spawnSync(stryker, ["run", "tools/stryker.config.js"], {
    cwd: root,
    env: { ...process.env, OUTLAST_MUTANTS: JSON.stringify(run) },
    stdio: "inherit"
  })
  if (status !== 0) process.exitCode = 1
}
