/** Outlast on one machine: SQLite in a worker thread, and a lock between processes. */
export * as SqliteClient from "./sqlite/SqliteClient.ts"
export * as StoreLock from "./lock/StoreLock.ts"
