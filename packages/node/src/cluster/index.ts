/** The sockets by which workers of a cluster reach each other. */
export * as ClusterSockets from "./ClusterSockets.ts"
