/**
 * Keeps what compaction cut, so that the model can have it again.
 *
 * {@link memory} is bounded and ends with the process; a store of your own can last longer. Writing and reading never
 * fail: a store that cannot be reached answers that it has nothing.
 */
import { Effect, Option } from "effect"
import { Options as Check } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"

export interface RecallStore {
  readonly put: (id: string, text: string) => Effect.Effect<void>
  readonly get: (id: string) => Effect.Effect<Option.Option<string>>
}

export interface MemoryOptions {
  /** Texts at most; the oldest go. Default 1,000. */
  readonly maxTexts?: number | undefined
  /** Characters of all of them at most; the oldest go. Default 50,000,000. */
  readonly maxCharacters?: number | undefined
}

export const defaults = { maxTexts: 1_000, maxCharacters: 50_000_000 } as const

/** A store, for the options that take one. */
export const check: Check.Check = Kind.having("a RecallStore, for example RecallStore.memory()", "put", "get")

/** A store in memory. Throws an `InvalidOption` (a `RangeError`) for an unknown option and a bound below 1. */
export const memory = (options: MemoryOptions = {}): RecallStore => {
  Check.fields<MemoryOptions>("RecallStore", options, { maxTexts: Kind.count, maxCharacters: Kind.count })
  const { maxTexts = defaults.maxTexts, maxCharacters = defaults.maxCharacters } = options
  // A map goes through its entries in the order in which they came.
  const texts = new Map<string, string>()
  let characters = 0
  const remove = (id: string, text: string): void => {
    texts.delete(id)
    characters -= text.length
  }
  return {
    put: (id, text) =>
      Effect.sync(() => {
        const before = texts.get(id)
        if (before !== undefined) remove(id, before)
        texts.set(id, text)
        characters += text.length
        for (const [oldest, old] of texts) {
          if (texts.size <= maxTexts && characters <= maxCharacters) break
          remove(oldest, old)
        }
      }),
    get: (id) => Effect.sync(() => Option.fromUndefinedOr(texts.get(id)))
  }
}
