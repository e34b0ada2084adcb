/** What needs Redis. Apart from the rest, because it needs more of effect. */
export * as RedisCircuitStore from "./breaker/RedisCircuitStore.ts"
