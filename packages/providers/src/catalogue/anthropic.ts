/**
 * Claude at Anthropic. Models whose windows, prices or habits are the same share a family.
 */
import type { CatalogueEntry } from "./CatalogueEntry.ts"
import * as ImageRule from "../counting/ImageRule.ts"

const pricing = "https://platform.claude.com/docs/en/about-claude/pricing"
const overview = (model: string) => `https://platform.claude.com/docs/en/models/${model}/overview`

type Known = Omit<CatalogueEntry, "provider" | "model">

const entry = (model: string, known: Known): CatalogueEntry => ({ provider: "anthropic", model, ...known })

const price = (input: number, output: number, cacheRead: number) => ({
  input,
  output,
  cacheRead,
  // The price of the five-minute cache, which every model offers.
  cacheWrite: input * 1.25
})

/** Claude 4.5 and before: thinking needs a budget, and an answer may be prefilled. */
const budgeted: Known = {
  contextWindow: 200_000,
  maxOutputTokens: 64_000,
  reasoning: true,
  capabilities: {
    tools: true,
    images: true,
    prefill: true,
    forcedTools: true,
    sampling: true,
    systemMessages: false,
    thinking: ["enabled", "disabled"],
    bindsThinking: false,
    bindsAccount: false
  },
  counting: { image: ImageRule.claude },
  source: pricing
}

/** Claude 4.6: adaptive thinking, no prefill. */
const claude46: Known = {
  contextWindow: 1_000_000,
  maxOutputTokens: 128_000,
  reasoning: true,
  capabilities: {
    ...budgeted.capabilities,
    prefill: false,
    thinking: ["adaptive", "enabled", "disabled"]
  },
  source: pricing
}

/** Claude 4.7 to 5: adaptive thinking only, no sampling parameters. */
const adaptive: Known = {
  ...claude46,
  capabilities: { ...claude46.capabilities, sampling: false, thinking: ["adaptive", "disabled"] },
  counting: { image: ImageRule.claudeLarge }
}

/** Claude 4.8 and 5: system messages anywhere in the conversation. Not Sonnet 5: reports about it differ. */
const systemic: Known = {
  ...adaptive,
  capabilities: { ...adaptive.capabilities, systemMessages: true }
}

/** Claude 5.5, Fable 5.1 and 5.2: thinking is bound to the messages before it. */
const binding: Known = {
  ...systemic,
  capabilities: { ...systemic.capabilities, bindsThinking: true }
}

/** The models of this family that always think. */
const alwaysThinking: Known = {
  ...binding,
  capabilities: { ...binding.capabilities, forcedTools: false, thinking: ["adaptive"] }
}

export const anthropic: ReadonlyArray<CatalogueEntry> = [
  entry("claude-fable-5-2", {
    ...alwaysThinking,
    source: "https://platform.claude.com/docs/en/about-claude/models/overview"
  }),
  entry("claude-fable-5-1", { ...alwaysThinking, price: price(10, 50, 0.25), source: pricing }),
  entry("claude-opus-5-5", { ...alwaysThinking, price: price(4, 20, 0.2), source: overview("opus-5-5") }),
  entry("claude-sonnet-5-5", {
    ...alwaysThinking,
    price: price(2, 10, 0.1),
    capabilities: {
      ...alwaysThinking.capabilities,
      thinking: ["adaptive", "between_tools"],
      bindsAccount: true
    },
    source: overview("sonnet-5-5")
  }),
  // The price of prompts up to 100,000 tokens.
  entry("claude-haiku-5-5", {
    ...binding,
    price: price(0.1, 0.5, 0.01),
    capabilities: { ...binding.capabilities, bindsAccount: true },
    source: overview("haiku-5-5")
  }),
  entry("claude-opus-5", { ...systemic, price: price(5, 25, 0.5), source: overview("opus-5") }),
  entry("claude-sonnet-5", { ...adaptive, price: price(2, 10, 0.2), source: overview("sonnet-5") }),
  entry("claude-opus-4-8", { ...systemic, price: price(5, 25, 0.5), source: overview("opus-4-8") }),
  entry("claude-opus-4-7", { ...adaptive, price: price(5, 25, 0.5) }),
  entry("claude-opus-4-6", { ...claude46, price: price(5, 25, 0.5), source: overview("opus-4-6") }),
  entry("claude-sonnet-4-6", { ...claude46, price: price(3, 15, 0.3) }),
  entry("claude-opus-4-5", { ...budgeted, price: price(5, 25, 0.5), source: overview("opus-4-5") }),
  entry("claude-sonnet-4-5", { ...budgeted, price: price(3, 15, 0.3) }),
  entry("claude-haiku-4-5", { ...budgeted, price: price(1, 5, 0.1) }),
  entry("claude-opus-4-1", { ...budgeted, maxOutputTokens: 32_000, price: price(15, 75, 1.5) }),
  entry("claude-opus-4", { ...budgeted, maxOutputTokens: 32_000, price: price(15, 75, 1.5) }),
  entry("claude-sonnet-4", { ...budgeted, price: price(3, 15, 0.3) }),
  entry("claude-3-7-sonnet", { ...budgeted, price: price(3, 15, 0.3) }),
  entry("claude-3-5-haiku", {
    ...budgeted,
    maxOutputTokens: 8_192,
    reasoning: false,
    price: price(0.8, 4, 0.08),
    capabilities: { ...budgeted.capabilities, thinking: ["disabled"] }
  })
]
