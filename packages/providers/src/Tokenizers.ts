/**
 * A `TokenCounter` for the models of the catalogue. Texts for OpenAI's models are counted by their tokenizer, images
 * and files by the rules of each vendor. Texts for other models are estimated. Usage that providers report corrects all
 * counts.
 *
 * The tokenizers are loaded when the layer is built, in about half a second. A message is counted once, so a new turn
 * costs only its own size.
 *
 * **Limit.** The tokens that a provider adds for tools are not public. They are learned from the reported usage.
 *
 * Tokenizers come from `gpt-tokenizer`, an optional peer: install it beside this package.
 *
 * **Example** (Exact for OpenAI)
 *
 * ```ts
 * program.pipe(Effect.provide(Compaction.layer()), Effect.provide(Tokenizers.layer()))
 * ```
 */
import { TokenCounter } from "@outlast/agent/compaction"
import { Options as Check } from "@outlast/resilience"
import { Effect, Layer } from "effect"
import type { Catalogue, Counting } from "./catalogue/Catalogue.ts"
import { entries, find, isCatalogue } from "./catalogue/Catalogue.ts"
import type { Count, Name } from "./counting/Encoding.ts"
import * as Encoding from "./counting/Encoding.ts"
import * as ImageRule from "./counting/ImageRule.ts"

export interface Options {
  /** Models and how they are counted. Default: the built-in entries. */
  readonly catalogue?: Catalogue | undefined
  /** Tokenizers to load. Texts for models with another one are estimated. Default: all of `Tokenizers.encodings`. */
  readonly encodings?: ReadonlyArray<Name> | undefined
}

/** The tokenizers that there are. */
export const encodings = Encoding.names

/** The layer fails with it where the optional peer `gpt-tokenizer` is not installed. */
export type TokenizerMissing = Encoding.TokenizerMissing

/**
 * Tokens that OpenAI adds to each message:
 * https://developers.openai.com/cookbook/examples/how_to_count_tokens_with_tiktoken
 */
const overhead = 3

export const make = (options: Options = {}): Effect.Effect<TokenCounter.Service, TokenizerMissing> => {
  Check.fields("Tokenizers", options, checks)
  const { catalogue = entries, encodings = Encoding.names } = options
  return Effect.gen(function* () {
    const counts = new Map<Name, Count>()
    for (const name of encodings) counts.set(name, yield* Encoding.load(name))
    // One meter per counting rule of the catalogue.
    const meters = new Map<Counting, TokenCounter.Meter>()
    return {
      for: (model) => {
        const counting = model === undefined ? undefined : find(model, catalogue)?.counting
        if (counting === undefined) return TokenCounter.estimate.for(model)
        const known = meters.get(counting)
        if (known !== undefined) return known
        const count = counting.encoding === undefined ? undefined : counts.get(counting.encoding)
        const meter = TokenCounter.make({
          file: (file) => TokenCounter.fileTokens(file, rulesOf(counting)),
          ...(count === undefined ? undefined : { text: count, json: count, overhead })
        }).for(model)
        meters.set(counting, meter)
        return meter
      }
    }
  })
}

const checks: Check.Checks<Options> = {
  catalogue: isCatalogue,
  encodings: Check.is.list(Check.is.oneOf(...Encoding.names))
}

/** The layer of {@link make}. */
export const layer = (options: Options = {}): Layer.Layer<never, TokenizerMissing> =>
  Layer.effect(TokenCounter.TokenCounter, make(options))

const rulesOf = ({ image, page = TokenCounter.fileRules.page }: Counting): TokenCounter.FileRules => ({
  page,
  image: image === undefined ? TokenCounter.fileRules.image : (size) => ImageRule.tokensOf(image, size)
})
