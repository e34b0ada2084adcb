/**
 * For `npm run mutation -- tools/failover.config.js`: the tests of `CallState` and `RetryQueue`. Not its model test, which
 * plays its calls once: with one worker for all mutants it would check the same calls again for each of them.
 */
import base from "./vitest.config.ts"

export default {
  ...base,
  test: {
    ...base.test,
    include: ["packages/agent/test/failover/{CallSteps,RetryQueue}.test.ts"],
    isolate: false
  }
}
