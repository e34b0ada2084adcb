/** For `npm run mutation -- tools/choice.config.js`: the tests of these machines. */
import base from "./vitest.config.ts"

export default {
  ...base,
  test: {
    ...base.test,
    include: [
      "packages/agent/test/failover/{Choice,ChoiceRules,Cooldown}.test.ts",
      "packages/agent/test/guard/{GuardLimits,GuardState}.test.ts"
    ],
    isolate: false
  }
}
