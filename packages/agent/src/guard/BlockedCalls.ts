/**
 * Calls of tools that a guard did not let run: how many there were, and the last of them. Pure, of bounded size.
 *
 * An outcome and a `SafetyStop` have them, so that a run which ends well does not hide what it did not do.
 */
import type { Pattern } from "./LoopDetector.ts"

export interface BlockedCall {
  readonly tool: string
  /** The turn of the agent that asked for it, from 1. */
  readonly turn: number
  /** The pattern of the loop; `permission`: the host's hook refused the call. */
  readonly pattern: Pattern | "permission"
  /** The text that the model read, cut after {@link maxMessage} characters. */
  readonly message: string
}

export interface BlockedCalls {
  readonly count: number
  /** Oldest first, at most {@link most}. */
  readonly last: ReadonlyArray<BlockedCall>
}

const most = 100

/** Characters of a tool's name. A model may call a tool that does not exist, by a name of any length. */
export const maxTool = 200
/** Characters of a message. */
const maxMessage = 1_000

export const none: BlockedCalls = { count: 0, last: [] }

export const add = ({ count, last }: BlockedCalls, call: BlockedCall): BlockedCalls => ({
  count: count + 1,
  last: [
    ...last.slice(Math.max(0, last.length + 1 - most)),
    { ...call, tool: call.tool.slice(0, maxTool), message: call.message.slice(0, maxMessage) }
  ]
})
