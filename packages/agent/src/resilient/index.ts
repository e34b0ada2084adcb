/** Retries, circuits and time limits for tools, MCP servers and embeddings. */
export * as Resilient from "./Resilient.ts"
export * as ToolEvent from "./ToolEvent.ts"
