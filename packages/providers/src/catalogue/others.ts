/**
 * Models behind OpenAI-compatible endpoints, by the names that their vendors use.
 */
import type { CatalogueEntry } from "../Catalogue.ts"

const capabilities = { tools: true, images: false, sampling: true } as const

export const others: ReadonlyArray<CatalogueEntry> = [
  {
    provider: "deepseek",
    model: "deepseek-chat",
    contextWindow: 64_000,
    maxOutputTokens: 8_192,
    reasoning: false,
    capabilities,
    source: "https://api-docs.deepseek.com/quick_start/pricing-details-usd"
  },
  {
    provider: "deepseek",
    model: "deepseek-reasoner",
    contextWindow: 64_000,
    maxOutputTokens: 8_192,
    reasoning: true,
    capabilities,
    source: "https://api-docs.deepseek.com/quick_start/pricing-details-usd"
  },
  {
    provider: "alibaba",
    model: "qwen-plus",
    contextWindow: 131_072,
    reasoning: false,
    capabilities,
    source: "https://www.alibabacloud.com/help/en/model-studio/models"
  }
]
