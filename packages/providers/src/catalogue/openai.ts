/**
 * OpenAI's models. Prices of models with a window above 272,000 tokens are those of shorter prompts.
 */
import type { CatalogueEntry, Counting } from "./CatalogueEntry.ts"
import * as ImageRule from "../counting/ImageRule.ts"

const page = (model: string) => `https://developers.openai.com/api/docs/models/${model}`

type Known = Omit<CatalogueEntry, "provider" | "model" | "source">

const entry = (model: string, known: Known): CatalogueEntry => ({
  provider: "openai",
  model,
  ...known,
  source: page(model)
})

const price = (input: number, output: number, cacheRead?: number, cacheWrite?: number) => ({
  input,
  output,
  cacheRead,
  cacheWrite
})

// A conversation that ends with an assistant message is accepted, and answered by a new message.
const chat = { tools: true, forcedTools: true, sampling: true, prefill: false } as const
const thinks = { tools: true, forcedTools: true, images: true, sampling: false, prefill: false } as const

const counting = (image: ImageRule.ImageRule): Counting => ({ encoding: "o200k_base", image })
/** The last models before the tokenizer `o200k_base`. */
const cl100k: Counting = { encoding: "cl100k_base", image: ImageRule.gpt4 }

const reasoning: Known = {
  contextWindow: 400_000,
  maxOutputTokens: 128_000,
  reasoning: true,
  capabilities: thinks,
  counting: counting(ImageRule.gpt5)
}
const large: Known = {
  ...reasoning,
  contextWindow: 1_050_000,
  // The factor was measured: https://community.openai.com/t/1377015
  counting: counting(ImageRule.patches(1.2, 2_500))
}
const oSeries: Known = {
  ...reasoning,
  contextWindow: 200_000,
  maxOutputTokens: 100_000,
  counting: counting(ImageRule.oSeries)
}
const gpt41: Known = {
  contextWindow: 1_047_576,
  maxOutputTokens: 32_768,
  reasoning: false,
  capabilities: { ...chat, images: true },
  counting: counting(ImageRule.gpt4)
}
const gpt4o: Known = { ...gpt41, contextWindow: 128_000, maxOutputTokens: 16_384 }

export const openai: ReadonlyArray<CatalogueEntry> = [
  entry("gpt-6.2-sol", { ...large, price: price(2, 10, 0.1, 2.5) }),
  entry("gpt-6-astra", { ...large, price: price(10, 50, 1, 12.5) }),
  entry("gpt-6-sol", { ...large, price: price(2, 10, 0.2, 2.5) }),
  entry("gpt-6-luna", large),
  entry("gpt-5.6-sol", large),
  entry("gpt-5.6-terra", large),
  entry("gpt-5.6-luna", { ...large, price: price(0.2, 1.2, 0.02, 0.25) }),
  entry("gpt-5.5", { ...large, price: price(5, 30, 0.5) }),
  entry("gpt-5.4", { ...large, price: price(2.5, 15, 0.25) }),
  entry("gpt-5.1", { ...reasoning, price: price(1.25, 10, 0.125) }),
  entry("gpt-5-codex", { ...reasoning, price: price(1.25, 10, 0.125) }),
  entry("gpt-5-mini", {
    ...reasoning,
    counting: counting(ImageRule.patches(1.62)),
    price: price(0.25, 2, 0.025)
  }),
  entry("gpt-5-nano", {
    ...reasoning,
    counting: counting(ImageRule.patches(2.46)),
    price: price(0.05, 0.4, 0.005)
  }),
  entry("gpt-5", { ...reasoning, price: price(1.25, 10, 0.125) }),
  entry("o4-mini", {
    ...oSeries,
    counting: counting(ImageRule.patches(1.72)),
    price: price(1.1, 4.4, 0.275)
  }),
  entry("o3", { ...oSeries, price: price(2, 8, 0.5) }),
  entry("gpt-4.1-mini", {
    ...gpt41,
    counting: counting(ImageRule.patches(1.62)),
    price: price(0.4, 1.6, 0.1)
  }),
  entry("gpt-4.1-nano", {
    ...gpt41,
    counting: counting(ImageRule.patches(2.46)),
    price: price(0.1, 0.4, 0.025)
  }),
  entry("gpt-4.1", { ...gpt41, price: price(2, 8, 0.5) }),
  entry("gpt-4o-mini", { ...gpt4o, counting: counting(ImageRule.gpt4oMini), price: price(0.15, 0.6, 0.075) }),
  entry("gpt-4o", { ...gpt4o, price: price(2.5, 10, 1.25) }),
  // The first snapshot, with the first price.
  {
    ...entry("gpt-4o", { ...gpt4o, maxOutputTokens: 4_096, price: price(5, 15) }),
    model: "gpt-4o-2024-05-13"
  },
  entry("gpt-4-turbo", { ...gpt4o, counting: cl100k, maxOutputTokens: 4_096, price: price(10, 30) }),
  entry("gpt-4", {
    ...gpt4o,
    counting: cl100k,
    contextWindow: 8_192,
    maxOutputTokens: 8_192,
    price: price(30, 60),
    capabilities: { ...chat, images: false }
  })
]
