/**
 * A vitest reporter for CI: writes "N passed, N failed, N skipped" to the file that `OUTLAST_TEST_SUMMARY` names.
 *
 * In CI nothing may be skipped: with `OUTLAST_REQUIRE_SERVICES=1` a skipped test fails the run.
 */
import { writeFileSync } from "node:fs"
import type { Reporter, SerializedError, TestModule } from "vitest/node"

const count = (modules: ReadonlyArray<TestModule>, state: string): number =>
  modules.flatMap((module) => [...module.children.allTests()]).filter((test) => test.result().state === state)
    .length

/** Files and suites that failed outside their tests. */
const broken = (modules: ReadonlyArray<TestModule>): number =>
  modules
    .flatMap((module) => [module, ...module.children.allSuites()])
    .filter((item) => item.errors().length > 0).length

export default class TestSummary implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>, errors: ReadonlyArray<SerializedError>): void {
    const passed = count(modules, "passed")
    const failed = count(modules, "failed") + broken(modules) + errors.length
    const skipped = count(modules, "skipped")
    const path = process.env["OUTLAST_TEST_SUMMARY"]
    if (path !== undefined) writeFileSync(path, `${passed} passed, ${failed} failed, ${skipped} skipped\n`)
    if (skipped > 0 && process.env["OUTLAST_REQUIRE_SERVICES"] === "1") {
      console.error(`${skipped} tests were skipped; none may be when OUTLAST_REQUIRE_SERVICES=1.`)
      process.exitCode = 1
    }
  }
}
