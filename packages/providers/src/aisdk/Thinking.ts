/**
 * Whether a model thinks, and thinking of Claude in a tool loop that another model began.
 *
 * With a budget of thinking switched on, the Messages API wants the answer in which the tools were called to begin
 * with thinking of its own. Where another model made that answer there is none: the request then goes out with
 * thinking off, and the next one after the loop thinks again. Models that adapt their thinking do not ask for it.
 */
import type { ModelInfo } from "@outlast/agent"
import type * as Spec from "./Spec.ts"

const namespace = "anthropic"

/**
 * Whether a model that can think does, with these options of its target. One whose mode is `enabled` thinks only when it is
 * asked to: Claude up to 4.6. The others think unless they are told not to.
 */
export const thinks = (
  { reasoning, capabilities }: ModelInfo.ModelInfo,
  { reasoning: effort = "provider-default" }: Spec.CallSettings,
  providerOptions: Spec.Namespaced
): boolean | undefined => {
  if (reasoning !== true) return reasoning
  const asked = Object.values(providerOptions).flatMap(Object.entries).flatMap(wish)
  if (effort !== "provider-default") asked.push(effort !== "none")
  return asked.length === 0 ? capabilities?.thinking?.includes("enabled") !== true : asked.includes(true)
}

/** What an option of a provider says about thinking, if it does: `thinking`, `thinkingConfig`, `reasoningEffort`, … */
const wish = ([name, value]: readonly [string, Spec.Json | undefined]): ReadonlyArray<boolean> => {
  if (!/^(?:thinking|reasoning)/i.test(name) || value === undefined || value === null) return []
  const said = typeof value === "object" && "type" in value ? value.type : value
  return [said !== "disabled" && said !== "none" && said !== false]
}

/** The call with thinking off where it would be refused with it. */
export const thinkingOff = (
  call: Spec.CallOptions,
  { capabilities }: ModelInfo.ModelInfo
): Spec.CallOptions => {
  const own = call.providerOptions?.[namespace]
  return budgeted(call, own?.["thinking"], capabilities?.thinking) && inForeignLoop(call.prompt)
    ? {
        ...call,
        providerOptions: { ...call.providerOptions, [namespace]: { ...own, thinking: { type: "disabled" } } }
      }
    : call
}

/** Whether the client will ask for thinking with a budget. */
const budgeted = (
  { reasoning = "provider-default" }: Spec.CallOptions,
  thinking: Spec.Json | undefined,
  modes: NonNullable<ModelInfo.ModelInfo["capabilities"]>["thinking"]
): boolean => {
  if (thinking !== undefined && thinking !== null) {
    return typeof thinking === "object" && "type" in thinking && thinking.type === "enabled"
  }
  const asked = reasoning !== "provider-default" && reasoning !== "none"
  return asked && modes !== undefined && modes.includes("enabled") && !modes.includes("adaptive")
}

/** Whether results are due to an answer that does not begin with signed thinking. */
const inForeignLoop = (prompt: ReadonlyArray<Spec.Message>): boolean => {
  const last = prompt.findLastIndex(({ role }) => role === "assistant")
  if (!prompt.slice(last + 1).some(({ role }) => role === "tool")) return false
  // Messages of the assistant that follow one another are one answer.
  const first = prompt.findLastIndex(({ role }, i) => i < last && role !== "assistant") + 1
  const message = prompt[first]
  const part = message?.role === "assistant" ? message.content[0] : undefined
  const signed = part?.type === "reasoning" ? part.providerOptions?.[namespace] : undefined
  return signed?.["signature"] === undefined && signed?.["redactedData"] === undefined
}
