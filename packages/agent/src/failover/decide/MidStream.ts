/**
 * Decides about text that the consumer has seen when an attempt fails: `restart`, `continue` or `fail`. Part of
 * `CallState`. Pure.
 *
 * The row of the failure decides first, then the call, then the policy. Text is taken back only where the consumer
 * supports it. An object is never continued, and neither is a refusal: its words are not the beginning of an answer.
 */
import { ContentPolicy } from "../../failure/reasons/FailoverReason.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import type { Failed } from "./CallModel.ts"
import type { CallState } from "./State.ts"
import type { MidStream, RecoveryPolicy, Row } from "./RecoveryPolicy.ts"
import { rowOf } from "./RecoveryPolicy.ts"

type Policy = RecoveryPolicy<string>

/**
 * Returns the most that any failure allows for text that the consumer has seen: `restart` if one row allows it, else
 * `continue` if one does, else `fail`.
 */
export const midStreamAtMost = (policy: Policy, call: CallState["call"]): MidStream => {
  let most = midStreamOf(policy, undefined, { call })
  // A refusal that another model may answer is taken back.
  if (call.rewindable && most !== "fail" && rowOf(policy, refusal).then !== "stop") return "restart"
  for (const name in policy.rows) {
    const mode = midStreamOf(policy, policy.rows[name], { call })
    if (mode === "restart" || most === "fail") most = mode
  }
  return most
}

export const midStreamOf = (
  policy: Policy,
  row: Row | undefined,
  { call }: Pick<CallState, "call">
): MidStream => {
  const wanted = row?.midStream ?? call.midStream ?? policy.midStream
  const possible = wanted === "restart" && !call.rewindable ? "continue" : wanted
  return possible === "continue" && call.structured ? "fail" : possible
}

/** Any refusal. */
// Stryker disable next-line StringLiteral: its rule says nothing.
const refusal = local("", new ContentPolicy(), undefined)

/** True when the attempt ended as a refusal after text that the consumer has seen. */
export const isRefusedText = ({ failure, commit }: Failed): boolean =>
  commit === "text" && failure.reason._tag === "ContentPolicy"

/**
 * As {@link midStreamOf}, after this failure. A refusal makes the next answer begin anew, also where the consumer cannot
 * take back what it has seen: then the answer follows in a block of its own.
 */
export const midStreamAfter = (
  policy: Policy,
  row: Row | undefined,
  state: Pick<CallState, "call">,
  event: Failed
): MidStream => {
  const mode = midStreamOf(policy, row, state)
  return isRefusedText(event) && mode !== "fail" ? "restart" : mode
}
