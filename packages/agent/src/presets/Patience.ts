/**
 * The two policies that ship, as presets: {@link interactive} for a user who waits, {@link background} for work that
 * can wait. They have the default limits and the default compaction. They follow no other system, so they have no
 * deviations.
 */
import type { Layer } from "effect"
import { Effect } from "effect"
import type { Tool } from "effect/ai"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import type * as Agent from "../loop/Agent.ts"
import type { Outcome } from "../loop/Outcome.ts"
import * as Preset from "./PresetLayer.ts"
import * as CompactionPolicy from "../compaction/CompactionPolicy.ts"
import * as RecoveryPolicy from "../failover/decide/RecoveryPolicy.ts"
import type { Limits } from "../guard/Limits.ts"
import { Priority } from "../limiter/Priority.ts"

const limits: Limits = {}
const deviations: ReadonlyArray<string> = []

const make = (policy: RecoveryPolicy.RecoveryPolicy, priority: Priority) => ({
  policy,
  limits,
  compaction: CompactionPolicy.defaults,
  deviations,
  /** The policy over a chain, with compaction and alerts. */
  layer: <const S extends Specs>(
    chain: NonEmpty<S>,
    options: Preset.Options<RecoveryPolicy.DefaultClass> = {}
  ): Layer.Layer<Preset.Provided, ChainError, Services<S>> =>
    Preset.layerOf(
      chain,
      { policy, compaction: CompactionPolicy.defaults },
      // Calls in the background are patient under either preset.
      { background: RecoveryPolicy.background, ...options }
    ),
  /** An agent run under the default limits. */
  agent: <Tools extends Record<string, Tool.Any> = {}, R = never>(
    options: Agent.Options<Tools, R>
  ): Effect.Effect<Outcome, Preset.Failures<Tools>, Agent.Services<Tools, R>> =>
    Effect.provideService(Preset.guarded(limits, options), Priority, priority)
})

export const interactive = make(RecoveryPolicy.interactive, "interactive")
export const background = make(RecoveryPolicy.background, "background")
