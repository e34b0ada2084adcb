/**
 * Checks that imports between the folders of each package point one way: to folders earlier in the list. Neither folders
 * nor files may import each other in a circle. Run by `npm run lint`; `--draw` prints the imports.
 */
import { globSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"

/** The folders of `src` in each package, lowest first. The files directly in `src` are the folder `.`. */
const orders: Readonly<Record<string, ReadonlyArray<string>>> = {
  resilience: [".", "store", "telemetry", "breaker", "health", "retry", "metrics"],
  agent: [
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
  ],
  providers: ["counting", "catalogue", "aisdk/form", "aisdk", "."],
  "ai-sdk": ["models", "guard", "compaction", "."],
  gateway: [
    "json",
    "wire",
    "telemetry",
    "wire/chat",
    "wire/messages",
    "wire/responses",
    "target",
    "answer",
    ".",
    "config",
    "server"
  ],
  delivery: [".", "telemetry", "store", "store/sql", "dead", "bus", "outbox", "nats"],
  tasks: [
    "state",
    "telemetry",
    "restart",
    "journal",
    "store",
    "store/sql",
    "workflow",
    "cluster",
    "worker",
    "."
  ],
  node: ["file", "sqlite", "cluster", "lock", "host", "ops", "process"],
  testing: [
    "plan",
    "server",
    "server/openai",
    "server/responses",
    "server/anthropic",
    "server/google",
    "timeline",
    "."
  ],
  cli: [
    "command",
    "compact",
    "config",
    "classify/cases",
    "classify/simpler",
    "classify",
    "explain",
    "guard",
    "dlq",
    "doctor",
    "demo",
    "chat",
    "tasks",
    "serve",
    "gateway",
    "."
  ]
}

/** The texts of a package's modules, by their paths in `src`. */
export type Modules = ReadonlyMap<string, string>

/** The modules of `src` that a module imports, as paths in `src`. */
const importsOf = (file: string, text: string): ReadonlyArray<string> => [
  ...new Set(
    [...text.matchAll(/\b(?:from|import) ?\(?"(\.[^"]+\.ts)"/g)].map(([, to = ""]) => join(dirname(file), to))
  )
]

/** True for a module that only exports names of others. */
const isCollection = (text: string): boolean =>
  text
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*|export (?:type )?(?:\{[^}]*\}|\* as \w+) from "[^"]+"/g, "")
    .trim() === ""

/** The imports of each module, without index files: collections that only other collections name. */
const importsByFile = (modules: Modules): ReadonlyMap<string, ReadonlyArray<string>> => {
  const all = [...modules].map(([file, text]) => ({
    file,
    targets: importsOf(file, text),
    isCollection: isCollection(text)
  }))
  const used = new Set(all.flatMap(({ isCollection, targets }) => (isCollection ? [] : targets)))
  return new Map(
    all
      .filter(({ file, isCollection }) => !isCollection || used.has(file))
      .map(({ file, targets }) => [file, targets])
  )
}

/** A path from `file` back to itself. */
const circle = (
  imports: ReadonlyMap<string, ReadonlyArray<string>>,
  file: string
): ReadonlyArray<string> | undefined => {
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

/** The imports of a package's modules, and those that do not fit the order of its folders. */
export const check = (modules: Modules, order: ReadonlyArray<string>) => {
  const problems: Array<string> = []
  const arrows = new Map(order.map((folder) => [folder, new Set<string>()]))
  const imports = importsByFile(modules)
  const folders = new Set([...imports.keys()].map((file) => dirname(file)))
  for (const folder of folders) {
    if (!order.includes(folder)) problems.push(`${folder} has no place in scripts/rooms.ts.`)
  }
  for (const folder of order) {
    if (!folders.has(folder)) problems.push(`${folder} has a place in scripts/rooms.ts, but no modules.`)
  }
  for (const [file, targets] of imports) {
    const from = dirname(file)
    for (const target of targets) {
      const to = dirname(target)
      if (order.indexOf(to) > order.indexOf(from)) {
        problems.push(`${file} imports ${target}, which is above it.`)
      }
      if (to !== from) arrows.get(from)?.add(to)
    }
  }
  const reported = new Set<string>()
  for (const file of imports.keys()) {
    const found = reported.has(file) ? undefined : circle(imports, file)
    if (found === undefined) continue
    for (const member of found) reported.add(member)
    problems.push(`These files import each other: ${found.join(" → ")}.`)
  }
  return { problems, arrows }
}

if (import.meta.main) {
  const packages = join(import.meta.dirname, "..", "packages")
  for (const name of readdirSync(packages).toSorted()) {
    const src = join(packages, name, "src")
    const modules = new Map(
      globSync("**/*.ts", { cwd: src }).map((file) => [file, readFileSync(join(src, file), "utf8")])
    )
    if (modules.size === 0) continue
    const { problems, arrows } = check(modules, orders[name] ?? [])
    if (process.argv.includes("--draw")) {
      console.log(name)
      for (const [room, to] of arrows) console.log(`  ${room} → ${[...to].toSorted().join(", ")}`)
    }
    for (const problem of problems) console.error(`packages/${name}: ${problem}`)
    if (problems.length > 0) process.exitCode = 1
  }
}
