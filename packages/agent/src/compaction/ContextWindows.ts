/**
 * How large the windows of models are: what is known of them, and what providers said when they refused.
 *
 * {@link ContextWindows} is a `Context.Reference`: without a layer it knows what it has learned, for the life of the
 * process. With a table, such as the catalogue of `@outlast/providers`, it knows both.
 *
 * A provider's word about a request that it refused counts from then on, the last one if there were several, but never
 * above the table: that is a limit that somebody chose. To wait for a refusal to be wrong costs one call; to believe in
 * too large a window costs one with every conversation.
 *
 * **What it does not do.** It asks no provider, and keeps nothing beyond the process.
 *
 * **Example** (A table of one's own)
 *
 * ```ts
 * const windows = new Map([["house-model", 32_768]])
 * program.pipe(Effect.provide(ContextWindows.layer((model) => windows.get(model))))
 * ```
 */
import { Context, Effect, Layer } from "effect"
import { Options } from "@outlast/resilience"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** Windows in tokens. */
export interface Service {
  /** Tokens of input and output together; `undefined`: not known. */
  readonly of: (model: string) => Effect.Effect<number | undefined>
  /** What a provider has said when it refused; `undefined`: none has. */
  readonly learned: (model: string) => Effect.Effect<number | undefined>
  /**
   * A provider has refused with this limit: from now on it counts (never more than what is known otherwise). What is no
   * window, below {@link limits}`.least`, is ignored.
   */
  readonly learn: (model: string, limit: number) => Effect.Effect<void>
}

export const limits = {
  /** Tokens: half of the smallest window that is in use (2,048). Less is a number that was misread. */
  least: 1_024,
  /** Models whose limits are remembered. The one that was learned longest ago goes first. */
  models: 1_000
} as const

/** Whether what a provider has named can be a window: of "128k" a number may be left that is none. */
export const isWindow = (limit: number): boolean => Number.isSafeInteger(limit) && limit >= limits.least

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Learned limits over a table; `undefined` of it: not known. */
export const make = (known: (model: string) => number | undefined): Effect.Effect<Service> => {
  Options.is.fn("(model) => tokens, or undefined where it is not known")("ContextWindows", "known", known)
  return Effect.sync(() => serviceOf(known))
}

/** The layer of {@link make}. */
export const layer = (known: (model: string) => number | undefined): Layer.Layer<never> =>
  Layer.effect(ContextWindows, make(known))

const serviceOf = (known: (model: string) => number | undefined): Service => {
  // A map goes through its entries in the order in which they came.
  const all = new Map<string, number>()
  const learnedOf = (model: string): number | undefined => {
    const limit = all.get(model)
    return limit === undefined ? undefined : Math.min(limit, known(model) ?? limit)
  }
  return {
    of: (model) => Effect.sync(() => learnedOf(model) ?? known(model)),
    learned: (model) => Effect.sync(() => learnedOf(model)),
    learn: (model, limit) =>
      Effect.sync(() => {
        if (!isWindow(limit)) return
        all.delete(model)
        all.set(model, limit)
        for (const oldest of all.keys()) {
          if (all.size <= limits.models) break
          all.delete(oldest)
        }
      })
  }
}

/** By default {@link make} without a table. */
export const ContextWindows: Context.Reference<Service> = Context.Reference<Service>(
  "@outlast/agent/compaction/ContextWindows",
  { defaultValue: () => serviceOf(() => undefined) }
)
