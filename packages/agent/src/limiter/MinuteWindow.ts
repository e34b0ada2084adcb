/**
 * Usage of the last minute, as a pure sliding window.
 *
 * Time is divided into slots of {@link slotLength}. The usage of a slot counts until a whole minute after its end.
 * The count is therefore never below the real usage of any minute, and a limit holds in every minute, wherever it
 * begins. A fixed window or a bucket would let twice the limit pass around its edge.
 *
 * At most {@link slots} slots are kept, for any usage. Times are monotonic milliseconds.
 */

/** One minute in milliseconds. */
export const length = 60_000

/** Length of a slot in milliseconds: the longest time that usage counts beyond a minute. */
export const slotLength = 1_000

/** Slots of a minute, plus the current one. */
export const slots = length / slotLength + 1

interface Slot {
  /** Number of the slot: `floor(now / slotLength)`. */
  readonly index: number
  readonly amount: number
}

export interface MinuteWindow {
  /** The newest slot. Most uses change only this one. */
  readonly current: Slot
  /** Older slots, oldest first. */
  readonly past: ReadonlyArray<Slot>
  readonly pastTotal: number
}

export const empty: MinuteWindow = { current: { index: -Infinity, amount: 0 }, past: [], pastTotal: 0 }

/** Slot of a use at this time, for {@link correct}. */
export const slotOf = (now: number): number => Math.floor(now / slotLength)

/** Adds a use. */
export const add = (window: MinuteWindow, amount: number, now: number): MinuteWindow => {
  const { current, past, pastTotal } = at(window, now)
  return { current: { index: current.index, amount: current.amount + amount }, past, pastTotal }
}

/** Corrects an earlier use by `by`, which may be negative. Slots that were dropped stay dropped. */
export const correct = (window: MinuteWindow, slot: number, by: number): MinuteWindow => {
  const corrected = ({ index, amount }: Slot): Slot => ({ index, amount: Math.max(0, amount + by) })
  if (window.current.index === slot) return { ...window, current: corrected(window.current) }
  const past = window.past.map((one) => (one.index === slot ? corrected(one) : one))
  return { ...window, past, pastTotal: sum(past) }
}

/** Usage that counts now. */
export const used = (window: MinuteWindow, now: number): number => {
  const { current, pastTotal } = at(window, now)
  return current.amount + pastTotal
}

/**
 * Earliest time at which the amount fits under the limit: `now` or later. An amount above the limit fits in parts:
 * one full minute for each earlier part, then the last part.
 */
export const freeAt = (window: MinuteWindow, limit: number, amount: number, now: number): number => {
  const minutes = Math.max(0, Math.ceil(amount / limit) - 1)
  const room = limit - (amount - minutes * limit)
  const { current, past, pastTotal } = at(window, now)
  let total = current.amount + pastTotal
  let free = now
  for (const slot of [...past, current]) {
    if (total <= room) break
    total -= slot.amount
    free = Math.max(now, (slot.index + 1) * slotLength + length)
  }
  return free + minutes * length
}

/** Advances the window to the slot of this time, and drops slots that are too old. */
const at = (window: MinuteWindow, now: number): MinuteWindow => {
  const index = slotOf(now)
  if (index <= window.current.index) return window
  const past = [...window.past, window.current].filter(
    (slot) => slot.amount > 0 && slot.index > index - slots
  )
  return { current: { index, amount: 0 }, past, pastTotal: sum(past) }
}

const sum = (slots: ReadonlyArray<Slot>): number => slots.reduce((total, { amount }) => total + amount, 0)
