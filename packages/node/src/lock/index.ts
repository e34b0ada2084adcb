/** Locks between processes of one machine. */
export * as SingleInstance from "./SingleInstance.ts"
export * as StoreLock from "./StoreLock.ts"
