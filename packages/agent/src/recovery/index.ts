/** Layer 2: answers that were cut, and how a model goes on. */
export * as Nudge from "./Nudge.ts"
export * as Seam from "./Seam.ts"
export * as Truncation from "./Truncation.ts"
