/**
 * Installs what a folder with a lockfile of its own needs, unless it is there: `node scripts/install.ts bench`. The
 * contenders in `bench` and the programs in `tools` weigh much, and neither the demo nor the tests need them.
 */
import { execFileSync } from "node:child_process"
import { statSync } from "node:fs"
import { join } from "node:path"

const folder = process.argv[2]
if (folder === undefined) throw new Error("Name a folder, for example `node scripts/install.ts bench`.")

const changed = (file: string): number =>
  statSync(join(import.meta.dirname, "..", folder, file), { throwIfNoEntry: false })?.mtimeMs ?? 0

if (changed("node_modules/.package-lock.json") < changed("package-lock.json")) {
  console.error(`Installing what ${folder} needs.`)
  execFileSync("npm", ["ci", "--prefix", folder], {
    cwd: join(import.meta.dirname, ".."),
    stdio: ["ignore", 2, 2]
  })
}
