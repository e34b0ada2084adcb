/** The policies of the simulation by name: options of `Failover.layer`. */
import { Presets, RecoveryPolicy } from "@outlast/agent"
import type { Failover } from "@outlast/agent"

export type Options = Failover.Options<string>

const { base, background, interactive } = RecoveryPolicy

/** One attempt per call at the first target, without state between calls, as in a program without Outlast. */
const noRetry: RecoveryPolicy.RecoveryPolicy<"any"> = {
  ...interactive,
  classOf: () => "any",
  rows: { any: { ...base, then: "stop" } },
  maxAttempts: 1,
  circuits: false,
  retryBudget: false,
  whenAllOut: "fail"
}

/** Circuits that open when most calls take longer than ten seconds. */
const slowCircuits: RecoveryPolicy.RecoveryPolicy = {
  ...interactive,
  circuits: {
    trip: {
      consecutive: false,
      rate: { minimumCalls: 10, failures: false, slow: 0.5, slowerThan: "10 seconds" }
    }
  }
}

export const policies = {
  interactive: { policy: interactive },
  background: { policy: background },
  "no-circuits": { policy: { ...interactive, circuits: false } },
  "no-budget": { policy: { ...interactive, retryBudget: false } },
  neither: { policy: { ...interactive, circuits: false, retryBudget: false } },
  "no-retry": { policy: noRetry, limiter: false },
  "slow-circuits": { policy: slowCircuits },
  codebuddy: { policy: Presets.codebuddy.policy },
  decision037: { policy: Presets.decision037.policy },
  s11: { policy: Presets.s11.policy },
  nexo: { policy: Presets.nexo.policy, circuitsOf: Presets.nexo.circuitsOf },
  claw0: { policy: Presets.claw0.policy }
} satisfies Readonly<Record<string, Options>>

export type PolicyName = keyof typeof policies

/** The same policy without circuits and retry budget. */
export const unprotected = (options: Options): Options => ({
  ...options,
  breaker: undefined,
  retryBudget: undefined,
  policy: { ...(options.policy ?? interactive), circuits: false, retryBudget: false }
})
