/** Endpoints and the status page of a program. Needs `@effect/platform-node`. */
export * as Ops from "./Ops.ts"
