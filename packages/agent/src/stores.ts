/** Where cooldowns and limits outlive the process or are shared. Apart from the layers, because they need more of effect. */
export * as KeyValueChainStore from "./failover/chain/KeyValueChainStore.ts"
export * as LimitStore from "./limiter/LimitStore.ts"
export * as RedisChainStore from "./failover/chain/RedisChainStore.ts"
