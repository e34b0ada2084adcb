/**
 * Resilience for what an agent uses besides language models: its tools, and models that embed.
 *
 * Both stand on `Retry` and `CircuitBreaker` of `@outlast/resilience`, and publish their events.
 */
export { embedding, layerEmbedding } from "./Embedding.ts"
export { ToolFailed, ToolRefused, ToolTimedOut } from "./ToolFailed.ts"
export { idempotent, readonly, toolkit } from "./Toolkit.ts"
