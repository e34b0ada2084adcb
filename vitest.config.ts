import { join } from "node:path"
import { defineConfig } from "vitest/config"

const conditions = ["@outlast/source", "node", "import", "default"]
const inCi = process.env["OUTLAST_TEST_SUMMARY"] !== undefined

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "test/**/*.test.ts"],
    testTimeout: 20_000,
    setupFiles: ["./test/setup.ts"],
    // One worker for each core. By default Vitest leaves a core free.
    maxWorkers: "100%",
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
