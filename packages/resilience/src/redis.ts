/** Modules that need Redis. A separate entry point, because they use `effect/persistence`. */
export * as RedisCircuitStore from "./breaker/RedisCircuitStore.ts"
