/**
 * Context windows of models: a table of known sizes, and the limits that providers named when they rejected a prompt.
 *
 * {@link ContextWindows} is a `Context.Reference`. Without a layer it starts empty and learns for the life of the
 * process. With a table, e.g. the catalogue of `@outlast/providers`, it knows both.
 *
 * The last limit that a provider named applies from then on, but never above the table: the table is a limit that the
 * user chose. A wrong small limit costs little. A window that is assumed too large costs a rejected call in every
 * conversation.
 *
 * **What it does not do.** It asks no provider, and stores nothing beyond the process.
 *
 * **Example** (Your own table)
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

/** All sizes in tokens. */
export interface Service {
  /** Window for input and output together; `undefined` when unknown. */
  readonly of: (model: string) => Effect.Effect<number | undefined>
  /** The limit that a provider named in a rejection; `undefined` when there was none. */
  readonly learned: (model: string) => Effect.Effect<number | undefined>
  /**
   * Remembers the limit that a provider named in a rejection. A limit above the table has no effect, one below
   * {@link limits}`.least` is ignored.
   */
  readonly learn: (model: string, limit: number) => Effect.Effect<void>
}

export const limits = {
  /** Smallest accepted window: half of the smallest one in use (2,048). A smaller number was misread. */
  least: 1_024,
  /** Number of models whose limits are remembered. The one learned longest ago is evicted first. */
  models: 1_000
} as const

/** True when the number can be a window. Error texts are parsed, so "128k" may arrive as 128. */
export const isWindow = (limit: number): boolean => Number.isSafeInteger(limit) && limit >= limits.least

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Creates a service over a table that returns `undefined` for unknown models. */
export const make = (known: (model: string) => number | undefined): Effect.Effect<Service> => {
  Options.is.fn("(model) => tokens, or undefined where it is not known")("ContextWindows", "known", known)
  return Effect.sync(() => serviceOf(known))
}

/** The layer of {@link make}. */
export const layer = (known: (model: string) => number | undefined): Layer.Layer<never> =>
  Layer.effect(ContextWindows, make(known))

const serviceOf = (known: (model: string) => number | undefined): Service => {
  // A map iterates in insertion order, so the first entry is the oldest.
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

/** The current windows. Default: {@link make} with an empty table. */
export const ContextWindows: Context.Reference<Service> = Context.Reference<Service>(
  "@outlast/agent/compaction/ContextWindows",
  { defaultValue: () => serviceOf(() => undefined) }
)
