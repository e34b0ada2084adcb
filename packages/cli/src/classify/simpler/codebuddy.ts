/** CodeBuddy's two lists, following its code. Its document treats "quota exceeded" as a rate limit instead. */
import { Vocabulary } from "@outlast/agent/presets"
import type { Seen } from "./SimplerRule.ts"
import { firstOf, make } from "./SimplerRule.ts"

const maxCauses = 5

const statuses: { readonly [status: number]: Vocabulary.CodebuddyReason } = {
  401: "auth",
  402: "billing",
  403: "auth",
  404: "model_not_found",
  408: "timeout",
  429: "rate_limit",
  503: "overloaded"
}

const reasons: ReadonlyArray<readonly [Vocabulary.CodebuddyReason, ReadonlyArray<RegExp>]> = [
  ["auth", [/\bunauthorized\b/i, /\binvalid.api.key\b/i, /\bauthentication\b/i]],
  ["billing", [/\bquota.exceeded\b/i, /\bbilling\b/i]],
  ["rate_limit", [/\brate.limit\b/i, /\b429\b/, /\btoo many requests\b/i]],
  ["timeout", [/\btimeout\b/i, /\btimed?\s*out\b/i, /\bETIMEDOUT\b/i]],
  ["overloaded", [/\bECONNRESET\b/i, /\bECONNREFUSED\b/i]],
  ["model_not_found", [/\bmodel.*not.*found\b/i, /\bmodel.*does.*not.*exist\b/i]],
  ["overloaded", [/\boverloaded\b/i, /\bcapacity\b/i, /\b503\b/, /\b502\b/]]
]

export const failover = make({
  name: "CodeBuddy, failover",
  vocabulary: "8 reasons",
  classOf: Vocabulary.codebuddy,
  sort: ({ status, text, causes }) => {
    const said = /status(?:\s+code)?:?\s+([45]\d\d)/i.exec(text)?.[1]
    const mapped = statuses[status ?? Number(said)]
    if (mapped !== undefined) return mapped
    for (const each of [text, ...causes.slice(0, maxCauses)]) {
      const found = firstOf(reasons, each)
      if (found !== undefined) return found
    }
    return "unknown"
  }
})

const permanent: ReadonlyArray<RegExp> = [
  /loop detected/i,
  /infinite loop/i,
  /same.file.*edited/i,
  /safety.limit/i,
  /user.cancel/i,
  /abort/i,
  /authentication/i,
  /unauthorized/i,
  /invalid.api.key/i,
  /quota.exceeded/i
]

const transient: ReadonlyArray<RegExp> = [
  /timeout/i,
  /timed out/i,
  /ECONNRESET/i,
  /ECONNREFUSED/i,
  /ENOTFOUND/i,
  /rate.limit/i,
  /429/,
  /503/,
  /502/,
  /HTTP 500/i,
  /status (?:code )?500/i,
  /internal server error/i,
  /overloaded/i,
  /capacity/i,
  /network/i,
  /socket hang up/i,
  /fetch failed/i,
  /EPIPE/i,
  /could not process/i,
  /internal.error/i
]

const isTransient = (text: string): boolean => transient.some((pattern) => pattern.test(text))

export const recovery = make({
  name: "CodeBuddy, recovery",
  vocabulary: "transient or permanent",
  classOf: (reason) => Vocabulary.codebuddyRecovery(reason),
  sort: ({ text, name, causes }: Seen): Vocabulary.CodebuddyRecovery => {
    if (permanent.some((pattern) => pattern.test(text))) return "permanent"
    return isTransient(text) ||
      /fetch|network|http|timeout|connection/i.test(name) ||
      causes.slice(0, maxCauses).some(isTransient)
      ? "transient"
      : "permanent"
  }
})
