/**
 * The last rule: predicts the reason from the words of a sentence that matches no other rule and has no status.
 */
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import type { FailoverReason } from "../reasons/FailoverReason.ts"
import { learnedTable } from "./LearnedTable.ts"
import * as LearnedWords from "./LearnedWords.ts"
import type { Rule } from "./Rule.ts"
import { local } from "./families.ts"
import {
  auth,
  badRequest,
  badResponse,
  billing,
  cancelled,
  contentPolicy,
  contextOverflow,
  modelNotFound,
  network,
  overloaded,
  permanentNetwork,
  rateLimit,
  serverError,
  timeout
} from "./reasons.ts"

/** Smallest support and margin of a prediction, in log odds. Below either one the rule does not match. */
const least = { support: 1, margin: 0.25 }

/** Words that show that an answer could not be parsed. Without them the request is at fault. */
const ofAnswer =
  /\b(?:response|answer|output|reply|stream|chunk|completion|choices|pars(?:e|ing)|decod(?:e|ing))\b/

const format = (facts: ErrorFacts): FailoverReason =>
  ofAnswer.test(facts.text) ? badResponse : badRequest(facts)

/** Reason of each label. `unknown` is absent: the rule does not match then. */
const reasons: Readonly<Record<string, FailoverReason | ((facts: ErrorFacts) => FailoverReason)>> = {
  auth,
  billing,
  rate_limit: rateLimit,
  overloaded,
  server_error: serverError,
  timeout: timeout.total,
  network,
  permanent_network: permanentNetwork,
  context_overflow: contextOverflow,
  model_not_found: modelNotFound,
  format,
  content_policy: contentPolicy,
  cancelled
}

/** The rule for a table of weights, which is parsed on first use. */
export const learnedRule = (table: LearnedWords.Table): Rule => {
  let read: ReturnType<typeof LearnedWords.reader> | undefined
  return {
    id: LearnedWords.ruleId,
    why: "In labelled errors these words indicate this reason.",
    match: (facts, provider) => {
      const { said, status, text } = facts
      // Errors of the user's own program may use any word.
      if (provider === "" || (said ?? status) !== undefined || local.test(text)) return undefined
      read ??= LearnedWords.reader(table)
      const reading = read(text)
      if (reading === undefined) return undefined
      if (reading.support < least.support || reading.margin < least.margin) return undefined
      const reason = reasons[reading.label]
      if (reason === undefined) return undefined
      return {
        reason: typeof reason === "function" ? reason(facts) : reason,
        signal: "text",
        matched: reading.words.join(" ")
      }
    }
  }
}

export const learned: ReadonlyArray<Rule> = [learnedRule(learnedTable)]
