/** The store of events and dead letters, and its layers: in memory, or over a `SqlClient`. */
export { DeliveryStore, deadDefaults, type DeadOptions, type Service } from "./DeliveryStore.ts"
export { layer as layerMemory } from "./MemoryStore.ts"
export { layer as layerSql, type SqlOptions } from "./sql/SqlStore.ts"
