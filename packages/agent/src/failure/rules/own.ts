/**
 * Rules on local ends of an attempt (interruption, timeout) as Effect reports them. The provider is not at fault.
 */
import * as Rule from "./Rule.ts"
import { cancelled, clientTimeout } from "./reasons.ts"

const tagged = (tag: string) => (facts: { readonly tag: string | undefined }) =>
  facts.tag === tag ? tag : undefined

export const own: ReadonlyArray<Rule.Rule> = [
  Rule.rule(
    {
      id: "own/interrupted",
      why: "A Cause or Exit of interruptions only: the caller cancelled.",
      reason: cancelled
    },
    "local",
    tagged("Interrupted"),
    ["interrupted"]
  ),
  Rule.rule(
    {
      id: "own/timeout",
      why: "Effect.timeout ended the attempt: a local time limit.",
      reason: clientTimeout.ours
    },
    "local",
    tagged("TimeoutError"),
    ["timeouterror"]
  )
]
