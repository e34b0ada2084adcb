/**
 * Random numbers that do not depend on the order of execution: a hash of the purpose. Two policies that make the same
 * attempt of the same call at the same target get the same outcome, whatever they did before.
 */

/** Identifies an attempt for which numbers are drawn. Each purpose has its own draws. */
export interface DrawKey {
  readonly seed: number
  readonly call: number
  /** The place of the target in its chain. */
  readonly target: number
  /** The number of this attempt of the call at the target, from 1. */
  readonly attempt: number
}

const purposes = { fails: 1, hangs: 2, kind: 3, duration: 4, slow: 5 } as const

/** A number in [0, 1). */
export const draw = (key: DrawKey, purpose: keyof typeof purposes): number => {
  let hash = 0x9e3779b9
  for (const part of [key.seed, key.call, key.target, key.attempt, purposes[purpose]]) {
    hash = mixed(hash ^ part)
  }
  return hash / 2 ** 32
}

/** The finalizer of MurmurHash3: each bit of the input changes half of the output. */
const mixed = (input: number): number => {
  let hash = (input + 0x6d2b79f5) | 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
