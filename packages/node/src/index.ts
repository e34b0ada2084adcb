/** Outlast on one machine. Each namespace is one module of the folder that its path names. */
export * as SqliteClient from "./sqlite/SqliteClient.ts"
export * as StoreLock from "./lock/StoreLock.ts"
