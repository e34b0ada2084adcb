/**
 * Gemini at the Gemini API. Prices of Pro models are those of prompts up to 200,000 tokens.
 *
 * Google states separate limits for input and output. The window is the input limit.
 */
import type { CatalogueEntry, Counting } from "./CatalogueEntry.ts"
import * as ImageRule from "../counting/ImageRule.ts"

const pricing = "https://ai.google.dev/gemini-api/docs/pricing"
const page = (model: string) => `https://ai.google.dev/gemini-api/docs/models/${model}`

type Known = Omit<CatalogueEntry, "provider" | "model">

const entry = (model: string, known: Known): CatalogueEntry => ({ provider: "google", model, ...known })

const crops: Counting = { image: ImageRule.gemini, page: 258 }
/** From Gemini 3 on. */
const whole: Counting = { image: ImageRule.gemini3, page: 560 }

const thinking: Known = {
  contextWindow: 1_048_576,
  maxOutputTokens: 65_536,
  reasoning: true,
  capabilities: { tools: true, images: true, forcedTools: true, sampling: true, prefill: false },
  counting: crops,
  source: pricing
}
const plain: Known = { ...thinking, maxOutputTokens: 8_192, reasoning: false }

export const google: ReadonlyArray<CatalogueEntry> = [
  // Half price until the end of 2026.
  entry("gemini-3.8-flash", {
    ...thinking,
    counting: whole,
    price: { input: 0.75, output: 3.75, cacheRead: 0.075 }
  }),
  entry("gemini-3.1-pro", { ...thinking, counting: whole, price: { input: 2, output: 12, cacheRead: 0.2 } }),
  entry("gemini-3-flash", { ...thinking, counting: whole }),
  entry("gemini-2.5-pro", { ...thinking, price: { input: 1.25, output: 10, cacheRead: 0.125 } }),
  entry("gemini-2.5-flash-lite", { ...thinking, price: { input: 0.1, output: 0.4, cacheRead: 0.01 } }),
  entry("gemini-2.5-flash", { ...thinking, price: { input: 0.3, output: 2.5, cacheRead: 0.03 } }),
  entry("gemini-2.0-flash", { ...plain, source: page("gemini-2.0-flash") }),
  entry("gemini-1.5-pro", { ...plain, contextWindow: 2_097_152, source: page("gemini") }),
  entry("gemini-1.5-flash", { ...plain, source: page("gemini") })
]
