/** An entry of the catalogue: a model and its public data. */
import type { ModelInfo } from "@outlast/agent"
import type * as Encoding from "../counting/Encoding.ts"
import type { ImageRule } from "../counting/ImageRule.ts"

/** How the tokens of a model are counted. */
export interface Counting {
  /** The tokenizer, if it is public. */
  readonly encoding?: Encoding.Name | undefined
  readonly image?: ImageRule | undefined
  /** Tokens of a page of a PDF. Default 2,000. */
  readonly page?: number | undefined
}

export interface CatalogueEntry extends ModelInfo.ModelInfo {
  readonly provider: string
  /** The name of the model without date or version suffix. */
  readonly model: string
  readonly capabilities: ModelInfo.Capabilities
  /** How tokens are counted. Default: unknown, and counts are estimated. */
  readonly counting?: Counting | undefined
  /** The page of the vendor. */
  readonly source: string
}
