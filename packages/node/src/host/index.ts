/** The life of a program: readiness, an orderly end. */
export * as Host from "./Host.ts"
