/**
 * Stores that keep cooldowns and limits beyond the process or share them. They have their own subpath, because they
 * import more of effect.
 */
export * as KeyValueChainStore from "./failover/chain/KeyValueChainStore.ts"
export * as LimitStore from "./limiter/LimitStore.ts"
export * as RedisChainStore from "./failover/chain/RedisChainStore.ts"
