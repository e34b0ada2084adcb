/**
 * Real models for Outlast, by vendor.
 */
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
export { toAiSdk } from "./aisdk/ToAiSdk.ts"
