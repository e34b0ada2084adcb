/**
 * Whether compaction still helps: a pure machine, told of turns and of compactions.
 *
 * States: `poor` compactions in a row that freed little, and `refills` in a row that came within a few turns of the
 * compaction before. Either at its limit: the window fills with what cannot be cut, and one more compaction would cost
 * as much and help as little.
 */
import type { CompactionPolicy } from "./CompactionPolicy.ts"

export interface Thrash {
  /** Turns so far. */
  readonly turn: number
  /** The turn of the last compaction; `undefined` before the first. */
  readonly last: number | undefined
  readonly poor: number
  readonly refills: number
}

export const initial: Thrash = { turn: 0, last: undefined, poor: 0, refills: 0 }

type Rules = CompactionPolicy["thrash"]

/** A turn begins. */
export const turn = (state: Thrash): Thrash => ({ ...state, turn: state.turn + 1 })

/** The conversation fits as it is. After some turns of that the past is forgotten. */
export const fits = (state: Thrash, rules: Rules): Thrash =>
  isRecent(state, rules) ? state : { ...state, poor: 0, refills: 0 }

/** The window is full: a refill, if the last compaction was not long ago. What is exhausted stays so. */
export const full = (state: Thrash, rules: Rules): Thrash => {
  if (exhausted(state, rules) !== undefined) return state
  return { ...state, refills: isRecent(state, rules) ? state.refills + 1 : 0 }
}

const isRecent = ({ turn, last }: Thrash, { refillTurns }: Rules): boolean =>
  last !== undefined && turn - last <= refillTurns

/** Why there is to be no other compaction; `undefined`: there may be one. */
export const exhausted = ({ poor, refills }: Thrash, rules: Rules): "poor_gains" | "refills" | undefined =>
  poor >= rules.poorGains ? "poor_gains" : refills >= rules.refills ? "refills" : undefined

/** A compaction has freed `gain`, a share of the limit: 0 where it failed. */
export const compacted = (state: Thrash, gain: number, { poorGain }: Rules): Thrash => ({
  ...state,
  last: state.turn,
  poor: gain < poorGain ? state.poor + 1 : 0
})
