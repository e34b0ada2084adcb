/**
 * For programs with the optional peer `undici`.
 */
export * as UndiciFetch from "./UndiciFetch.ts"
