/**
 * The time of `import("@outlast/agent")` in a new process, beside `effect/ai`, and the modules that it loads.
 *
 * Imports what users install: the JavaScript of `dist`, so run `npm run build` first. Sources would also pay for removing
 * their types. The figures are CPU time from before the import until after it. Outlast loads single modules of Effect.
 * Most programs import the indexes `effect` and `effect/ai`, which load all of them: the second table is such a program.
 */
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import type { Figure, Report } from "./measure.ts"
import { median } from "./measure.ts"

const rounds = 15
const target = 1.4

const contenders: ReadonlyArray<readonly [name: string, modules: ReadonlyArray<string>]> = [
  ["effect/ai", ["effect/ai"]],
  ["effect and effect/ai", ["effect", "effect/ai"]],
  ["@outlast/resilience", ["@outlast/resilience"]],
  ["@outlast/agent/failover", ["@outlast/agent/failover"]],
  ["@outlast/agent", ["@outlast/agent"]],
  ["effect, effect/ai and @outlast/agent", ["effect", "effect/ai", "@outlast/agent"]]
]

const run = (code: string): string => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", code], {
    cwd: import.meta.dirname,
    encoding: "utf8"
  })
  if (status !== 0) throw new Error(stderr)
  return stdout
}

const importing = (modules: ReadonlyArray<string>): string =>
  modules.map((module) => `await import(${JSON.stringify(module)})`).join("; ")

/** Microseconds of CPU time. */
const time = (modules: ReadonlyArray<string>): number =>
  Number(
    run(
      `const start = process.cpuUsage(); ${importing(modules)}; const { user, system } = process.cpuUsage(start); console.log(user + system)`
    )
  )

/** Number and size of the loaded modules, by package and folder. */
const profile = (modules: ReadonlyArray<string>): ReadonlyArray<string> => {
  const loaded: Readonly<Record<string, readonly [count: number, bytes: number]>> = JSON.parse(
    run(`
      import { registerHooks } from "node:module"
      const loaded = {}
      registerHooks({
        load: (url, context, next) => {
          const result = next(url, context)
          const [, name, path] = /(?:node_modules|packages)\\/((?:@[^/]+\\/)?[^/]+)\\/dist\\/(.*)/.exec(url) ?? ["", "other", ""]
          const folder = path.includes("/") ? name + "/" + path.split("/")[0] : name
          const [count, bytes] = loaded[folder] ?? [0, 0]
          loaded[folder] = [count + 1, bytes + (result.source?.length ?? 0)]
          return result
        }
      })
      ${importing(modules)}
      console.log(JSON.stringify(loaded))
    `)
  )
  return Object.entries(loaded)
    .toSorted(([, [a]], [, [b]]) => b - a)
    .map(([folder, [count, bytes]]) => {
      const size = `${Math.round(bytes / 1_000)} kB`
      return `  ${folder.padEnd(24)}${String(count).padStart(5)}${size.padStart(10)}`
    })
}

export const imports = async ({ say, table }: Report): Promise<void> => {
  if (!existsSync(new URL("../packages/agent/dist/index.js", import.meta.url))) {
    throw new Error("packages/agent/dist does not exist. Run `npm run build` first.")
  }
  const values = contenders.map((): Array<number> => [])
  // The first round fills the file cache.
  for (let round = -1; round < rounds; round++) {
    for (const [index, [, modules]] of contenders.entries()) {
      const value = time(modules)
      if (round >= 0) values[index]?.push(value)
    }
  }
  const figuresOf = (names: ReadonlyArray<string>): ReadonlyArray<Figure> => {
    const valuesOf = (name = "") => values[contenders.findIndex(([found]) => found === name)] ?? []
    const base = valuesOf(names[0])
    return names.map((name): Figure => {
      const own = valuesOf(name)
      const ratio = median(own.map((value, round) => value / (base[round] ?? NaN)))
      return { name, median: median(own), min: Math.min(...own), max: Math.max(...own), ratio }
    })
  }
  const names = contenders.map(([name]) => name)
  table("Import in a new process, µs", figuresOf(names.slice(0, -1)), target)
  table("With the indexes of Effect, µs", figuresOf(["effect and effect/ai", names.at(-1) ?? ""]), target)
  say("\nModules of @outlast/agent by folder")
  for (const line of profile(["@outlast/agent"])) say(line)
}
