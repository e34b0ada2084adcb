/** For `npm run mutation`: the tests of the pure machines, against the sources beside them and not the installed ones. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const conditions = ["@outlast/source", "node", "import", "default"]
const sources = fileURLToPath(new URL("packages/resilience/src", import.meta.url))

export default defineConfig({
  resolve: {
    conditions,
    alias: [
      { find: /^@outlast\/resilience$/, replacement: `${sources}/index.ts` },
      { find: /^@outlast\/resilience\/(.*)$/, replacement: `${sources}/$1.ts` }
    ]
  },
  ssr: { resolve: { conditions } },
  test: {
    include: [
      "packages/resilience/test/breaker/Circuit{State,Counts}.test.ts",
      "packages/resilience/test/retry/{Backoff,RetryBudgetState}.test.ts"
    ],
    testTimeout: 20_000
  }
})
