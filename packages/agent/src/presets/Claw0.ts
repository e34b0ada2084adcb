/**
 * claw0's "resilience" (section 9): the next key at once, then the fallback models; a conversation that is too long is
 * compacted. It never waits.
 *
 * Its profiles are the keys of the first entry of the chain, in their order; its fallback models are the entries
 * behind it.
 *
 * **Where it differs** from the document, and how the document is read:
 *
 * - Cooldowns are those of its list (300, 120, 60 s). In its walk-through a rate limit gets the default of 300 s.
 * - What it does not know has no cooldown in the list; 120 s are the code's. A cancel is unknown there, too, and goes
 *   to the next key; here it stops.
 * - A profile cools for all models. Here it does so where the key itself is refused or out of money; for the rest it
 *   cools for the model alone, so that a fallback model can be asked with the same keys. The code gets there by
 *   clearing cooldowns before it asks them.
 * - Three compactions are followed by an attempt each, in one call. There it is three for each key, and behind the
 *   third the key is given up. After the last one the call goes to a target with a larger window, or fails: no healthy
 *   key is blamed for a long conversation.
 * - A success clears what covers its target; there the end of the cooldown stays.
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

/** The six classes of the document, and the one that must stop. */
export type Class = Claw0Class | "cancelled"

/** An answer has 8,096 tokens; what is cut stays cut. */
export const truncation: Truncation = { ...ladder, start: 8_096, raises: 0, continuations: 0 }

/** How often one run may ask the model, with so many keys: `min(max(24 + 8·N, 32), 160)`. For `Agent`'s `maxTurns`. */
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
  // The document has none; it never waits, so that only failing attempts use it up.
  deadline: Duration.minutes(30),
  maxCompactions: 3,
  circuits: false,
  probe: false,
  retryBudget: false,
  truncation
}
