/**
 * Rules on headers that say what happened, whatever the page below them says.
 */
import * as Rule from "../Rule.ts"
import { auth } from "./reasons.ts"

export const headers: ReadonlyArray<Rule.Rule> = [
  Rule.rule(
    {
      id: "header/challenge",
      why: "Cloudflare takes the client for a bot and shows it a riddle: who asks may not ask.",
      reason: auth
    },
    "header",
    ({ headers }) => (headers["cf-mitigated"] === "challenge" ? "challenge" : undefined)
  )
]
