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
    // The files of a worker share their modules: importing `effect` and our sources again for each file took most of the
    // time. `test/setup.ts` clears the one state of a module, and tests that change the process restore it.
    isolate: false,
    // `npm run conformance` reads the JSON report.
    reporters: inCi
      ? ["default", "./scripts/test-summary.ts", ["json", { outputFile: ".cache/tests.json" }]]
      : ["default"]
  }
})
