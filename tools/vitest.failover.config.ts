/** For `npm run mutation -- tools/failover.config.js`: the tests of `CallState` and `RetryQueue`, with fewer calls in its model test. */
import base from "./vitest.config.ts"

export default {
  ...base,
  test: {
    ...base.test,
    include: ["packages/agent/test/failover/{CallState,CallSteps,RetryQueue}.test.ts"],
    // One worker for all files, and the same calls for each mutant.
    isolate: false,
    env: { CALLS: "100", SEED: "1" }
  }
}
