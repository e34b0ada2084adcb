/** The promises of claw0 section 9, resilience. */
import type { Seed } from "../Promises.ts"
import { outOfScope, tests, works } from "../Promises.ts"

const agentAt = tests("packages/agent/test/loop/Agent.test.ts")
const chatAt = tests("packages/cli/test/chat/terminal.test.ts")
const clAt = tests("packages/agent/test/presets/Claw0.test.ts")
const compactionAt = tests("packages/agent/test/compaction/Compaction.test.ts")
const endToEndAt = tests("test/end-to-end/failures.test.ts")
const failoverAt = tests("packages/agent/test/failover/Failover.test.ts")
const faultPlanAt = tests("packages/testing/test/FaultPlan.test.ts")
const ownAt = tests("test/seeds/claw0.test.ts")
const targetsAt = tests("packages/agent/test/failover/Targets.test.ts")
const timelineAt = tests("packages/testing/test/Timeline.test.ts")
const vocabularyAt = tests("packages/agent/test/presets/Vocabulary.test.ts")

export const claw0: Seed = {
  seed: "004",
  name: "claw0 section 9, resilience",
  promises: [
    // Architecture
    works(
      "004-arch-profiles",
      "profiles are tried in order: main, backup, emergency key",
      clAt("are used in order and at once; each is available again when its cooldown ends")
    ),
    works(
      "004-arch-skip-cooling",
      "profiles in cooldown are skipped",
      clAt("are used in order and at once; each is available again when its cooldown ends")
    ),
    works(
      "004-arch-client",
      "each attempt uses the profile's own key",
      clAt("are used in order and at once; each is available again when its cooldown ends")
    ),
    works("004-arch-compact-0-2", "up to 3 compaction attempts per profile (0..2)"),
    works(
      "004-arch-success",
      "success marks the profile good and returns the result",
      clAt("are used in order and at once; each is available again when its cooldown ends")
    ),
    works(
      "004-arch-overflow",
      "overflow → compact and retry in layer 2",
      clAt("an overflow compacts three times and cools down no key")
    ),
    works(
      "004-arch-auth-rate",
      "auth or rate limit → mark the failure, next profile",
      clAt("cool down for 300 s: auth"),
      clAt("cool down for 120 s: rate_limit")
    ),
    works(
      "004-arch-timeout",
      "timeout → mark the failure for 60 s, next profile",
      clAt("cool down for 60 s: timeout")
    ),
    works(
      "004-arch-fallback",
      "all profiles exhausted → the fallback models are tried",
      clAt("are used for the fallback model at once when all of them are unavailable")
    ),
    works(
      "004-arch-raise",
      "all fallbacks failed → an error is raised",
      clAt("fail the call at once when all of them are unavailable and there is no other model")
    ),
    // Key concepts
    works(
      "004-reason-six",
      "every exception is one of six: rate_limit, auth, timeout, billing, overflow, unknown; the category decides the layer",
      vocabularyAt("covers every reason"),
      ownAt("004-reason-six: rate_limit is handled by its layer"),
      ownAt("004-reason-six: auth is handled by its layer"),
      ownAt("004-reason-six: timeout is handled by its layer"),
      ownAt("004-reason-six: billing is handled by its layer"),
      ownAt("004-reason-six: overflow is handled by its layer"),
      ownAt("004-reason-six: unknown is handled by its layer")
    ),
    works(
      "004-profile-key",
      "an AuthProfile holds one API key",
      clAt("are used in order and at once; each is available again when its cooldown ends")
    ),
    works(
      "004-profile-until",
      "an AuthProfile tracks cooldown_until",
      targetsAt("lists each target with its state, time and reason, also those that could not be built")
    ),
    works(
      "004-profile-reason",
      "an AuthProfile tracks failure_reason",
      targetsAt("lists each target with its state, time and reason, also those that could not be built")
    ),
    works("004-profile-good", "an AuthProfile tracks last_good_at"),
    works(
      "004-pm-first",
      "the first profile not in cooldown is selected",
      clAt("are used in order and at once; each is available again when its cooldown ends")
    ),
    works("004-pm-fail", "marking a failure sets the cooldown", clAt("cool down for 300 s: auth")),
    works(
      "004-pm-success",
      "marking a success clears the failure state",
      failoverAt(
        "a success clears the cooldowns, and the next call asks a failed only target of the chain again"
      )
    ),
    works(
      "004-guard-truncate",
      "the context guard first truncates oversized tool results",
      compactionAt("cuts the middle out of a result larger than 30 % of the window, even in the tail")
    ),
    works(
      "004-guard-summary",
      "then, if it still overflows, compacts the history by an LLM summary",
      compactionAt("tier 3 summarises the oldest half in one call and strips the rest")
    ),
    works("004-onion", "three layers: key rotation, overflow compaction, tool-use loop"),
    works("004-limit-base", "BASE_RETRY = 24", clAt("the cap of a run is min(max(24 + 8·N, 32), 160)")),
    works("004-limit-per", "PER_PROFILE = 8", clAt("the cap of a run is min(max(24 + 8·N, 32), 160)")),
    works(
      "004-limit-formula",
      "min(max(24 + 8·N, 32), 160)",
      clAt("the cap of a run is min(max(24 + 8·N, 32), 160)")
    ),
    works(
      "004-sim-arm",
      "a synthetic error can be armed for the next API call, so that each class can be observed without a real failure",
      timelineAt("fails the next attempt once, for each reason, and the chain reacts")
    ),
    // Classify_failure
    outOfScope(
      "004-cls-rate",
      'text "rate" or "429" → rate_limit, asked first',
      'bare words decide nothing: "rate" is a part of "generate". The document\'s own sentence is a rate limit'
    ),
    outOfScope(
      "004-cls-auth",
      'text "auth", "401" or "key" → auth, second',
      'bare words decide nothing: "key" is a part of "keyword". The document\'s own sentence is a refused key'
    ),
    works("004-cls-timeout", 'text "timeout" or "timed out" → timeout, third'),
    works("004-cls-billing", 'text "billing", "quota" or "402" → billing, fourth'),
    outOfScope(
      "004-cls-overflow",
      'text "context", "token" or "overflow" → overflow, fifth',
      'bare words decide nothing: "token" is in "unexpected token". The document\'s own sentence is an overflow'
    ),
    works("004-cls-unknown", "everything else → unknown"),
    // Cooldowns
    works("004-cool-auth", "auth: 300 s", clAt("cool down for 300 s: auth")),
    works("004-cool-billing", "billing: 300 s", clAt("cool down for 300 s: billing")),
    works("004-cool-rate", "rate_limit: 120 s", clAt("cool down for 120 s: rate_limit")),
    works("004-cool-timeout", "timeout: 60 s", clAt("cool down for 60 s: timeout")),
    works(
      "004-cool-overflow",
      "overflow: no cooldown, messages are compacted instead",
      clAt("an overflow compacts three times and cools down no key")
    ),
    // ProfileManager
    works(
      "004-cool-expiry",
      "a profile is available again exactly when now ≥ cooldown_until",
      clAt("are used in order and at once; each is available again when its cooldown ends")
    ),
    works("004-cool-default", "mark_failure without a number cools 300 s"),
    works(
      "004-cool-none",
      "no profile available → none is selected, and rotation ends",
      clAt("fail the call at once when all of them are unavailable and there is no other model")
    ),
    // ResilienceRunner
    works(
      "004-run-messages",
      "each profile starts from the messages of the caller; compaction of one attempt carries into the next"
    ),
    works("004-run-result", "the result and the updated messages are returned"),
    works("004-run-fallback-first", "a fallback model is tried with the first available profile"),
    works("004-run-error", '"all profiles and fallbacks exhausted"'),
    // Tool-use loop
    works(
      "004-loop-until",
      "the loop calls the model and runs tools until end_turn, or an exception reaches the outer layers",
      agentAt("asks, runs tools, asks again, and reports its usage")
    ),
    works(
      "004-loop-max-tokens",
      "max_tokens = 8096",
      clAt("an answer has at most 8,096 tokens, and a cut answer is delivered as it is")
    ),
    works(
      "004-loop-results",
      "each tool_use block gets a tool_result with its id, all in the next user message",
      agentAt("returns the results of parallel calls in the order of the calls")
    ),
    works("004-loop-cap", "at most max_iterations iterations"),
    works("004-loop-cap-error", 'above it: "Tool-use loop exceeded max iterations"'),
    // Try it
    works(
      "004-repl-chat",
      "an interactive chat: a normal message answers by one profile",
      chatAt("answers a normal message by one profile")
    ),
    works(
      "004-repl-profiles",
      "/profiles shows the status of the profiles",
      chatAt("shows the status of the profiles")
    ),
    works(
      "004-repl-sim-rate",
      "/simulate-failure rate_limit, then a message: the rotation can be watched",
      chatAt("shows the rotation after a simulated rate limit")
    ),
    works(
      "004-repl-sim-auth",
      "/simulate-failure auth",
      chatAt("shows the rotation after a simulated auth failure")
    ),
    works(
      "004-repl-cooldowns",
      "/cooldowns shows the cooldowns",
      chatAt("shows the cooldowns with their reasons")
    ),
    works(
      "004-repl-fallback",
      "/fallback shows the fallback chain",
      chatAt("shows the fallback chain and which model is asked next")
    ),
    works(
      "004-repl-stats",
      "/stats shows statistics of the resilience",
      chatAt("shows statistics of the resilience")
    ),
    // OpenClaw table
    works(
      "004-oc-keys",
      "several real keys across providers",
      failoverAt("a second key that is ready is used at once after a 429")
    ),
    works(
      "004-oc-status",
      "the classifier checks HTTP status codes beside texts",
      clAt("cool down for 300 s: auth")
    ),
    works(
      "004-oc-two-stage",
      "two-stage compaction: truncate tool results, then an LLM summary",
      compactionAt("cuts the middle out of a result larger than 30 % of the window, even in the tail"),
      compactionAt("tier 3 summarises the oldest half in one call and strips the rest")
    ),
    works("004-oc-cooldown", "cooldowns are tracked per profile", clAt("cool down for 300 s: auth")),
    works(
      "004-oc-fallback",
      "a configurable fallback chain, typically of smaller, cheaper models",
      clAt("are used for the fallback model at once when all of them are unavailable")
    ),
    works(
      "004-oc-formula",
      "the same formula of retry limits",
      clAt("the cap of a run is min(max(24 + 8·N, 32), 160)")
    ),
    works(
      "004-oc-harness",
      "an integration test harness with fault injection",
      faultPlanAt("apply once each, in order, and then the answers are normal"),
      endToEndAt("a server that is killed in the middle of a stream")
    )
  ]
}
