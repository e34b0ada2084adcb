/**
 * Rules on the words of a content filter, which rejected the request or the answer.
 */
import * as Rule from "./Rule.ts"
import { contentPolicy } from "./reasons.ts"

export const policies: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "policy/filtered",
    why: "A filter, or the model's own guard, rejected the content.",
    phrases: [
      "content (management|filtering|filter|filters|moderation|safety|usage|policy) (policy|policies|system|violation|violations|triggered|error|check)",
      "content (filtered|moderation)",
      "(violate|violates|violating|violation|violated)…(policy|policies|terms|guidelines)",
      "(usage|safety|acceptable use|content) (policy|policies|guidelines|system|filters|filter)",
      "(prompt|response|candidate|output|content|generation|text|input)…(was|were|is|been|got) (blocked|flagged|filtered|refused)",
      "(request|message|messages) (was|were|is|has been|have been|got) (flagged|filtered)",
      "flagged (as|by|for|content)",
      "(blocked|filtered|stopped|rejected) (by|due to|because of|for) (recitation|safety|our|the|content|harm*|policy|prohibited|moderation)",
      "(prohibited|inappropriate|harmful|unsafe|sensitive) (content|information)",
      "considered high risk",
      "potentially…(unsafe|sensitive|harmful|violating)",
      "content exists risk",
      "(blocked|blockreason|block_reason|blockedreason|finishreason|finish_reason|finish reason|stop reason)…(refusal|safety|recitation|content_filter|prohibited_content|image_prohibited_content|image_recitation|image_safety|model_armor|blocklist|jailbreak|spii)",
      "(reason|finish_reason|stop_reason|finishreason|stopreason): (refusal|content_filter|content-filter|safety|recitation|prohibited_content)",
      "(blockreason|block_reason|blockedreason)…other",
      "(moderation|guardrail) (intervened|flagged|blocked|required|failed|violation)",
      "guardrail…(intervened|blocked|violation|checks failed|checks have failed)",
      "responsible ai",
      "unable to respond to this request",
      "(input|output) new_sensitive",
      "safety (reasons|settings|ratings|filters|system)"
    ],
    unless: [
      "(tool|function|schema|parameter)…policy",
      "data policy",
      "policy constraint",
      "rate limit*",
      "blocked for url",
      "(ip|country|region|location|organization|account|key)…(is|was|been|has) blocked"
    ],
    reason: contentPolicy
  })
]
