/**
 * Adds the packages of other platforms, which npm omits, to each package-lock.json.
 *
 * npm omits an optional package (the macOS build of a tool, on Linux) from the lock when it cannot load it at
 * that moment, and `npm ci` then rejects the lock on every platform. The version is in the package that
 * requires it, and the platform is in its name. Run by `npm run lock`.
 */
import { readFileSync, writeFileSync } from "node:fs"

interface Entry {
  readonly version?: string
  readonly dev?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly optional?: boolean
  readonly os?: ReadonlyArray<string>
  readonly cpu?: ReadonlyArray<string>
  readonly libc?: ReadonlyArray<string>
}

const systems = "aix|android|darwin|freebsd|linux|netbsd|openbsd|openharmony|sunos|win32"
const platform = new RegExp(`(?:^|[-/])(?:(${systems})-([a-z0-9]+)|(wasm32)-wasi)(?:-([a-z]+))?$`)

/** The platform in a name such as `@oxlint/binding-linux-arm64-musl`; `undefined` for a name without one. */
const platformOf = (name: string): Pick<Entry, "os" | "cpu" | "libc"> | undefined => {
  const match = platform.exec(name)
  if (match === null) return undefined
  const [, os, cpu, wasm, abi] = match
  if (wasm !== undefined) return { cpu: [wasm] }
  if (os === undefined || cpu === undefined) return undefined
  const libc = os !== "linux" || abi === undefined ? undefined : abi.startsWith("musl") ? "musl" : "glibc"
  return { cpu: [cpu], os: [os], ...(libc === undefined ? {} : { libc: [libc] }) }
}

/** npm's order, so that its next run changes nothing. */
const sorted = <A>(record: Readonly<Record<string, A>>): Record<string, A> =>
  Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => a.localeCompare(b, "en")))

const complete = (folder: string): void => {
  const path = new URL(`../${folder}package-lock.json`, import.meta.url)
  const lock: { packages: Record<string, Entry> } = JSON.parse(readFileSync(path, "utf8"))
  const added: Array<string> = []
  for (const entry of Object.values(lock.packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const place = `node_modules/${name}`
      const runsOn = platformOf(name)
      const isExact = /^\d+\.\d+\.\d+[^\s]*$/.test(version)
      // Only exact versions: a range would need the registry.
      if (lock.packages[place] !== undefined || runsOn === undefined || !isExact) continue
      const found = { ...runsOn, ...(entry.dev === true ? { dev: true } : {}), optional: true }
      lock.packages[place] = { version, ...sorted(found) }
      added.push(`${name}@${version}`)
    }
  }
  lock.packages = sorted(lock.packages)
  if (added.length > 0) writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
  const result = added.length === 0 ? "is complete." : `lacked ${added.length}:\n  ${added.join("\n  ")}`
  console.log(`${folder}package-lock.json ${result}`)
}

for (const folder of ["", "bench/", "neighbours/", "tools/"]) complete(folder)
