/** Where the cooldowns of a chain outlive the process. Apart from `failover`, because they need more of effect. */
export * as KeyValueChainStore from "./failover/chain/KeyValueChainStore.ts"
export * as RedisChainStore from "./failover/chain/RedisChainStore.ts"
