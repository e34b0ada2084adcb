/** Outlast on one machine: the host of a program, supervised processes, SQLite in a worker thread, locks. */
export * as Host from "./host/Host.ts"
export * as SingleInstance from "./lock/SingleInstance.ts"
export * as SqliteClient from "./sqlite/SqliteClient.ts"
export * as StdioRpc from "./process/StdioRpc.ts"
export * as StoreLock from "./lock/StoreLock.ts"
export * as Supervised from "./process/Supervised.ts"
