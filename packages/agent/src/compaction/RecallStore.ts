/**
 * Stores the texts that compaction cut, so that the model can recall them.
 *
 * {@link memory} is bounded and ends with the process. Implement your own store for a longer life. `put` and `get`
 * never fail: an unreachable store returns nothing.
 */
import { Effect, Option } from "effect"
import { Options as Check } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"

export interface RecallStore {
  readonly put: (id: string, text: string) => Effect.Effect<void>
  readonly get: (id: string) => Effect.Effect<Option.Option<string>>
}

export interface MemoryOptions {
  /** Maximum number of texts. The oldest is evicted first. Default 1,000. */
  readonly maxTexts?: number | undefined
  /** Maximum number of characters of all texts. The oldest is evicted first. Default 50,000,000. */
  readonly maxCharacters?: number | undefined
}

export const defaults = { maxTexts: 1_000, maxCharacters: 50_000_000 } as const

/** Check for options that take a store. */
export const check: Check.Check = Kind.having("a RecallStore, for example RecallStore.memory()", "put", "get")

/** Creates a store in memory. Throws an `InvalidOption` (a `RangeError`) for an unknown option or a bound below 1. */
export const memory = (options: MemoryOptions = {}): RecallStore => {
  Check.fields<MemoryOptions>("RecallStore", options, { maxTexts: Kind.count, maxCharacters: Kind.count })
  const { maxTexts = defaults.maxTexts, maxCharacters = defaults.maxCharacters } = options
  // A map iterates in insertion order, so the first entry is the oldest.
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
