/**
 * Models behind OpenAI-compatible endpoints, by the names that their vendors use.
 *
 * Not here: names that the vendor moves from model to model, or has retired (`deepseek-chat`,
 * `deepseek-reasoner`); their windows and prices changed with every move.
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
  }
]
