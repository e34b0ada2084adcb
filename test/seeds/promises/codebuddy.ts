/** The promises of CodeBuddy, self-healing execution. */
import type { Seed } from "../Promises.ts"
import { outOfScope, tests, works } from "../Promises.ts"

const b30At = tests("packages/agent/test/failover/Behaviour30.test.ts")
const backoffsAt = tests("packages/agent/test/presets/Backoffs.test.ts")
const catalogueAt = tests("packages/providers/test/catalogue.test.ts")
const cbAt = tests("packages/agent/test/presets/Codebuddy.test.ts")
const compactionAt = tests("packages/agent/test/compaction/Compaction.test.ts")
const guardAt = tests("packages/agent/test/guard/SafetyGuard.test.ts")
const guardStateAt = tests("packages/agent/test/guard/GuardState.test.ts")
const hostileErrorsAt = tests("packages/agent/test/failure/Hostile.test.ts")
const hostileGuardAt = tests("packages/agent/test/guard/Hostile.test.ts")
const permissionAt = tests("packages/agent/test/guard/Permission.test.ts")
const subagentsAt = tests("packages/agent/test/guard/Subagents.test.ts")
const summariserAt = tests("packages/agent/test/compaction/Summariser.test.ts")
const targetsAt = tests("packages/agent/test/failover/Targets.test.ts")
const tiersAt = tests("packages/agent/test/compaction/Tiers.test.ts")
const vocabularyAt = tests("packages/agent/test/presets/Vocabulary.test.ts")

