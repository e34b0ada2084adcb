/** The lifecycle of a program: readiness and an orderly shutdown. */
export * as Host from "./Host.ts"
