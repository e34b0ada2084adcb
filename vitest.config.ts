import { availableParallelism } from "node:os"
import { join } from "node:path"
import { defineConfig } from "vitest/config"
import { BaseSequencer } from "vitest/node"
import type { TestSpecification } from "vitest/node"

const conditions = ["@outlast/source", "node", "import", "default"]
const inCi = process.env["OUTLAST_TEST_SUMMARY"] !== undefined

/** Files that take long: most of them wait for processes, servers and real time. */
const long =
  /test\/(Dying|durability|chaos\/endurance|failover-bench|examples|ops|kill|host\/|process|lock)|cli\/test\/(serve|gateway|chat\/terminal|doctor)|Redis/

/** Starts the long files first: short ones use the CPU while others wait, and fill the workers at the end. */
class LongFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification) => long.test(moduleId)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "test/**/*.test.ts"],
    // Against a test that hangs. A busy machine takes several times as long as a quiet one.
    testTimeout: 60_000,
    // Some tests start programs from `dist`.
    globalSetup: ["./test/build.ts"],
    setupFiles: ["./test/setup.ts"],
    // One more than there are cores: the long files wait more than they compute.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: LongFirst },
    // Programs that tests start need not compile our sources again.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, ".cache/compile") },
    // The files of a worker share their modules: importing `effect` and our sources again for each file took most of the
    // time. `test/setup.ts` clears the one state of a module, and tests that change the process restore it.
    isolate: false,
    // `npm run conformance` reads the JSON report.
    reporters: inCi
      ? ["default", "./scripts/test-summary.ts", ["json", { outputFile: ".cache/tests.json" }]]
      : ["default"]
  }
})