export const codebuddy: Seed = {
  seed: "000",
  name: "CodeBuddy, self-healing execution",
  promises: [
    // Introduction
    works(
      "000-intro-detect",
      "When something goes wrong the agent does not stop: failures are detected, classified, and an automatic recovery is applied before anybody is told of an error",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider")
    ),
    works(
      "000-intro-limits",
      "Hard limits are enforced so that execution cannot run away",
      guardAt("stop the run at call 401 with the documented message")
    ),
    works(
      "000-intro-independent",
      "Each of the four layers works on its own: any one can be used without the other three"
    ),
    works(
      "000-intro-next-layer",
      "A failure that one layer cannot handle is caught by the next one (retries of layer 2 used up → layer 1 switches; recovery never outruns layer 3)",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider"),
      vocabularyAt("never retries RateLimit from the safety guard")
    ),
    // Layer 1
    works(
      "000-L1-monitor",
      "The health of each LLM provider is monitored",
      targetsAt("lists each provider's health, in Unix time")
    ),
    works(
      "000-L1-auto-switch",
      "When the primary provider fails, a call goes to a fallback provider automatically",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider")
    ),
    // Layer 1, error classification
    works(
      "000-L1-eight-reasons",
      "Every provider error gets exactly one of eight reasons: auth, rate_limit, billing, timeout, overloaded, model_not_found, format, unknown",
      vocabularyAt("covers every reason"),
      vocabularyAt("maps Auth to the classes of five systems")
    ),
    works(
      "000-L1-auth-cooldown",
      "reason auth: the provider cools for 10 minutes",
      cbAt("auth: 401: 1 attempts, 600 s")
    ),
    works("000-L1-auth-http401", "HTTP 401 is auth", cbAt("auth: 401: 1 attempts, 600 s")),
    works("000-L1-auth-http403", "HTTP 403 is auth", cbAt("auth: 403: 1 attempts, 600 s")),
    works("000-L1-auth-invalid-key", 'the text "invalid API key" is auth'),
    works("000-L1-auth-unauthorized", 'the text "unauthorized" is auth'),
    works(
      "000-L1-rate-cooldown",
      "reason rate_limit: cooldown 1 minute",
      cbAt("rate_limit: 429: 3 attempts, 60 s")
    ),
    works("000-L1-rate-http429", "HTTP 429 is rate_limit", cbAt("rate_limit: 429: 3 attempts, 60 s")),
    works("000-L1-rate-quota", 'the text "quota exceeded" is rate_limit'),
    works("000-L1-rate-text", 'the text "rate limit" is rate_limit'),
    works(
      "000-L1-billing-cooldown",
      "reason billing: cooldown 30 minutes",
      cbAt("billing: 402: 1 attempts, 1800 s")
    ),
    works("000-L1-billing-http402", "HTTP 402 is billing", cbAt("billing: 402: 1 attempts, 1800 s")),
    works("000-L1-billing-text", "billing-related texts are billing"),
    works(
      "000-L1-timeout-cooldown",
      "reason timeout: cooldown 30 seconds",
      cbAt("timeout: 408: 3 attempts, 30 s")
    ),
    works("000-L1-timeout-http408", "HTTP 408 is timeout", cbAt("timeout: 408: 3 attempts, 30 s")),
    works("000-L1-timeout-etimedout", "ETIMEDOUT is timeout"),
    works("000-L1-timeout-network", "a network timeout is timeout"),
    works(
      "000-L1-overloaded-cooldown",
      "reason overloaded: cooldown 2 minutes",
      cbAt("overloaded: 529: 3 attempts, 120 s")
    ),
    works("000-L1-overloaded-http502", "HTTP 502 is overloaded", cbAt("overloaded: 502: 3 attempts, 120 s")),
    works("000-L1-overloaded-http503", "HTTP 503 is overloaded", cbAt("overloaded: 503: 3 attempts, 120 s")),
    works("000-L1-overloaded-text", 'the text "overloaded" is overloaded'),
    works("000-L1-overloaded-capacity", 'the text "capacity" is overloaded'),
    works(
      "000-L1-notfound-cooldown",
      "reason model_not_found: cooldown 1 hour",
      cbAt("model_not_found: 404: 1 attempts, 3600 s")
    ),
    works(
      "000-L1-notfound-http404",
      "HTTP 404 is model_not_found",
      cbAt("model_not_found: 404: 1 attempts, 3600 s")
    ),
    works("000-L1-notfound-text", '"model doesn\'t exist" is model_not_found'),
    works(
      "000-L1-format-no-cooldown",
      "reason format: no cooldown",
      cbAt("format: no cooldown, no failover")
    ),
    works(
      "000-L1-format-no-failover",
      "errors in parsing a response's format are format, and do not fail over",
      cbAt("format: no cooldown, no failover")
    ),
    works(
      "000-L1-unknown-cooldown",
      "reason unknown: cooldown 30 seconds",
      cbAt("unknown: 30 s of cooldown, and the next provider at once")
    ),
    works("000-L1-unknown-any", "whatever is not classified is unknown"),
    works(
      "000-L1-cause-depth",
      "classification walks the chain of causes, up to 5 levels deep, to the root cause",
      hostileErrorsAt("reads five levels of causes")
    ),
    // Layer 1, health tracking
    works("000-L1-health-provider", "the health record names its provider"),
    works("000-L1-health-status", "status is one of healthy, degraded, down"),
    works("000-L1-health-errorCount", "the health record has errorCount"),
    works("000-L1-health-lastError", "the health record has lastError (optional)"),
    works(
      "000-L1-health-lastErrorReason",
      "the health record has lastErrorReason (optional), a FailoverReason"
    ),
    works("000-L1-health-lastSuccessAt", "the health record has lastSuccessAt (optional), a time"),
    works("000-L1-health-cooldownUntil", "the health record has cooldownUntil, always a number"),
    // Layer 1, failover chain
    works(
      "000-L1-chain-config",
      "the user configures an ordered list of providers, for example anthropic, openai, google"
    ),
    works(
      "000-L1-chain-record",
      "when the primary fails, the reason and the cooldown are recorded",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider")
    ),
    works(
      "000-L1-chain-next",
      "the next provider of the chain that is not in cooldown is selected",
      b30At("30 a cooling provider is skipped, unless all providers cool")
    ),
    works(
      "000-L1-chain-seamless",
      "when the new provider succeeds, execution goes on seamlessly (same result type, no duplicated user turn, no user code)"
    ),
    works(
      "000-L1-chain-probe",
      "the original provider is probed again 30 seconds before its cooldown ends",
      cbAt("the primary is probed once, 30 s before its cooldown ends")
    ),
    // Layer 2
    works(
      "000-L2-decide",
      "each stream error is evaluated on its own, and the service decides whether to retry",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider"),
      cbAt("auth: 401: 1 attempts, 600 s")
    ),
    works(
      "000-L2-transient-retry",
      "transient errors are retried automatically with backoff",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider")
    ),
    works(
      "000-L2-permanent-fail",
      "permanent errors fail immediately, without a retry",
      cbAt("auth: 401: 1 attempts, 600 s")
    ),
    // Layer 2, transient patterns
    works("000-L2-t-timeout", '"timeout" is transient'),
    works("000-L2-t-econnreset", "ECONNRESET is transient"),
    works("000-L2-t-econnrefused", "ECONNREFUSED is transient"),
    works("000-L2-t-enotfound", "ENOTFOUND is transient"),
    works("000-L2-t-ratelimit", '"rate limit" is transient'),
    works("000-L2-t-429", "429 is transient"),
    works("000-L2-t-502", "502 is transient"),
    works("000-L2-t-503", "503 is transient"),
    works("000-L2-t-internal", '"internal server error" is transient'),
    works("000-L2-t-overloaded", '"overloaded" is transient'),
    works("000-L2-t-hangup", '"socket hang up" is transient'),
    // Layer 2, permanent patterns
    works("000-L2-p-loop", '"loop detected" is permanent'),
    works("000-L2-p-infinite", '"infinite loop" is permanent'),
    works("000-L2-p-samefile", '"same file edited" is permanent'),
    works("000-L2-p-safety", '"safety limit" is permanent'),
    works("000-L2-p-cancel", '"user cancel" is permanent'),
    works("000-L2-p-abort", '"abort" is permanent'),
    works("000-L2-p-authn", '"authentication" is permanent'),
    works("000-L2-p-unauthorized", '"unauthorized" is permanent'),
    works("000-L2-p-key", '"invalid api key" is permanent'),
    works("000-L2-p-quota", '"quota exceeded" is permanent'),
    // Layer 2, retry behavior
    works(
      "000-L2-max-retries",
      "at most 2 retries of a stream",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider")
    ),
    works(
      "000-L2-max-configurable",
      "the number of retries is configurable",
      cbAt("a third retry, if configured, comes after 6 s")
    ),
    works(
      "000-L2-base-delay",
      "base delay 1,500 ms",
      backoffsAt("CodeBuddy waits 1.5, 3 and 6 seconds, without jitter")
    ),
    works(
      "000-L2-formula",
      "delay = baseDelay × 2^attempt, attempt from 0",
      backoffsAt("CodeBuddy waits 1.5, 3 and 6 seconds, without jitter")
    ),
    works(
      "000-L2-sequence",
      "the delays are 1.5 s, 3 s, 6 s",
      cbAt("a third retry, if configured, comes after 6 s")
    ),
    works(
      "000-L2-nudge",
      "each retry carries a nudge message to the agent that tells of the failure, so that it can adjust",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider")
    ),
    // Layer 2, safety guard override
    works(
      "000-L2-guard-override",
      "an error that came from the safety guard is never retried, whatever its text matches"
    ),
    // Layer 3
    works(
      "000-L3-hard",
      "the guard enforces hard limits that the agent cannot override",
      hostileGuardAt("a program that removes the guard from the calls of its own model is stopped"),
      hostileGuardAt("cannot continue in a detached fiber after the run")
    ),
    // Layer 3, global limits
    works("000-L3-events", "at most 2,000 events per task"),
    works(
      "000-L3-toolcalls",
      "at most 400 tool calls per task",
      cbAt("stops at 400 tool invocations, with the sentence of the document")
    ),
    works(
      "000-L3-time",
      "task timeout 10 minutes, an absolute time limit",
      cbAt("stops after ten minutes, including all waits")
    ),
    // Layer 3, per-tool limits
    works("000-L3-tool-edit", "edit_file at most 8 times"),
    works("000-L3-tool-delete", "delete_file at most 3 times"),
    works("000-L3-tool-run", "run_command at most 10 times"),
    works("000-L3-tool-terminal", "run_terminal_command at most 100 times"),
    works("000-L3-tool-web", "web_search at most 8 times"),
    // Layer 3, loop detection
    works(
      "000-L3-tool-loop",
      "a tool loop is detected: the same tool is called again and again without progress",
      subagentsAt("lead to a nudge, then a blocked call, then a stop")
    ),
    works(
      "000-L3-file-loop",
      "a file edit loop is detected: the same file edited more than fileEditLoopThreshold times"
    ),
    works("000-L3-file-threshold", "fileEditLoopThreshold is 4 by default, and can be set"),
    works(
      "000-L3-file-per-path",
      "edits are counted per file path",
      guardAt("count edits of one file under all spellings of its name")
    ),
    works("000-L3-file-reason", 'above the threshold the run is force-stopped with a "file loop" reason'),
    // Layer 3, stop messages
    works(
      "000-L3-message-human",
      "when a limit is hit a human-readable message says what happened",
      guardStateAt("has a sentence for each reason")
    ),
    works(
      "000-L3-message-text",
      '"Forced stop: reached maximum of 400 tool invocations. Events processed: 1,247 | Tool calls: 400 | Elapsed: 7m 23s. Please review the work completed so far."',
      cbAt("stops at 400 tool invocations, with the sentence of the document")
    ),
    // Layer 4
    works(
      "000-L4-bounds",
      "conversations are kept within the context window by tiers",
      compactionAt("compacts above 90 % of the window, down to 60 %")
    ),
    // Layer 4, tiers
    works(
      "000-L4-tier0",
      'tier 0 "none": nothing is done, no LLM',
      compactionAt("returns a conversation that fits as the same object, with its size")
    ),
    works(
      "000-L4-tier1",
      'tier 1 "tool strip": tool results above 200 characters are stripped from older messages, no LLM',
      compactionAt("cuts large results, oldest first, names them, and keeps small ones")
    ),
    works(
      "000-L4-tier2",
      'tier 2 "multi-chunk": batches of messages are summarised with overlapping windows, LLM required',
      summariserAt("gets overlapping chunks of the whole conversation, and then their summaries")
    ),
    works(
      "000-L4-tier3",
      'tier 3 "partial": the oldest half of the conversation is summarised, LLM required',
      compactionAt("tier 3 summarises the oldest half in one call and strips the rest")
    ),
    works(
      "000-L4-tier4",
      'tier 4 "plain fallback": a plain-text description when the LLM\'s summary fails, no LLM',
      compactionAt("tier 4 leaves a few lines without a model"),
      compactionAt("continues with the next tier after a failure and reports the failure")
    ),
    // Layer 4, thresholds
    works("000-L4-warn80", "at 80 % of the window a warning is logged and compaction prepared"),
    works("000-L4-auto90", "at 90 % of the window compaction runs automatically, tier 1 and up"),
    // Layer 4, protected messages
    works(
      "000-L4-protect4",
      "the most recent 4 messages are never summarised",
      tiersAt("keeps as little as the imitated systems by preset: s11 five messages, codebuddy four")
    ),
    works(
      "000-L4-min6",
      "nothing is summarised below 6 messages",
      compactionAt("does not summarise fewer than 6 messages")
    ),
    // Layer 4, windows
    works(
      "000-L4-w-sonnet4",
      "Claude Sonnet 4: 200K tokens",
      catalogueAt("knows the window of claude-sonnet-4")
    ),
    works("000-L4-w-opus4", "Claude Opus 4: 200K tokens", catalogueAt("knows the window of claude-opus-4")),
    works("000-L4-w-gpt4o", "GPT-4o: 128K tokens", catalogueAt("knows the window of gpt-4o")),
    works("000-L4-w-gpt4", "GPT-4: 8K tokens", catalogueAt("knows the window of gpt-4")),
    works(
      "000-L4-w-gemini15",
      "Gemini 1.5 Pro: 2.1M tokens",
      catalogueAt("knows the window of gemini-1.5-pro")
    ),
    works("000-L4-w-deepseek", "DeepSeek Chat: 64K tokens", catalogueAt("knows the window of deepseek-chat")),
    works("000-L4-w-qwen", "Qwen Plus: 131K tokens", catalogueAt("knows the window of qwen-plus")),
    // How the layers work together
    works(
      "000-flow-guard",
      "scenario a: tool call number 401 is stopped by layer 3",
      cbAt("stops at 400 tool invocations, with the sentence of the document")
    ),
    works(
      "000-flow-failover",
      "scenario b: 429 → retry after 1.5 s → 429 → retry after 3 s → 429 → layer 1 cools the provider 1 min and switches; the answer is marked as a fallback's",
      cbAt("429: retries after 1.5 s and 3 s with nudges, then a minute's cooldown and the next provider")
    ),
    works(
      "000-flow-compact",
      "scenario c: 85 % of the window → tier 1 strip → still 92 % → tier 3 summarises the oldest half"
    ),
    // Next steps
    outOfScope(
      "000-next-multiagent",
      "multi-agent architecture with execution guardrails and guard integration (a link)",
      "a link to another document; sub-agents share the limits of their run",
      subagentsAt("share the limits of the tree")
    ),
    outOfScope(
      "000-next-permissions",
      "tools reference with per-tool permission enforcement (a link)",
      "a link to another document; a program's `permit` decides about each call",
      permissionAt("refuses by tool and arguments, and the model reads the reason")
    ),
    outOfScope(
      "000-next-security",
      "permission profiles and blocking of dangerous commands (a link)",
      "a link to another document; `permit` sees the arguments of each call, and destructive tools are blocked earlier",
      permissionAt("refuses by tool and arguments, and the model reads the reason"),
      subagentsAt("block a destructive tool earlier, unless it is idempotent")
    )
  ]
}
