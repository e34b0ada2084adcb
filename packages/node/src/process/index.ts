/** Child processes that are started again when they die. */
export * as StdioRpc from "./StdioRpc.ts"
export * as Supervised from "./Supervised.ts"
