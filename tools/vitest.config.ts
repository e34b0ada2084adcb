/** For `npm run mutation`: the tests of the pure machines, against the sources beside them and not the installed ones. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const conditions = ["@outlast/source", "node", "import", "default"]
const sources = (name: string): string => fileURLToPath(new URL(`../packages/${name}/src`, import.meta.url))

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  resolve: {
    conditions,
    alias: ["resilience", "agent"].flatMap((name) => [
      { find: new RegExp(`^@outlast/${name}$`), replacement: `${sources(name)}/index.ts` },
      { find: new RegExp(`^@outlast/${name}/(redis|stores)$`), replacement: `${sources(name)}/$1.ts` },
      { find: new RegExp(`^@outlast/${name}/([a-z]+)$`), replacement: `${sources(name)}/$1/index.ts` }
    ])
  },
  ssr: { resolve: { conditions } },
  test: {
    include: [
      "packages/resilience/test/breaker/Circuit{State,Counts}.test.ts",
      "packages/resilience/test/{Backoff,retry/RetryBudgetState}.test.ts"
    ],
    testTimeout: 20_000
  }
})
