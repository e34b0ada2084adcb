/**
 * Tells if a model thinks, and turns Claude's thinking off in a tool loop that another model began.
 *
 * With a thinking budget, the Messages API requires that the answer with the tool calls begins with Claude's own
 * thinking. An answer of another model has none. Such a request is sent with thinking off, and the next one after the
 * loop thinks again. Models with adaptive thinking have no such rule.
 */
import type { ModelInfo } from "@outlast/agent"
import type * as Spec from "./Spec.ts"

const namespace = "anthropic"

/**
 * True when a model that can think does so with these options of its target. A model of mode `enabled` (Claude up to
 * 4.6) thinks only on request. Other models think unless an option turns it off.
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

/** Reads if a provider option turns thinking on or off: `thinking`, `thinkingConfig`, `reasoningEffort`, … */
const wish = ([name, value]: readonly [string, Spec.Json | undefined]): ReadonlyArray<boolean> => {
  if (!/^(?:thinking|reasoning)/i.test(name) || value === undefined || value === null) return []
  const said = typeof value === "object" && "type" in value ? value.type : value
  return [said !== "disabled" && said !== "none" && said !== false]
}

/** The call, with thinking turned off where the API would refuse it. */
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

/** True when the client will ask for thinking with a budget. */
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

/** True when the prompt ends with tool results for an answer that does not begin with signed thinking. */
const inForeignLoop = (prompt: ReadonlyArray<Spec.Message>): boolean => {
  const last = prompt.findLastIndex(({ role }) => role === "assistant")
  if (!prompt.slice(last + 1).some(({ role }) => role === "tool")) return false
  // Consecutive assistant messages are one answer.
  const first = prompt.findLastIndex(({ role }, i) => i < last && role !== "assistant") + 1
  const message = prompt[first]
  const part = message?.role === "assistant" ? message.content[0] : undefined
  const signed = part?.type === "reasoning" ? part.providerOptions?.[namespace] : undefined
  return signed?.["signature"] === undefined && signed?.["redactedData"] === undefined
}
