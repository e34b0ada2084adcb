/** For `npm run mutation`: the tests of the mutated files, against the sources beside them and not the installed ones. */
import { globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import type { Mutants } from "./mutants.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const conditions = ["@outlast/source", "node", "import", "default"]
// `scripts/mutation.ts` writes it.
const { tests }: Mutants = JSON.parse(process.env["OUTLAST_MUTANTS"] ?? "{}")

interface Manifest {
  readonly name: string
  readonly exports: Readonly<Record<string, null | string | Readonly<Record<string, string>>>>
}

/** Every public module of our packages, by the name that other packages import. */
const alias = globSync("packages/*/package.json", { cwd: root }).flatMap((file) => {
  const { exports, name }: Manifest = JSON.parse(readFileSync(join(root, file), "utf8"))
  return Object.entries(exports).flatMap(([path, conditions]) => {
    const source =
      conditions === null || typeof conditions === "string" ? undefined : conditions["@outlast/source"]
    if (source === undefined) return []
    return [{ find: new RegExp(`^${name}${path.slice(1)}$`), replacement: join(root, dirname(file), source) }]
  })
})

export default defineConfig({
  root,
  resolve: { conditions, alias },
  ssr: { resolve: { conditions } },
  test: { include: [...tests], setupFiles: ["./test/setup.ts"], testTimeout: 20_000, isolate: false }
})
