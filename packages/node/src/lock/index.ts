/** A lock between processes of one machine. */
export * as StoreLock from "./StoreLock.ts"
