/** Layer 2: continues answers that were cut. */
export * as Nudge from "./Nudge.ts"
export * as Seam from "./Seam.ts"
export * as Truncation from "./Truncation.ts"
