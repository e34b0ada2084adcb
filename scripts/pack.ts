/** Packs the packages as npm would publish them, and unpacks them for a consumer. Needs built packages. */
import { execFileSync } from "node:child_process"
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")

/**
 * Makes the folder of a consumer, and returns the public modules by package. The folder is below the root, so that
 * `effect` is found there, and the packed packages before the ones of the workspace.
 */
export const unpackInto = (home: string): Readonly<Record<string, ReadonlyArray<string>>> => {
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  const modules: Record<string, ReadonlyArray<string>> = {}
  for (const name of globSync("*", { cwd: join(root, "packages") }).toSorted()) {
    const [packed]: ReadonlyArray<{ readonly filename: string }> = JSON.parse(
      execFileSync("npm", ["pack", "--json", "--pack-destination", home], {
        cwd: join(root, "packages", name),
        encoding: "utf8"
      })
    )
    if (packed === undefined) throw new Error(`npm packed nothing for ${name}.`)
    const pkg: { readonly name: string; readonly exports: Readonly<Record<string, unknown>> } = JSON.parse(
      readFileSync(join(root, "packages", name, "package.json"), "utf8")
    )
    modules[pkg.name] = Object.entries(pkg.exports)
      .filter(([, entry]) => typeof entry === "object" && entry !== null)
      .map(([subpath]) => `${pkg.name}${subpath.slice(1)}`)
    const folder = join(home, "node_modules", pkg.name)
    mkdirSync(folder, { recursive: true })
    execFileSync("tar", ["xzf", join(home, packed.filename), "-C", folder, "--strip-components=1"])
  }
  writeFileSync(join(home, "package.json"), JSON.stringify({ name: "consumer", type: "module" }))
  return modules
}
