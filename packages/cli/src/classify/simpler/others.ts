/** The shorter rules: HTTP status only, learn-claude-code s11, nexo-rs, claw0. */
import { Vocabulary } from "@outlast/agent/presets"
import type { Label } from "../cases/Label.ts"
import { labelOf } from "../cases/Label.ts"
import { firstOf, make } from "./SimplerRule.ts"

const statuses: { readonly [status: number]: Label } = {
  400: "format",
  401: "auth",
  402: "billing",
  403: "auth",
  404: "model_not_found",
  408: "timeout",
  413: "context_overflow",
  422: "format",
  429: "rate_limit",
  499: "cancelled",
  502: "overloaded",
  503: "overloaded",
  504: "timeout",
  522: "timeout",
  524: "timeout",
  529: "overloaded"
}

/** The best possible rule that reads only the status. */
export const statusOnly = make({
  name: "HTTP status only",
  vocabulary: "our 14 reasons",
  classOf: labelOf,
  sort: ({ status = 0 }) => statuses[status] ?? (status >= 500 ? "server_error" : "unknown")
})

export const s11 = make({
  name: "learn-claude-code s11",
  vocabulary: "3 classes, or none",
  classOf: Vocabulary.s11,
  sort: ({ text, name }): Vocabulary.S11Class => {
    const lower = text.toLowerCase()
    const kind = name.toLowerCase()
    if (kind.includes("ratelimit") || lower.includes("429")) return "rate_limit"
    if (kind.includes("overloaded") || lower.includes("overloaded") || lower.includes("529"))
      return "overloaded"
    return (lower.includes("prompt") && lower.includes("long")) ||
      /prompt_is_too_long|context_length_exceeded|max_context_window/.test(lower)
      ? "prompt_too_long"
      : "unrecoverable"
  }
})

/** A 429 is retried unless the window of a subscription is used up. All 5xx are retried. */
export const nexo = make({
  name: "nexo-rs",
  vocabulary: "retryable or not",
  classOf: Vocabulary.nexo,
  sort: ({ status = 0, headers }): Vocabulary.NexoClass => {
    const rejected = headers["anthropic-ratelimit-unified-status"] === "rejected"
    return (status === 429 && !rejected) || status >= 500 ? "retryable" : "not_retryable"
  }
})

const claw0Words: ReadonlyArray<readonly [Vocabulary.Claw0Class, ReadonlyArray<RegExp>]> = [
  ["rate_limit", [/rate/, /429/]],
  ["auth", [/auth/, /401/, /key/]],
  ["timeout", [/timeout/, /timed out/]],
  ["billing", [/billing/, /quota/, /402/]],
  ["overflow", [/context/, /token/, /overflow/]]
]

export const claw0 = make({
  name: "claw0",
  vocabulary: "6 classes",
  classOf: Vocabulary.claw0,
  sort: ({ text }) => firstOf(claw0Words, text.toLowerCase()) ?? "unknown"
})
