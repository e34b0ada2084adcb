/** The life of a program: readiness, an orderly end, and guards at its entrance. */
export * as Host from "./Host.ts"
export * as Inbound from "./Inbound.ts"
export * as Requirements from "./Requirements.ts"
