/**
 * The outcome of a run: how it ended, its usage and cost, and what its guards and recovery did.
 */
import { Schema } from "effect"
import { schema as transcriptSchema } from "../conversation/Transcript.ts"
import { BlockedCall } from "../guard/BlockedCalls.ts"
import { Ending } from "./RunAction.ts"
import { Suspended } from "./Suspended.ts"

export { Compactions, ModelShare, Stop } from "./RunAction.ts"
export { Spent, Usage } from "./RunEvent.ts"

export const Outcome = Schema.Struct({
  ...Ending.fields,
  /** The text of the last answer. */
  text: Schema.String,
  /** The last 100 blocked calls, oldest first. */
  blocked: Schema.Array(BlockedCall),
  transcript: transcriptSchema,
  /** The state of a run whose calls wait for approval: `Agent.resume` continues it. */
  suspended: Schema.optional(Suspended)
})
export type Outcome = typeof Outcome.Type
