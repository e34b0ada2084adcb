/**
 * Models behind OpenAI-compatible endpoints, by the names that their vendors use.
 *
 * Names that a vendor moves from model to model, or has retired, have no price, and the smallest window that they had.
 */
import type { CatalogueEntry } from "../Catalogue.ts"

export const others: ReadonlyArray<CatalogueEntry> = [
  {
    provider: "alibaba",
    model: "qwen-plus",
    // The smallest of its snapshots; later ones take up to a million.
    contextWindow: 131_072,
    reasoning: false,
    capabilities: { tools: true, images: false, sampling: true },
    source: "https://www.alibabacloud.com/help/en/model-studio/models"
  },
  {
    provider: "deepseek",
    model: "deepseek-chat",
    // 64K as DeepSeek-V3; twice that and more as what came behind it.
    contextWindow: 65_536,
    maxOutputTokens: 8_192,
    reasoning: false,
    capabilities: { tools: true, images: false, sampling: true },
    source: "https://api-docs.deepseek.com/quick_start/pricing-details-usd"
  }
]
