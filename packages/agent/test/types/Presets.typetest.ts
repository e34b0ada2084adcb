/** Checked by `tsc -b`; never run. */
import type { Config, Layer } from "effect"
import { Context, Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import type { LanguageModel } from "effect/ai"
import { Chain, Presets, RecoveryPolicy } from "@outlast/agent"
import type { AgentFailed, Outcome, ProviderModel, SafetyGuard, Targets } from "@outlast/agent"
import type { Compaction } from "@outlast/agent/compaction"
import type { ConnectionMonitor } from "@outlast/resilience"

class Http extends Context.Service<Http, { readonly x: 1 }>()("Http") {}

declare const overHttp: ProviderModel.TargetSpec<Config.ConfigError, Http>
declare const alone: ProviderModel.TargetSpec

type Provided = LanguageModel.LanguageModel | Targets.Targets | Compaction.Compaction

// A preset's layer requires the services of its chain, and nothing else.
export const codebuddy: Layer.Layer<Provided, Chain.ChainError, Http> = Presets.codebuddy.layer([overHttp])
export const claw0: Layer.Layer<Provided, Chain.ChainError> = Presets.claw0.layer([alone])
export const decision037: Layer.Layer<Provided | ConnectionMonitor.ConnectionMonitor, Chain.ChainError> =
  Presets.decision037.layer([alone])
// The fallback model comes from the configuration.
export const s11: Layer.Layer<Provided, Chain.ChainError | Config.ConfigError> = Presets.s11.layer([alone])
// @ts-expect-error: nexo compacts nothing
export const nexo: Layer.Layer<Provided, Chain.ChainError> = Presets.nexo.layer([alone])
// @ts-expect-error: there is no first target
Presets.interactive.layer([])
// @ts-expect-error: the preset has its own policy
Presets.claw0.layer([alone], { policy: RecoveryPolicy.interactive })

// The failures of a tool, the stop of the guard and the cap of claw0 are in the types.
class TooSlow extends Schema.TaggedError<TooSlow>()("TooSlow", {}) {}
const Kit = Toolkit.make(
  Tool.make("look", { success: Schema.String, failure: TooSlow, failureMode: "error" })
)
export const run: Effect.Effect<
  Outcome.Outcome,
  AgentFailed.AgentFailed | SafetyGuard.SafetyStop | TooSlow,
  LanguageModel.LanguageModel | Tool.HandlersFor<typeof Kit.tools>
> = Presets.codebuddy.agent({ prompt: "x", toolkit: Kit })
export const capped: Effect.Effect<
  Outcome.Outcome,
  AgentFailed.AgentFailed | SafetyGuard.SafetyStop | Presets.claw0.LoopExceeded,
  LanguageModel.LanguageModel | Targets.Targets
> = Presets.claw0.agent({ prompt: "x" })

// A detected chain is a chain.
export const detected = Effect.map(Chain.detect([alone]), (chain) => Presets.background.layer(chain))
