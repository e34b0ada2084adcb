/**
 * Tells if a model thinks, keeps its thinking budget within the output limit, and turns Claude's thinking off in a
 * tool loop that another model began.
 *
 * An output limit counts thinking and answer together, as the vendors do. Claude's client adds the budget to the limit,
 * so the client gets the rest. A budget that leaves no room for the answer is lowered; below 1,024 tokens thinking is
 * left out. The limit of an AI SDK call reaches the client unchanged, because the AI SDK counts Claude's thinking apart.
 *
 * With a thinking budget, the Messages API requires that the answer with the tool calls begins with Claude's own
 * thinking. An answer of another model has none. Such a request is sent with thinking off, and the next one after the
 * loop thinks again. Models with adaptive thinking have no such rule.
 */
import type { ModelInfo } from "@outlast/agent"
import type { Schema } from "effect"
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
  call: Spec.CallOptions,
  thinking: Spec.Json | undefined,
  modes: NonNullable<ModelInfo.ModelInfo["capabilities"]>["thinking"]
): boolean => {
  if (thinking !== undefined && thinking !== null) return isEnabled(thinking)
  return shareOf(call) > 0 && modes !== undefined && modes.includes("enabled") && !modes.includes("adaptive")
}

const isEnabled = (thinking: Spec.Json | undefined): thinking is Schema.JsonObject =>
  typeof thinking === "object" && thinking !== null && "type" in thinking && thinking.type === "enabled"

// -----------------------------------------------------------------------------
// Budget
// -----------------------------------------------------------------------------

/** The smallest budget that Claude accepts, and the one that its client sends for none, in tokens. */
const leastBudget = 1_024

/** Tokens that stay for the answer, or half of a small limit. */
const leastAnswer = 3_000

/** Shares of the model's output limit that Claude's client takes as a budget for an effort. */
const shares: Readonly<Record<string, number>> = {
  minimal: 0.02,
  low: 0.1,
  medium: 0.3,
  high: 0.6,
  xhigh: 0.9,
  max: 0.95
}

const shareOf = ({ reasoning = "provider-default" }: Spec.CallOptions): number => shares[reasoning] ?? 0

/** The smallest and the largest budget that every Gemini 2.5 accepts, in tokens. */
const leastOfGemini = 512
const mostOfGemini = 24_576

/** Models whose client turns an effort into a budget. Later ones have levels. */
const budgetedGemini = /gemini-2\.5/

/** The call, with a budget that fits into its output limit. `client` has the names that it has for itself and its model. */
export const withinLimit = (
  call: Spec.CallOptions,
  { capabilities, maxOutputTokens = 64_000 }: ModelInfo.ModelInfo,
  { modelId, provider }: Pick<Spec.SpecModel, "modelId" | "provider">
): Spec.CallOptions => {
  const { maxOutputTokens: limit } = call
  if (limit === undefined) return call
  const room = limit - Math.min(leastAnswer, Math.ceil(limit / 2))
  const options = (
    name: string,
    field: string,
    value: Schema.JsonObject
  ): Pick<Spec.CallOptions, "providerOptions"> => ({
    providerOptions: { ...call.providerOptions, [name]: { ...call.providerOptions?.[name], [field]: value } }
  })
  if (provider.includes(namespace)) {
    const own = call.providerOptions?.[namespace]?.["thinking"]
    if (!budgeted(call, own, capabilities?.thinking)) return call
    const said = isEnabled(own) ? own["budgetTokens"] : Math.round(maxOutputTokens * shareOf(call))
    const asked = typeof said === "number" ? said : leastBudget
    const budgetTokens = Math.min(Math.max(asked, leastBudget), room)
    if (budgetTokens < leastBudget)
      return { ...call, ...options(namespace, "thinking", { type: "disabled" }) }
    const thinking = { ...(isEnabled(own) ? own : { type: "enabled" }), budgetTokens }
    return { ...call, ...options(namespace, "thinking", thinking), maxOutputTokens: limit - budgetTokens }
  }
  const config = call.providerOptions?.["google"]?.["thinkingConfig"]
  if (!provider.includes("google")) return call
  const most = Math.max(room, leastOfGemini)
  if (isBudget(config) && config.thinkingBudget > most)
    return { ...call, ...options("google", "thinkingConfig", { ...config, thinkingBudget: most }) }
  const isEffort = !isBudget(config) && budgetedGemini.test(modelId)
  if (!isEffort || Math.round(maxOutputTokens * shareOf(call)) <= most) return call
  const thinkingConfig = { ...(isFields(config) ? config : {}), thinkingBudget: Math.min(most, mostOfGemini) }
  return { ...call, ...options("google", "thinkingConfig", thinkingConfig) }
}

const isFields = (config: Spec.Json | undefined): config is Schema.JsonObject =>
  typeof config === "object" && config !== null && !Array.isArray(config)

const isBudget = (
  config: Spec.Json | undefined
): config is Schema.JsonObject & { readonly thinkingBudget: number } =>
  typeof config === "object" &&
  config !== null &&
  "thinkingBudget" in config &&
  typeof config.thinkingBudget === "number"

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
