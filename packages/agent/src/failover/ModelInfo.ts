/**
 * What is known of a model: sizes, prices and habits that differ from model to model.
 *
 * Every field is optional: an unknown model works, without cost and without a limit of ours.
 */

/** US dollars per million tokens. */
export interface Price {
  readonly input: number
  readonly output: number
  /** Input read from the prompt cache; the input price when absent. */
  readonly cacheRead?: number | undefined
  /** Input written to the prompt cache; the input price when absent. */
  readonly cacheWrite?: number | undefined
}

export interface ModelInfo {
  /** Input and output together, in tokens. */
  readonly contextWindow?: number | undefined
  /** The most that one answer may have, in tokens. */
  readonly maxOutputTokens?: number | undefined
  readonly price?: Price | undefined
  /** Thinks before it answers: the first token may take long. Default `false`. */
  readonly reasoning?: boolean | undefined
}
