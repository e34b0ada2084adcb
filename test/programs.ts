/**
 * Programs that tests start in processes of their own. `test/build.ts` bundles them with all that they import: a process
 * needs half as long to start from one file as from the hundreds of modules of Effect and ours.
 */
import { join, relative } from "node:path"
import { fileURLToPath } from "node:url"

export const root = join(import.meta.dirname, "..")

/** The sources, below the root of the project. */
export const sources: ReadonlyArray<string> = [
  "examples/host/service.ts",
  "packages/cli/src/program.ts",
  "packages/node/test/support/hostedProgram.ts",
  "packages/node/test/support/instance.ts",
  "packages/node/test/support/lockHolder.ts",
  "packages/node/test/support/lockingProcess.ts",
  "packages/node/test/support/parent.ts",
  "packages/node/test/support/workflowWorker.ts",
  "packages/resilience/test/breaker/redisWorker.ts",
  "packages/tasks/test/kill/killer.ts",
  "packages/tasks/test/kill/program.ts",
  "test/chaos/endurance.ts",
  "test/durability/instance.ts",
  "test/durability/poison.ts",
  "test/durability/publisher.ts",
  "test/durability/taskWorker.ts",
  "test/durability/world.ts"
]

/** As deep below `bundles` as the code of a package is below `dist`, so that files beside it are found. */
export const nameOf = (source: string): string =>
  `programs/${source.replaceAll("/", "-").replace(/\.ts$/, "")}`

export const bundles: string = join(root, ".cache", "tests", "dist")

/** The bundle of a program. */
export const bundled = (source: URL): string => {
  const path = relative(root, fileURLToPath(source))
  if (!sources.includes(path)) throw new Error(`${path} is not in the list of test/programs.ts.`)
  return join(bundles, `${nameOf(path)}.js`)
}
