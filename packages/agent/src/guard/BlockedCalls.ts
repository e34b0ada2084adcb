/**
 * Tool calls that a guard blocked: their number, and the last ones. Pure, of bounded size.
 *
 * `Outcome` and `SafetyStop` contain them, so that a successful run does not hide the calls that did not run.
 */
import { Schema } from "effect"

export const BlockedCall = Schema.Struct({
  tool: Schema.String,
  /** Turn of the agent that requested the call, from 1. */
  turn: Schema.Finite,
  /** The loop pattern, `permission` when the guard's hook refused the call, or `hook` when a hook of the run did. */
  pattern: Schema.Literals([
    "identical",
    "poll",
    "cycle",
    "same_failure",
    "same_finding",
    "text",
    "permission",
    "hook"
  ]),
  /** The text that the model read, cut after {@link maxMessage} characters. */
  message: Schema.String
})
export type BlockedCall = typeof BlockedCall.Type

export interface BlockedCalls {
  readonly count: number
  /** Oldest first, at most {@link most}. */
  readonly last: ReadonlyArray<BlockedCall>
}

const most = 100

/** Maximum characters of a tool's name. A model may call a nonexistent tool by a name of any length. */
export const maxTool = 200
/** Maximum characters of a message. */
const maxMessage = 1_000

export const none: BlockedCalls = { count: 0, last: [] }

export const add = ({ count, last }: BlockedCalls, call: BlockedCall): BlockedCalls => ({
  count: count + 1,
  last: [
    ...last.slice(Math.max(0, last.length + 1 - most)),
    { ...call, tool: call.tool.slice(0, maxTool), message: call.message.slice(0, maxMessage) }
  ]
})
