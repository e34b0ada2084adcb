/** A limit of turns that grows with the number of keys: each key may fail and be replaced in the middle of a run. */
import { Effect, Option } from "effect"
import type { TargetRef } from "../conversation/TargetRef.ts"
import { Targets } from "../failover/chain/Targets.ts"

/** Turns of one run, at most, for a number of keys: `min(max(24 + 8·N, 32), 160)`. The numbers are claw0's. */
export const runCap = (keys: number): number => Math.min(Math.max(24 + 8 * keys, 32), 160)

/** Number of keys of the first model. */
const keysOf = (targets: ReadonlyArray<TargetRef>): number => {
  const [first] = targets
  return targets.filter(({ provider, model }) => provider === first?.provider && model === first.model).length
}

/** The cap for the keys of the surrounding chain. A model without a chain counts as one key. */
export const ofChain: Effect.Effect<number> = Effect.gen(function* () {
  const targets = yield* Effect.serviceOption(Targets)
  if (Option.isNone(targets)) return runCap(1)
  return runCap(keysOf((yield* targets.value.list).map(({ target }) => target)))
})
