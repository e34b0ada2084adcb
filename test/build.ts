/** Bundles the packages once before the tests, and again before each run of the watch mode: tests start what users get. */
import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { TestProject } from "vitest/node"

const script = fileURLToPath(new URL("../scripts/bundle.ts", import.meta.url))
const bundle = (): void => void execFileSync(process.execPath, [script], { stdio: "inherit" })

export default (project: TestProject): void => {
  bundle()
  project.onTestsRerun(async () => bundle())
}
