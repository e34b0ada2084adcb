/**
 * Real models for Outlast, by vendor.
 */
import { toAiSdk as served } from "./aisdk/ToAiSdk.ts"

export * as AiSdk from "./AiSdk.ts"
export * as Anthropic from "./Anthropic.ts"
export * as Catalogue from "./catalogue/Catalogue.ts"
export * as Dialects from "./aisdk/Dialects.ts"
export * as Google from "./Google.ts"
export * as OpenAi from "./OpenAi.ts"
export * as OpenAiCompatible from "./OpenAiCompatible.ts"
export * as Registry from "./Registry.ts"
export * as Tokenizers from "./Tokenizers.ts"
export * as ToAiSdk from "./aisdk/ToAiSdk.ts"

/** @deprecated Moved: import it from `@outlast/ai-sdk`. This name goes with the next release. */
export const toAiSdk: typeof served = served
