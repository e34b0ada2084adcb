import { defineConfig } from "vitest/config"

const conditions = ["@outlast/source", "node", "import", "default"]
const inCi = process.env["OUTLAST_TEST_SUMMARY"] !== undefined

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "test/**/*.test.ts"],
    testTimeout: 20_000,
    // `npm run conformance` reads the JSON report.
    reporters: inCi
      ? ["default", "./scripts/test-summary.ts", ["json", { outputFile: ".cache/tests.json" }]]
      : ["default"]
  }
})
