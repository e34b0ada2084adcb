/**
 * One attempt of a call, as `CallRun` hands it to whoever makes it.
 */
import type { Provenance } from "../conversation/Provenance.ts"
import type { Unpriced } from "./Answered.ts"
import type { Target } from "./Chain.ts"

/** One attempt to make. */
export interface Attempt {
  readonly target: Target
  readonly answered: Omit<Unpriced, "requested">
  /** What is written into the parts that it makes. */
  readonly maker: Provenance
  /** Monotonic milliseconds. */
  readonly startedAt: number
  /** The partial answer is to be continued: what ended it. */
  readonly continues: "interrupted" | "cut" | undefined
  /** What the consumer has seen is void. */
  readonly rewind: boolean
  /** The user message that goes with it. */
  readonly nudge: string | undefined
  readonly outputLimit: number | undefined
}
