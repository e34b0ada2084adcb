/**
 * The time of `import("@outlast/agent")` in a new process, beside `effect/ai`, and the modules that it loads.
 *
 * Imports what users install: the JavaScript of `dist`, so run `tsc -b` first. The sources would also pay for removing
 * their types. The figures are CPU time from before the import until after it; a program that uses `effect/ai` imports
 * `effect` too, hence the second row.
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
  ["@outlast/agent", ["@outlast/agent"]]
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
    throw new Error("packages/agent/dist does not exist. Run `tsc -b` first.")
  }
  const values = contenders.map((): Array<number> => [])
  // The first round fills the file cache.
  for (let round = -1; round < rounds; round++) {
    for (const [index, [, modules]] of contenders.entries()) {
      const value = time(modules)
      if (round >= 0) values[index]?.push(value)
    }
  }
  const base = values[0] ?? []
  const figures = contenders.map(([name], index): Figure => {
    const own = values[index] ?? []
    const ratio = median(own.map((value, round) => value / (base[round] ?? NaN)))
    return { name, median: median(own), min: Math.min(...own), max: Math.max(...own), ratio }
  })
  table("Import in a new process, µs", figures, target)
  say("\nModules of @outlast/agent by folder")
  for (const line of profile(["@outlast/agent"])) say(line)
}
