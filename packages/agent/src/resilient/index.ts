/** Tools, MCP servers and embeddings that are repeated when they fail. */
export * as Resilient from "./Resilient.ts"
export * as ToolEvent from "./ToolEvent.ts"
