/** The promises of learn-claude-code s11, error recovery. */
import type { Seed } from "../Promises.ts"
import { outOfScope, tests, works } from "../Promises.ts"

const loopOverflowAt = tests("packages/agent/test/loop/Overflow.test.ts")
const mediaDroppedAt = tests("packages/agent/test/failover/MediaDropped.test.ts")
const runLimitAt = tests("packages/agent/test/recovery/RunLimit.test.ts")
const s11At = tests("packages/agent/test/presets/S11.test.ts")
const tiersAt = tests("packages/agent/test/compaction/Tiers.test.ts")
const truncationAt = tests("packages/agent/test/recovery/Truncation.test.ts")

export const s11: Seed = {
  seed: "002",
  name: "learn-claude-code s11, error recovery",
  promises: [
    // Problem
    works(
      "002-no-crash",
      "an error of the API does not crash the agent: it retries, switches the model or reduces the context",
      s11At("are retried ten times, min(500 · 2^n, 32000) ms apart, on the same model"),
      s11At("switch to the fallback model, and notify the user"),
      s11At("a conversation that is too long is compacted once, then the call fails")
    ),
    // Solution
    works(
      "002-loop-continue",
      "only the LLM call is wrapped; after a recovery the loop goes back to the top and calls the model again",
      loopOverflowAt("continues with a smaller prompt")
    ),
    works(
      "002-by-type",
      "the recovery path depends on the type of the error",
      s11At("are retried ten times, min(500 · 2^n, 32000) ms apart, on the same model"),
      s11At("a conversation that is too long is compacted once, then the call fails")
    ),
    works(
      "002-three-patterns",
      "the three common patterns have a path each: truncated output, context overflow, transient failure",
      s11At(
        "is repeated once with 64,000 tokens instead of 8,000, then continued three times, then delivered"
      ),
      s11At("a conversation that is too long is compacted once, then the call fails"),
      s11At("are retried ten times, min(500 · 2^n, 32000) ms apart, on the same model")
    ),
    // Path 1
    works(
      "002-max-default",
      "max_tokens is 8000 by default",
      s11At(
        "is repeated once with 64,000 tokens instead of 8,000, then continued three times, then delivered"
      )
    ),
    works(
      "002-escalate-64k",
      "the first truncation raises max_tokens from 8K to 64K (8 times)",
      s11At(
        "is repeated once with 64,000 tokens instead of 8,000, then continued three times, then delivered"
      )
    ),
    works(
      "002-escalate-same",
      "the same request is repeated; the truncated output is not appended to the messages",
      truncationAt("is requested again with 64,000 tokens, without the cut answer")
    ),
    works(
      "002-escalate-once",
      "escalation happens once",
      runLimitAt("applies to later turns, and not to another run, with whole answers"),
      runLimitAt("applies to later turns, and not to another run, with streams")
    ),
    works(
      "002-continue-keep",
      "if 64K is not enough, the truncated output is saved and a continuation prompt injected that tells the model to pick up where it left off",
      truncationAt("is kept and continued three times, joined without overlap, then delivered as it is")
    ),
    works(
      "002-continue-3",
      "at most 3 continuations",
      s11At(
        "is repeated once with 64,000 tokens instead of 8,000, then continued three times, then delivered"
      )
    ),
    works(
      "002-continue-stop",
      "after that it exits with what it has",
      s11At(
        "is repeated once with 64,000 tokens instead of 8,000, then continued three times, then delivered"
      )
    ),
    // Path 2
    works("002-overflow-signal", "prompt_too_long is recognised"),
    works(
      "002-overflow-after-s08",
      "the four ordinary compaction layers have run before; reactive compaction is more aggressive than they"
    ),
    works(
      "002-overflow-keep5",
      "reactive compaction keeps only the last 5 messages",
      tiersAt("keeps as little as the imitated systems by preset: s11 five messages, codebuddy four")
    ),
    works("002-overflow-summary", "(real system) reactive compaction makes a compact summary by LLM"),
    works(
      "002-overflow-retry",
      "the call is repeated with the compacted messages",
      loopOverflowAt("continues with a smaller prompt")
    ),
    works(
      "002-overflow-once",
      "one reactive compaction; still too long → exit",
      s11At("a conversation that is too long is compacted once, then the call fails")
    ),
    // Path 3
    works(
      "002-t-429",
      "429 is retried with backoff and jitter",
      s11At("are retried ten times, min(500 · 2^n, 32000) ms apart, on the same model")
    ),
    works("002-t-529", "529 is retried with backoff and jitter"),
    works("002-t-blips", "network blips are named among transient failures"),
    works(
      "002-t-first-waits",
      "waits 0.5 s, 1 s, 2 s",
      s11At("are retried ten times, min(500 · 2^n, 32000) ms apart, on the same model")
    ),
    works(
      "002-t-10",
      "at most 10 retries",
      s11At("are retried ten times, min(500 · 2^n, 32000) ms apart, on the same model")
    ),
    works("002-t-jitter", "jitter keeps concurrent requests from retrying at the same instant"),
    works(
      "002-t-fallback3",
      "three consecutive 529 switch to the fallback model",
      s11At("switch to the fallback model, and notify the user"),
      s11At("do not switch if another failure comes between")
    ),
    works(
      "002-t-env",
      "the fallback model is the environment variable FALLBACK_MODEL_ID; without it retrying goes on",
      s11At("switch to the model that FALLBACK_MODEL_ID names"),
      s11At("continue to be retried without FALLBACK_MODEL_ID")
    ),
    works("002-t-formula", "delay = min(500 × 2^attempt, 32000) ms + random 0–25 %"),
    works(
      "002-t-retry-after",
      "a Retry-After header takes priority over the formula",
      s11At("wait exactly as long as a Retry-After, longer or shorter than the backoff")
    ),
    // Putting it together
    works(
      "002-compose",
      "three mechanisms, each for its own kind of error: outer catch, retry inside, stop reason check",
      s11At(
        "is repeated once with 64,000 tokens instead of 8,000, then continued three times, then delivered"
      ),
      s11At("a conversation that is too long is compacted once, then the call fails"),
      s11At("share the retries between rate limits and overloads")
    ),
    // Try it
    works("002-try-escalate-log", 'the log shows "[max_tokens] escalating"'),
    works(
      "002-try-compact",
      "reading many files bloats the context, and the reactive compaction can be observed"
    ),
    works("002-try-backoff-log", "the backoff can be observed in the log"),
    // Solution
    works(
      "002-real-more",
      "connection errors, timeouts and caches of cloud credentials are covered, too (real systems)"
    ),
    // What's next
    outOfScope(
      "002-next-tasks",
      "a task list with dependencies, persisted to disk, resumable across sessions (s12)",
      "tasks are on disk and go on in another session, but know no dependencies: a program submits the next one when the first has ended"
    ),
    // Deep dive 1
    works("002-code-completed", "transition code completed"),
    works("002-code-next_turn", "transition code next_turn"),
    works("002-code-escalate", "transition code max_output_tokens_escalate"),
    works("002-code-recovery", "transition code max_output_tokens_recovery"),
    works("002-code-reactive", "transition code reactive_compact_retry"),
    works("002-code-prompt_too_long", "transition code prompt_too_long (given up)"),
    works(
      "002-code-collapse_drain",
      "transition code collapse_drain_retry: what is staged is committed before reactive compaction"
    ),
    works("002-code-model_error", "transition code model_error"),
    works("002-code-image_error", "transition code image_error: an image is refused for its size"),
    works("002-code-aborted_streaming", "transition code aborted_streaming"),
    works("002-code-aborted_tools", "transition code aborted_tools"),
    works(
      "002-code-stop_hook_blocking",
      "transition code stop_hook_blocking: a hook's blocking error is put in so that the model corrects itself"
    ),
    works("002-code-stop_hook_prevented", "transition code stop_hook_prevented: a hook prevents going on"),
    works("002-code-hook_stopped", "transition code hook_stopped"),
    works(
      "002-code-token_budget",
      "transition code token_budget_continuation: below 90 % of a token target the model is nudged to go on"
    ),
    works("002-code-blocking_limit", "transition code blocking_limit"),
    works("002-code-max_turns", "transition code max_turns"),
    works("002-code-dozen", "a dozen or more codes, evaluated after every LLM call"),
    // Deep dive 2
    works(
      "002-cc-formula",
      "real backoff: min(500 × 2^(attempt−1), 32000) + 0–25 %, attempt from 1: 500–625, 1000–1250, 2000–2500, 4000–5000, from the 7th 32,000–40,000 ms"
    ),
    works(
      "002-cc-retry-after",
      "Retry-After wins",
      s11At("wait exactly as long as a Retry-After, longer or shorter than the backoff")
    ),
    // Deep dive 3
    works(
      "002-cc-continuation",
      "a continuation prompt: resume directly, no apology, no recap, smaller pieces"
    ),
    works("002-cc-nudge", "a token budget nudge that says at what share of the target it stopped"),
    // Deep dive 4
    works(
      "002-cc-withhold-413",
      "413 is withheld from the consumer of the stream until recovery has failed",
      loopOverflowAt("asks again if only a preamble was shown")
    ),
    works(
      "002-cc-withhold-max",
      "max_tokens is withheld from the consumer until recovery has failed",
      truncationAt("before any text is raised, and its thinking is marked as partial"),
      truncationAt("after text is continued in one block, with each token counted once")
    ),
    works(
      "002-cc-withhold-media",
      "media errors are withheld from the consumer until recovery has failed",
      mediaDroppedAt("is replaced by a note, and the same target answers (anthropics/claude-code#25592)")
    ),
    // Deep dive 5
    works(
      "002-cc-529-3",
      "MAX_529_RETRIES = 3, then the fallback model (Opus → Sonnet)",
      s11At("switch to the fallback model, and notify the user")
    ),
    works(
      "002-cc-529-clear",
      "at the switch all pending messages and tool results are cleared",
      s11At("retract the partial output if the consumer supports it; otherwise it is continued"),
      s11At("a tool call of an abandoned attempt is not shown, even if it was complete")
    ),
    works(
      "002-cc-529-message",
      'the user sees "Switched to {model} due to high demand"',
      s11At("switch to the fallback model, and notify the user")
    ),
    // Deep dive 6
    works(
      "002-cc-diminishing",
      "three continuations in a row with a token gain under 500 stop the continuation",
      s11At("is not continued after three consecutive gains of under 500 tokens")
    )
  ]
}
