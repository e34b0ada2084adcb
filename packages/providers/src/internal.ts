/**
 * What only other packages of Outlast need. Without promise: it may change in any release.
 */
export * as OriginalPart from "./aisdk/OriginalPart.ts"
export * as ServedPrompt from "./aisdk/ServedPrompt.ts"
export * as ServedTools from "./aisdk/ServedTools.ts"
export * as ToAiSdk from "./aisdk/ToAiSdk.ts"
