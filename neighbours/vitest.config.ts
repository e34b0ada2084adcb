import { join } from "node:path"
import { defineConfig } from "vitest/config"

// Without "import": CommonJS packages would get modules from each other.
const conditions = ["@outlast/source", "node", "default"]

/** Frameworks beside Outlast, which have a lockfile of their own: `npm run neighbours`. */
export default defineConfig({
  root: join(import.meta.dirname, ".."),
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["neighbours/*.test.ts"],
    testTimeout: 60_000,
    setupFiles: ["./test/setup.ts"]
  }
})
