/**
 * Detects when compaction no longer helps. Pure state machine; its inputs are turns and compactions.
 *
 * It counts consecutive `poor` compactions, which freed too little, and consecutive `refills`, which came within a
 * few turns of a compaction. When either reaches its limit, the window is filling with parts that cannot be cut. One
 * more compaction would cost as much and help as little.
 */
import type { CompactionPolicy } from "./CompactionPolicy.ts"

export interface Thrash {
  /** Turns so far. */
  readonly turn: number
  /** Turn of the last compaction; `undefined` before the first. */
  readonly last: number | undefined
  readonly poor: number
  readonly refills: number
}

export const initial: Thrash = { turn: 0, last: undefined, poor: 0, refills: 0 }

type Rules = CompactionPolicy["thrash"]

/** A turn begins. */
export const turn = (state: Thrash): Thrash => ({ ...state, turn: state.turn + 1 })

/** The conversation fits without a compaction. After some such turns the counters start again at 0. */
export const fits = (state: Thrash, rules: Rules): Thrash =>
  isRecent(state, rules) ? state : { ...state, poor: 0, refills: 0 }

/** The window is full. Counts as a refill when the last compaction was recent. An exhausted state does not change. */
export const full = (state: Thrash, rules: Rules): Thrash => {
  if (exhausted(state, rules) !== undefined) return state
  return { ...state, refills: isRecent(state, rules) ? state.refills + 1 : 0 }
}

const isRecent = ({ turn, last }: Thrash, { refillTurns }: Rules): boolean =>
  last !== undefined && turn - last <= refillTurns

/** Reason to stop compacting; `undefined` while it may continue. */
export const exhausted = ({ poor, refills }: Thrash, rules: Rules): "poor_gains" | "refills" | undefined =>
  poor >= rules.poorGains ? "poor_gains" : refills >= rules.refills ? "refills" : undefined

/** A compaction freed `gain`, a share of the limit. Use 0 for a failed one. */
export const compacted = (state: Thrash, gain: number, { poorGain }: Rules): Thrash => ({
  ...state,
  last: state.turn,
  poor: gain < poorGain ? state.poor + 1 : 0
})
