/**
 * Rules on headers and pages of proxies between the client and the provider, and on the provider's own header that
 * says whether to retry.
 */
import * as Rule from "./Rule.ts"
import { permanentNetwork, serverError } from "./reasons.ts"

export const headers: ReadonlyArray<Rule.Rule> = [
  Rule.rule(
    {
      id: "header/challenge",
      why: "Cloudflare takes the client for a bot. Neither another key nor a retry helps at this endpoint.",
      reason: permanentNetwork
    },
    "header",
    ({ headers }) => (headers["cf-mitigated"] === "challenge" ? "challenge" : undefined)
  ),
  Rule.text({
    id: "page/challenge",
    why: "A firewall answers with a page instead of the provider. Another key does not help at this endpoint.",
    phrases: [
      "just a moment...",
      "enable javascript and cookies to continue",
      "attention required! | cloudflare",
      "you have been blocked",
      "let them know you were blocked",
      "(why have i been blocked|cdn-cgi/challenge-platform)",
      "(checking|verifying) (your browser|you are human|that you are human)",
      "verify (you are|that you are|you're) (human|not a robot)",
      "security checkpoint",
      "(complete|solve) (the |a |this )captcha",
      "incapsula incident",
      "the request could not be satisfied"
    ],
    unless: ["being rate limited"],
    when: ({ status }) => status === undefined || status === 403 || status === 429 || status === 503,
    reason: permanentNetwork
  })
]

/** Runs after every rule that determines which side failed, and how. */
export const retryHeaders: ReadonlyArray<Rule.Rule> = [
  Rule.rule(
    {
      id: "header/should-retry",
      why: "The provider says that the same request may succeed, although its status blames the request.",
      when: ({ said, status }) => blaming.has(said ?? status ?? 0),
      reason: serverError
    },
    "header",
    ({ headers }) => (headers["x-should-retry"]?.trim().toLowerCase() === "true" ? "true" : undefined)
  )
]

const blaming = new Set([400, 404, 405, 406, 409, 410, 412, 415, 417, 422, 424, 428])
