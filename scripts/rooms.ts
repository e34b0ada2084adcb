/**
 * Checks that imports between the folders of `agent` point one way: to folders earlier in the list. Neither folders
 * nor files may import each other in a circle. Run by `npm run lint`; `--draw` prints the imports.
 */
import { globSync, readFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"

/** The folders, lowest first. Files directly in `src` are above all of them. */
const order = [
  "secrets",
  "options",
  "telemetry",
  "conversation",
  "failure/reasons",
  "failure/facts",
  "failure/rules",
  "failure",
  "limiter",
  "recovery",
  "failover/decide",
  "failover/target",
  "failover/chain",
  "failover/call",
  "failover",
  "resilient",
  "guard/loops",
  "guard",
  "compaction",
  "loop",
  "presets",
  "config",
  "."
]

const src = join(import.meta.dirname, "..", "packages", "agent", "src")
const problems: Array<string> = []

/** Each module of `src` with its imports. Index files are left out, because they only collect names. */
const imports = new Map(
  globSync("**/*.ts", { cwd: src })
    .filter((file) => !file.endsWith("index.ts") && file !== "stores.ts")
    .map((file) => {
      const text = readFileSync(join(src, file), "utf8")
      const found = [...text.matchAll(/ from "(\.[^"]+)"/g)].map(([, to = ""]) =>
        relative(src, join(src, dirname(file), to))
      )
      return [file, found] as const
    })
)

const arrows = new Map<string, Set<string>>()
for (const [file, targets] of imports) {
  const from = dirname(file)
  if (!order.includes(from)) problems.push(`${from} has no place in scripts/rooms.ts.`)
  for (const target of targets) {
    const to = dirname(target)
    if (order.indexOf(to) > order.indexOf(from))
      problems.push(`${file} imports ${target}, which is above it.`)
    if (to !== from) arrows.set(from, (arrows.get(from) ?? new Set()).add(to))
  }
}

/** A path from `file` back to itself. */
const circle = (file: string): ReadonlyArray<string> | undefined => {
  const seen = new Set<string>()
  const search = (at: string, path: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
    for (const next of imports.get(at) ?? []) {
      if (next === file) return [...path, next]
      if (seen.has(next)) continue
      seen.add(next)
      const found = search(next, [...path, next])
      if (found !== undefined) return found
    }
    return undefined
  }
  return search(file, [file])
}

const reported = new Set<string>()
for (const file of imports.keys()) {
  const found = reported.has(file) ? undefined : circle(file)
  if (found === undefined) continue
  for (const member of found) reported.add(member)
  problems.push(`These files import each other: ${found.join(" → ")}.`)
}

if (process.argv.includes("--draw")) {
  for (const room of order) console.log(`${room} → ${[...(arrows.get(room) ?? [])].toSorted().join(", ")}`)
}
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1
