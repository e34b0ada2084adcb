/**
 * Decides about text that the consumer has seen when an attempt fails: `restart`, `continue` or `fail`. Part of
 * `CallState`. Pure.
 *
 * The row of the failure decides first, then the call, then the policy. Text is taken back only where the consumer
 * supports it, and an object is never continued.
 */
import type { CallState } from "./CallModel.ts"
import type { MidStream, RecoveryPolicy, Row } from "./RecoveryPolicy.ts"

type Policy = RecoveryPolicy<string>

/**
 * Returns the most that any failure allows for text that the consumer has seen: `restart` if one row allows it, else
 * `continue` if one does, else `fail`.
 */
export const midStreamAtMost = (policy: Policy, call: CallState["call"]): MidStream => {
  let most = midStreamOf(policy, undefined, { call })
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
