/**
 * Outlast for programs on the AI SDK: fallback models, limits, loop detection and compaction, without a word of Effect.
 */
export { outlast } from "./Outlast.ts"
export type { Agent, Guarded, Options, RunSettings, TargetState } from "./Outlast.ts"
export { CannotFit, ContextExhausted } from "@outlast/agent/compaction/CompactionError"
export type { CompactionOptions } from "./compaction/FitSteps.ts"
export type { OutlastEvent } from "./Events.ts"
export type { GuardOptions, Time } from "./guard/GuardOptions.ts"
export { SafetyStop } from "./guard/SafetyStop.ts"
export type { Counts } from "./guard/SafetyStop.ts"
export type { Model, ModelProvider, Providers } from "./models/Models.ts"
export { toAiSdk } from "./ToAiSdk.ts"
export type { ServedModel } from "./ToAiSdk.ts"
export type { OtelTracer } from "./Tracing.ts"
