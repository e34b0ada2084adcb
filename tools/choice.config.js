/** For `npm run mutation -- tools/choice.config.js`: mutates the choice of a target, cooldowns and the guard's counts. */
import base from "./stryker.config.json" with { type: "json" }

export default {
  ...base,
  mutate: [
    "packages/agent/src/failover/decide/Choice.ts",
    "packages/agent/src/failover/decide/Cooldown.ts",
    "packages/agent/src/guard/GuardState.ts"
  ],
  vitest: { configFile: "tools/vitest.choice.config.ts" }
}
