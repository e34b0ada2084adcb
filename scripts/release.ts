/**
 * Checks that the next version can be published: `npm run release:check`, which first checks the packages themselves. Changes
 * nothing in the checkout, and publishes nothing.
 *
 * - Makes the version in a copy by `changeset version`, unless it is made already: all packages get the same one, depend on exactly that one, and have
 *   it in their changelogs.
 * - Packs the copy, and installs the tarballs in an empty folder as a user would. `npx outlast demo` runs there.
 */
import { execFileSync } from "node:child_process"
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { installInto, packInto } from "./pack.ts"

const root = join(import.meta.dirname, "..")
const problems: Array<string> = []

interface Manifest {
  readonly name: string
  readonly version: string
  readonly repository?: { readonly url: string }
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))

/** Outside of the checkout, so that nothing is found in its `node_modules`. */
const folder = mkdtempSync(join(tmpdir(), "outlast-release-"))
try {
  const copy = join(folder, "copy")
  for (const part of ["package.json", "package-lock.json", ".changeset", "packages", "examples"])
    cpSync(join(root, part), join(copy, part), {
      recursive: true,
      filter: (source) => !/[\\/](?:node_modules|test)$/.test(source)
    })
  // Without changesets the version is made already.
  const isPending = globSync(".changeset/*.md", { cwd: copy }).length > 0
  if (isPending) {
    // Changesets ask git which commit added them.
    execFileSync("git", ["init", "--quiet"], { cwd: copy })
    execFileSync(process.execPath, [join(root, "node_modules", "@changesets", "cli", "bin.js"), "version"], {
      cwd: copy,
      stdio: ["ignore", "ignore", "inherit"]
    })
  }

  const folders = globSync("packages/*", { cwd: copy })
    .toSorted()
    .map((name) => join(copy, name))
  const manifests = folders.map(manifestOf)
  const names = new Set(manifests.map(({ name }) => name))
  const version = manifests[0]?.version ?? ""
  for (const [index, { name, version: own, dependencies, peerDependencies }] of manifests.entries()) {
    if (own !== version) problems.push(`${name} gets version ${own}, and others ${version}.`)
    for (const [other, range] of Object.entries({ ...dependencies, ...peerDependencies }))
      if (names.has(other) && range !== version)
        problems.push(`${name} depends on ${other} ${range}, and not on ${version}.`)
    const changelog = readFileSync(join(folders[index] ?? "", "CHANGELOG.md"), "utf8")
    if (!changelog.includes(`\n## ${version}\n`)) problems.push(`The changelog of ${name} lacks ${version}.`)
  }

  const tarballs = packInto(join(folder, "tarballs"), copy).map(({ tarball }) => tarball)
  const app = join(folder, "app")
  installInto(app, tarballs)
  const outlast = (...args: ReadonlyArray<string>): string =>
    execFileSync("npx", ["--no-install", "outlast", ...args], {
      cwd: app,
      encoding: "utf8",
      timeout: 120_000
    })
  if (outlast("--version").trim() !== `outlast v${version}`)
    problems.push(`npx outlast --version says ${outlast("--version").trim()}, and not v${version}.`)
  if (!outlast("demo").includes("done: its tests pass")) problems.push("npx outlast demo does not end well.")

  if (/\bOWNER\b/.test(manifestOf(root).repository?.url ?? ""))
    console.log("Before publishing, replace OWNER in the URLs: git grep -l OWNER/outlast.")
  if (problems.length === 0) console.log(`${names.size} packages are ready as ${version}.`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1
