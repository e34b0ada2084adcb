/**
 * Models behind OpenAI-compatible endpoints, by the names that their vendors use.
 *
 * A name that a vendor moves from model to model, or has retired, has no price and the smallest window it ever had.
 */
import type { CatalogueEntry } from "./CatalogueEntry.ts"

export const others: ReadonlyArray<CatalogueEntry> = [
  {
    provider: "alibaba",
    model: "qwen-plus",
    // The smallest window of its snapshots; later ones take up to a million.
    contextWindow: 131_072,
    reasoning: false,
    capabilities: { tools: true, images: false, sampling: true },
    source: "https://www.alibabacloud.com/help/en/model-studio/models"
  },
  {
    provider: "deepseek",
    model: "deepseek-chat",
    // 64K as DeepSeek-V3; its successors take twice that and more.
    contextWindow: 65_536,
    maxOutputTokens: 8_192,
    reasoning: false,
    capabilities: { tools: true, images: false, sampling: true },
    source: "https://api-docs.deepseek.com/quick_start/pricing-details-usd"
  }
]
