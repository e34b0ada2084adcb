/**
 * The layer of one agent: its chain, and the compaction whose summaries the chain itself writes.
 */
import type { Chain, ProviderModel } from "@outlast/agent"
import { Compaction, Failover, Targets } from "@outlast/agent"
import { Context, Effect, Layer } from "effect"
import { LanguageModel } from "effect/ai"

export type Services = Compaction.Compaction | LanguageModel.LanguageModel | Targets.Targets

/** Tokens that are assumed of an unknown model that refused a conversation. */
const usualWindow = 200_000

/** `window` replaces the windows of the models. */
export const layer = (
  chain: Effect.Effect<readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>]>,
  compacts: boolean,
  window: number | undefined
): Layer.Layer<Services, Chain.ChainError> =>
  Layer.effectContext(
    Effect.gen(function* () {
      // The compaction needs the chain for its summaries, and the chain the compaction.
      let compact: Chain.Compact = (prompt) => Effect.succeed(prompt)
      const context = yield* Layer.build(
        Failover.layer(
          yield* chain,
          compacts ? { compact: (prompt, failure) => compact(prompt, failure) } : {}
        )
      )
      const compaction = yield* Compaction.make({
        summariser: { model: Context.get(context, LanguageModel.LanguageModel) }
      })
      const targets = yield* Context.get(context, Targets.Targets).list
      const windows = new Map(targets.map(({ target, info }) => [target.id, info.contextWindow]))
      compact = Compaction.reactive(compaction, ({ target }) => ({
        window: window ?? windows.get(target?.id ?? "") ?? usualWindow
      }))
      return Context.add(context, Compaction.Compaction, compaction)
    })
  )
