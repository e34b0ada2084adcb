/**
 * Bundles the packages and the programs of tests: once before the tests, again before each run of the watch mode, and when
 * it is started by itself.
 */
import { execFileSync } from "node:child_process"
import { cpSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { rolldown } from "rolldown"
import type { TestProject } from "vitest/node"
import { bundles, nameOf, root, sources } from "./programs.ts"

const script = fileURLToPath(new URL("../scripts/bundle.ts", import.meta.url))

/** Files that the programs read or start, and their places beside the bundles. */
const besides = [
  ["packages/node/src/ops/page", "../src/ops/page"],
  ["examples/host/tools.mjs", "programs/tools.mjs"]
] as const

const bundlePrograms = async (): Promise<void> => {
  const bundle = await rolldown({
    input: {
      ...Object.fromEntries(sources.map((source) => [nameOf(source), join(root, source)])),
      // A thread of its own, which the SQLite client starts by its path.
      "sqlite/SqliteWorker": join(root, "packages/node/src/sqlite/SqliteWorker.ts")
    },
    platform: "node",
    resolve: { conditionNames: ["@outlast/source", "node", "import", "default"] },
    logLevel: "warn"
  })
  await bundle.write({
    dir: bundles,
    entryFileNames: "[name].js",
    chunkFileNames: "chunks/[name]-[hash].js",
    cleanDir: true
  })
  await bundle.close()
  for (const [from, to] of besides) cpSync(join(root, from), join(bundles, to), { recursive: true })
}

const build = async (): Promise<void> => {
  execFileSync(process.execPath, [script], { stdio: "inherit" })
  await bundlePrograms()
}

if (import.meta.main) await build()

export default async (project: TestProject): Promise<void> => {
  await build()
  project.onTestsRerun(build)
}
