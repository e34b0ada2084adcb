/** Limits per key and model that are kept before a provider has to enforce them. */
export * as CallLimiter from "./CallLimiter.ts"
export * as LimiterEvent from "./LimiterEvent.ts"
export * as Priority from "./Priority.ts"
