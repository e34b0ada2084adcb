/** For `npm run mutation -- tools/failover.config.js`: mutates the machine of a call, and the queue for the retry budget. */
import base from "./stryker.config.json" with { type: "json" }

export default {
  ...base,
  mutate: [
    "packages/agent/src/failover/decide/CallState.ts",
    "packages/agent/src/failover/decide/CallLimits.ts",
    "packages/agent/src/failover/decide/CutAnswer.ts",
    "packages/agent/src/failover/decide/MidStream.ts",
    "packages/agent/src/failover/chain/RetryQueue.ts"
  ],
  vitest: { configFile: "tools/vitest.failover.config.ts" }
}
