/**
 * Detects when compaction no longer helps. Pure state machine; its inputs are turns and compactions.
 *
 * It counts consecutive `poor` compactions, which freed too little: the window is filling with parts that cannot be
 * cut, and one more compaction would cost as much and help as little. A window that is soon full again after a
 * compaction that freed much is normal work (e.g. an agent that reads long files). It never counts as thrash; the
 * next compaction only uses a stronger tier.
 */
import type { CompactionPolicy } from "./CompactionPolicy.ts"

export interface Thrash {
  /** Turns so far. */
  readonly turn: number
  /** Turn of the last compaction; `undefined` before the first. */
  readonly last: number | undefined
  readonly poor: number
}

export const initial: Thrash = { turn: 0, last: undefined, poor: 0 }

type Rules = CompactionPolicy["thrash"]

/** A turn begins. */
export const turn = (state: Thrash): Thrash => ({ ...state, turn: state.turn + 1 })

/** The conversation fits without a compaction. After some such turns the count starts again at 0. */
export const fits = (state: Thrash, rules: Rules): Thrash =>
  isRecent(state, rules) ? state : { ...state, poor: 0 }

/** True when the last compaction was a few turns ago. A window that is full now was refilled quickly. */
export const isRecent = ({ turn, last }: Thrash, { refillTurns }: Rules): boolean =>
  last !== undefined && turn - last <= refillTurns

/** True when compaction must stop. */
export const isExhausted = ({ poor }: Thrash, { poorGains }: Rules): boolean => poor >= poorGains

/** A compaction freed `gain`, a share of the limit. Use 0 for a failed one. */
export const compacted = (state: Thrash, gain: number, { poorGain }: Rules): Thrash => ({
  ...state,
  last: state.turn,
  poor: gain < poorGain ? state.poor + 1 : 0
})
