/**
 * Resilience for tools and embedding models.
 *
 * Both use `Retry` and `CircuitBreaker` of `@outlast/resilience`, and publish their events.
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
