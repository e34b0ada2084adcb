import { Compaction, CompactionPolicy, Failover } from "@outlast/agent"
import type { Chain } from "@outlast/agent"
import { ContextWindows } from "@outlast/agent/compaction"
import type { CompactionError } from "@outlast/agent/compaction"
import type { TargetSpec } from "#agent/failover/target/ProviderModel"
import { Effect } from "effect"
import type { Layer, Scope } from "effect"
import { LanguageModel } from "effect/ai"
import type { Prompt } from "effect/ai"

declare const prompt: Prompt.Prompt
declare const target: TargetSpec

// The type has the failures and the required services.
export const prompts: Effect.Effect<
  Prompt.Prompt,
  CompactionError.CannotFit | CompactionError.ContextExhausted,
  Compaction.Compaction
> = Effect.map(Compaction.fit(prompt, { window: 200_000 }), ({ prompt }) => prompt)

// Without a summariser no service is required; with the surrounding model as the summariser that model is.
export const plain: Layer.Layer<Compaction.Compaction> = Compaction.layer()
export const summarising: Layer.Layer<Compaction.Compaction, never, LanguageModel.LanguageModel> =
  Compaction.layerModel()
export const made: Effect.Effect<Compaction.Service, never, Scope.Scope> = Compaction.make()

// A chain accepts it unchanged.
export const compact = (service: Compaction.Service): Chain.Compact =>
  Compaction.reactive(service, { window: 200_000 })
export const chain = Effect.map(made, (service) => Failover.layer([target], { compact: compact(service) }))

// A call of any model keeps its own failures and required services.
export const call: Effect.Effect<
  { readonly value: string; readonly prompt: Prompt.Prompt },
  "mine" | CompactionError.CannotFit | CompactionError.ContextExhausted,
  Compaction.Compaction
> = Compaction.call(prompt, { window: 1_000 }, () => Effect.fail("mine" as const))

// Learning usage requires and fails with nothing. The number of tokens is mandatory.
export const learned: Effect.Effect<void, never, Scope.Scope> = Effect.flatMap(made, ({ learn }) =>
  learn({ prompt, inputTokens: 1 })
)
// @ts-expect-error: the number of tokens is missing
Effect.flatMap(made, ({ learn }) => learn({ prompt }))

// Windows are available without a layer, and a layer requires nothing.
export const windows: Layer.Layer<never> = ContextWindows.layer(() => 1_000)
export const windowOf: Effect.Effect<number | undefined> = Effect.flatMap(
  ContextWindows.ContextWindows,
  ({ of }) => of("m")
)

// @ts-expect-error: only the caller knows the size of the window
Compaction.fit(prompt, {})

// @ts-expect-error: no such tier
Compaction.layer({ policy: { ...CompactionPolicy.defaults, tiers: ["magic"] } })

// @ts-expect-error: a tail is of messages or of tokens
Compaction.layer({ policy: { ...CompactionPolicy.defaults, tail: 4 } })

// @ts-expect-error: the model around the layer is the one that summarises
Compaction.layerModel({ summariser: { model: LanguageModel.LanguageModel } })
