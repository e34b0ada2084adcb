/**
 * claw0's "resilience" (section 9). A failure moves to the next key at once, then to the fallback models. A
 * conversation that is too long is compacted. Calls never wait.
 *
 * Its profiles are the keys of the first entry of the chain, in their order. Its fallback models are the entries
 * after the first.
 *
 * **Differences** from the document, and how it is interpreted:
 *
 * - Cooldowns are those of its list (300, 120, 60 s). In its walk-through a rate limit has the default of 300 s.
 * - The list has no cooldown for an unknown failure; 120 s is the code's. A cancel is unknown in the document and
 *   moves to the next key; here it stops.
 * - In the document a profile cools down for all models. Here it does so only if the key itself is rejected or out
 *   of credit. After other failures it cools down for the one model, so that a fallback model can use the same
 *   keys. The code achieves this by clearing cooldowns before it asks the fallback models.
 * - A call makes at most three compactions, each followed by an attempt. The document allows three for each key,
 *   and drops the key after the third. Here the call then moves to a target with a larger window, or fails: no
 *   healthy key is blamed for a long conversation.
 * - A success clears the cooldowns that cover its target. In the document a cooldown lasts until its end.
 * - A single key without a fallback model has no cooldown.
 *
 * {@link runCap} is its limit of turns.
 */
import { Duration } from "effect"
import { Options } from "@outlast/resilience"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { base, interactive, steady } from "../failover/decide/RecoveryPolicy.ts"
import type { Truncation } from "../recovery/Truncation.ts"
import { defaults as ladder } from "../recovery/Truncation.ts"
import type { Claw0Class } from "./Vocabulary.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** The six classes of the document, and `cancelled`, which stops the call. */
export type Class = Claw0Class | "cancelled"

/** Output limit of 8,096 tokens. A cut answer stays cut. */
export const truncation: Truncation = { ...ladder, start: 8_096, raises: 0, continuations: 0 }

/** Turns of one run, at most, for a number of keys: `min(max(24 + 8·N, 32), 160)`. Use it as `maxTurns` of `Agent`. */
export const runCap = (keys: number): number =>
  Math.min(Math.max(24 + 8 * Options.integer("Claw0", "keys", keys, { min: 0 }), 32), 160)

const next: Row = { ...base, then: "move" }

export const policy: RecoveryPolicy<Class> = {
  ...interactive,
  classOf: ({ reason }) => (reason._tag === "Cancelled" ? "cancelled" : Vocabulary.claw0(reason)),
  rows: {
    auth: { ...next, cooldown: steady("key", "300 seconds") },
    billing: { ...next, cooldown: steady("key", "300 seconds") },
    rate_limit: { ...next, cooldown: steady("key+model", "120 seconds") },
    timeout: { ...next, cooldown: steady("key+model", "60 seconds") },
    unknown: { ...next, cooldown: steady("key+model", "120 seconds") },
    overflow: { ...next, then: "grow" },
    cancelled: { ...next, then: "stop" }
  },
  maxAttempts: runCap(1),
  // The document has no deadline. Calls never wait, so only slow failing attempts use this one up.
  deadline: Duration.minutes(30),
  maxCompactions: 3,
  circuits: false,
  probe: false,
  retryBudget: false,
  truncation
}
