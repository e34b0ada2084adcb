/** Enforces limits per key and model before the provider has to. */
export * as CallLimiter from "./CallLimiter.ts"
export * as LimiterEvent from "./LimiterEvent.ts"
export * as Priority from "./Priority.ts"
