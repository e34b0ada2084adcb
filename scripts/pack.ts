/** Packs the packages as npm would publish them, and unpacks them for a consumer. Needs built packages. */
import { execFileSync } from "node:child_process"
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")

/** One packed package. */
export interface Packed {
  readonly name: string
  readonly tarball: string
  readonly exports: Readonly<Record<string, unknown>>
}

/** Packs all packages of a checkout into an empty folder. */
export const packInto = (home: string, checkout: string = root): ReadonlyArray<Packed> => {
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  return globSync("*", { cwd: join(checkout, "packages") })
    .toSorted()
    .map((folder) => {
      const [packed]: ReadonlyArray<{ readonly filename: string }> = JSON.parse(
        execFileSync("npm", ["pack", "--json", "--pack-destination", home], {
          cwd: join(checkout, "packages", folder),
          encoding: "utf8"
        })
      )
      if (packed === undefined) throw new Error(`npm packed nothing for ${folder}.`)
      const pkg: Omit<Packed, "tarball"> = JSON.parse(
        readFileSync(join(checkout, "packages", folder, "package.json"), "utf8")
      )
      return { name: pkg.name, exports: pkg.exports, tarball: join(home, packed.filename) }
    })
}

/**
 * Makes the folder of a consumer, and returns the public modules by package. The folder is below the root, so that
 * `effect` is found there, and the packed packages before the ones of the workspace.
 */
export const unpackInto = (home: string): Readonly<Record<string, ReadonlyArray<string>>> => {
  const modules: Record<string, ReadonlyArray<string>> = {}
  for (const { name, tarball, exports } of packInto(home)) {
    modules[name] = Object.entries(exports)
      .filter(([, entry]) => typeof entry === "object" && entry !== null)
      .map(([subpath]) => `${name}${subpath.slice(1)}`)
    const folder = join(home, "node_modules", name)
    mkdirSync(folder, { recursive: true })
    execFileSync("tar", ["xzf", tarball, "-C", folder, "--strip-components=1"])
  }
  writeFileSync(join(home, "package.json"), JSON.stringify({ name: "consumer", type: "module" }))
  return modules
}

/**
 * Makes a folder with nothing but a package.json, and installs packages there as a user would. The folder may be below
 * the root: everything that the packages need is in its own `node_modules`.
 */
export const installInto = (home: string, packages: ReadonlyArray<string>): void => {
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  writeFileSync(
    join(home, "package.json"),
    JSON.stringify({ name: "consumer", private: true, type: "module" })
  )
  execFileSync("npm", ["install", "--no-audit", "--no-fund", ...packages], {
    cwd: home,
    stdio: ["ignore", "ignore", "pipe"],
    timeout: 300_000
  })
}
