/**
 * An AI SDK model over any effect/ai `LanguageModel` layer, for programs that build their chain with Effect.
 *
 * `outlast` is the way for all others. The code stands in `@outlast/providers` as long as its old name there does.
 */
import { ToAiSdk } from "@outlast/providers/internal"

export type { ServedModel } from "@outlast/providers/internal/ToAiSdk"

/** See `ToAiSdk.toAiSdk` of `@outlast/providers/internal`. */
export const { toAiSdk } = ToAiSdk
