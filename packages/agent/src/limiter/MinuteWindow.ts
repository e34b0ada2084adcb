/**
 * How much was used within the last minute, as a pure sliding window.
 *
 * Time is cut into slots of {@link slotLength}; what was used in one counts until a whole minute after its end. So
 * what is counted is never less than what was used in any minute, and a limit that is kept here is kept in every
 * window of a minute, wherever it begins. A fixed window or a bucket would let twice the limit pass around its edge.
 *
 * At most {@link slots} slots are kept, however much is used. Times are monotonic milliseconds.
 */

/** Milliseconds. */
export const length = 60_000

/** Milliseconds: by how much a use may count longer than a minute. */
export const slotLength = 1_000

/** Those of a minute, and the one that is not over. */
export const slots = length / slotLength + 1

interface Slot {
  /** Which part of time it is: `floor(now / slotLength)`. */
  readonly index: number
  readonly amount: number
}

export interface MinuteWindow {
  /** The newest; it is all that most uses change. */
  readonly current: Slot
  /** Those before it, oldest first. */
  readonly past: ReadonlyArray<Slot>
  readonly pastTotal: number
}

export const empty: MinuteWindow = { current: { index: -Infinity, amount: 0 }, past: [], pastTotal: 0 }

/** Where a use at this time is counted: for {@link correct}. */
export const slotOf = (now: number): number => Math.floor(now / slotLength)

/** The window after a use. */
export const add = (window: MinuteWindow, amount: number, now: number): MinuteWindow => {
  const { current, past, pastTotal } = at(window, now)
  return { current: { index: current.index, amount: current.amount + amount }, past, pastTotal }
}

/** The window when a use in a slot was larger by `by` than was counted, or smaller. What is forgotten stays so. */
export const correct = (window: MinuteWindow, slot: number, by: number): MinuteWindow => {
  const corrected = ({ index, amount }: Slot): Slot => ({ index, amount: Math.max(0, amount + by) })
  if (window.current.index === slot) return { ...window, current: corrected(window.current) }
  const past = window.past.map((one) => (one.index === slot ? corrected(one) : one))
  return { ...window, past, pastTotal: sum(past) }
}

/** What counts now. */
export const used = (window: MinuteWindow, now: number): number => {
  const { current, pastTotal } = at(window, now)
  return current.amount + pastTotal
}

/**
 * When so much more fits under a limit: `now` or later. For more than the limit itself it is when the last part fits,
 * after as many full minutes as the others take.
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

/** The window with the slot of this time as its current one, and without those that are too old. */
const at = (window: MinuteWindow, now: number): MinuteWindow => {
  const index = slotOf(now)
  if (index <= window.current.index) return window
  const past = [...window.past, window.current].filter(
    (slot) => slot.amount > 0 && slot.index > index - slots
  )
  return { current: { index, amount: 0 }, past, pastTotal: sum(past) }
}

const sum = (slots: ReadonlyArray<Slot>): number => slots.reduce((total, { amount }) => total + amount, 0)
