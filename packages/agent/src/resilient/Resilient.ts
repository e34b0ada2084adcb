/**
 * Resilience for what an agent uses besides language models: its tools, and models that embed.
 *
 * Both stand on `Retry` and `CircuitBreaker` of `@outlast/resilience`, and publish their events.
 */
export { defaults as embeddingDefaults, embedding, layerEmbedding } from "./Embedding.ts"
export type { Policy as EmbeddingPolicy } from "./Embedding.ts"
export { ToolFailed, ToolRefused, ToolTimedOut } from "./ToolFailed.ts"
export { defaults as toolkitDefaults, idempotent, readonly, toolkit } from "./Toolkit.ts"
export type {
  HandlerFailure,
  Policy as ToolkitPolicy,
  RepeatableToolPolicy,
  Repeatable,
  ToolPolicy
} from "./Toolkit.ts"
